// Package dataset makes and keeps the benchmark's data sets, and judges answers by their ground truth.
//
// The generator is Python and pylance alone: the library under test takes no part in the data it is judged on.
package dataset

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

//go:embed python/generate.py
var generator []byte

//go:embed python/embed_text.py
var embedder []byte

// Sets of queries: timings and recall come from Judge; Calib is for choosing constants, so that they are not fitted to what judges them.
const (
	Judge = "judge"
	Calib = "calib"
)

// Meta is what the generator recorded.
type Meta struct {
	Spec      spec.Data `json:"spec"`
	Version   uint64    `json:"version"`
	Rows      int       `json:"rows"`
	Fragments [][2]int  `json:"fragments"`
	Segments  int       `json:"segments"`
	Truth     map[string]struct {
		MatchingRows int `json:"matching_rows"`
	} `json:"truth"`
	Hash    string            `json:"hash"`
	Bytes   int64             `json:"bytes"`
	MadeBy  map[string]string `json:"made_by"`
	Seconds float64           `json:"seconds"`
}

// Set is a prepared data set.
type Set struct {
	Meta
	Dir string
}

// Store keeps data sets below a folder.
type Store struct {
	Root   string
	Python string // interpreter with pylance and numpy
	// TextPython returns an interpreter with the sentence model, made on first use.
	TextPython func(context.Context) (string, error)
	Log        *os.File
}

// Table is the folder of the Lance table.
func (s *Set) Table() string { return filepath.Join(s.Dir, "table.lance") }

// QueryFile is the file of a query set's vectors: float32, Spec.Queries x Spec.Dim.
func (s *Set) QueryFile(set string) string { return filepath.Join(s.Dir, set+".queries.f32") }

// Prepare returns the data set, making it first when the store lacks it. Makers of the same data wait for each other.
func (s *Store) Prepare(ctx context.Context, d spec.Data) (*Set, error) {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Root, d.Name+"-"+d.Hash(generator)[:12])
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(lock.Name()), err)
	}
	set, err := open(dir)
	if err == nil {
		return set, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := s.make(ctx, d, dir); err != nil {
		return nil, fmt.Errorf("data set %s: %w", d.Name, err)
	}
	return open(dir)
}

func (s *Store) make(ctx context.Context, d spec.Data, dir string) error {
	args := []string{}
	if d.Source == "text" {
		embeddings, err := s.embeddings(ctx)
		if err != nil {
			return err
		}
		args = append(args, embeddings)
	}
	temporary := dir + ".partial"
	if err := os.RemoveAll(temporary); err != nil {
		return err
	}
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	script, specFile := dir+".generate.py", dir+".spec.json"
	defer os.Remove(script)
	defer os.Remove(specFile)
	if err := errors.Join(os.WriteFile(script, generator, 0o644), os.WriteFile(specFile, text, 0o644)); err != nil {
		return err
	}
	if err := s.python(ctx, s.Python, append([]string{script, specFile, temporary}, args...)...); err != nil {
		return err
	}
	return os.Rename(temporary, dir)
}

// embeddings makes the sentence vectors once; every data set of text is cut from them.
func (s *Store) embeddings(ctx context.Context) (string, error) {
	out := filepath.Join(s.Root, "wordnet-minilm.npz")
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	python, err := s.TextPython(ctx)
	if err != nil {
		return "", err
	}
	script := filepath.Join(s.Root, "embed_text.py")
	if err := os.WriteFile(script, embedder, 0o644); err != nil {
		return "", err
	}
	return out, s.python(ctx, python, script, out)
}

func (s *Store) python(ctx context.Context, interpreter string, args ...string) error {
	cmd := exec.CommandContext(ctx, interpreter, args...)
	var last bytes.Buffer
	cmd.Stderr = &tee{s.Log, &last}
	cmd.Stdout = s.Log
	if err := cmd.Run(); err != nil {
		text := last.Bytes()
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, bytes.TrimSpace(text[max(0, len(text)-800):]))
	}
	return nil
}

type tee struct {
	log  *os.File
	last *bytes.Buffer
}

func (t *tee) Write(p []byte) (int, error) {
	t.last.Write(p)
	return t.log.Write(p)
}

func open(dir string) (*Set, error) {
	text, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, err
	}
	set := &Set{Dir: dir}
	if err := json.Unmarshal(text, &set.Meta); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(dir), err)
	}
	return set, set.check()
}

// check compares the sizes on disk with what was hashed when the set was made: enough to notice a set that was cut short or written to.
func (s *Set) check() error {
	var total int64
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(path) == "meta.json" {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	if err != nil {
		return err
	}
	if total != s.Bytes {
		return fmt.Errorf("data set %s holds %d bytes and was made with %d: remove it and prepare again", filepath.Base(s.Dir), total, s.Bytes)
	}
	return nil
}

// Truth is the nearest rows of each query of one set under one filter.
type Truth struct {
	Depth     int
	Matching  int // rows that pass the filter
	ids       []uint64
	distances []float64
}

// Truth loads the ground truth of a query set for rows with `cat` below threshold.
func (s *Set) Truth(set string, threshold int) (*Truth, error) {
	stem := fmt.Sprintf("%s.cat%d", set, threshold)
	info, ok := s.Meta.Truth[stem]
	if !ok {
		return nil, fmt.Errorf("data set %s has no ground truth for filter cat < %d", s.Spec.Name, threshold)
	}
	t := &Truth{Depth: s.Spec.Depth, Matching: info.MatchingRows}
	ids, err := os.ReadFile(filepath.Join(s.Dir, stem+".ids.u64"))
	if err != nil {
		return nil, err
	}
	distances, err := os.ReadFile(filepath.Join(s.Dir, stem+".distances.f64"))
	if err != nil {
		return nil, err
	}
	want := s.Spec.Queries * t.Depth
	if len(ids) != 8*want || len(distances) != 8*want {
		return nil, fmt.Errorf("ground truth %s of %s is cut short", stem, s.Spec.Name)
	}
	t.ids, t.distances = make([]uint64, want), make([]float64, want)
	for i := range want {
		t.ids[i] = binary.LittleEndian.Uint64(ids[8*i:])
		t.distances[i] = math.Float64frombits(binary.LittleEndian.Uint64(distances[8*i:]))
	}
	return t, nil
}

// Queries loads the vectors of a query set, Spec.Dim values each.
func (s *Set) Queries(set string) ([]float32, error) {
	text, err := os.ReadFile(s.QueryFile(set))
	if err != nil {
		return nil, err
	}
	if len(text) != 4*s.Spec.Queries*s.Spec.Dim {
		return nil, fmt.Errorf("query file %s of %s has %d bytes", set, s.Spec.Name, len(text))
	}
	vectors := make([]float32, len(text)/4)
	for i := range vectors {
		vectors[i] = math.Float32frombits(binary.LittleEndian.Uint32(text[4*i:]))
	}
	return vectors, nil
}
