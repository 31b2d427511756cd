// Package pylance lets tests ask pylance for datasets and for answers to compare with, through one long-running
// Python process.
package pylance

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

//go:embed bridge.py
var script string

// Args are the arguments of a request, named as in bridge.py.
type Args map[string]any

// Bridge is a Python process that answers requests one at a time. It is safe for concurrent use.
type Bridge struct {
	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *tail
}

// Overlays is the environment variable without which a release build of Lance refuses data overlay files.
const Overlays = "LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES"

var shared Bridge

// Shared returns the process of this test binary, and ends the test when Python or pylance is missing.
func Shared(t testing.TB) *Bridge {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cmd == nil {
		if err := shared.start(); err != nil {
			t.Fatalf("pylance is the oracle of this test and cannot be used: %v; run `make test`, which installs it", err)
		}
	}
	return &shared
}

// Stop ends the shared process, if it runs. TestMain calls it last.
func Stop() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.stop()
}

// Python is the interpreter with pylance: LANCEKNN_PYTHON, else that of the virtual environment made by `make test`.
func Python() string {
	if p := os.Getenv("LANCEKNN_PYTHON"); p != "" {
		return p
	}
	cache := os.Getenv("LANCEKNN_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "python3"
		}
		cache = filepath.Join(home, ".cache", "lanceknn")
	}
	return filepath.Join(cache, "venv", "bin", "python")
}

func (b *Bridge) start() error {
	cmd := exec.Command(Python(), "-c", script)
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "LANCE_LOG=error", Overlays+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	b.stderr = &tail{}
	cmd.Stderr = b.stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	b.cmd, b.stdin, b.stdout = cmd, stdin, bufio.NewReaderSize(stdout, 1<<20)
	if _, err := b.roundTrip(Args{"op": "ping"}); err != nil {
		b.stop()
		return err
	}
	return nil
}

func (b *Bridge) stop() {
	if b.cmd == nil {
		return
	}
	_ = b.stdin.Close()
	_ = b.cmd.Wait()
	b.cmd = nil
}

// roundTrip sends one request and returns the answer; the lock is held.
func (b *Bridge) roundTrip(request Args) ([]byte, error) {
	line, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if _, err := b.stdin.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%w; stderr: %s", err, b.stderr)
	}
	answer, err := b.stdout.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the process ended: %w; stderr: %s", err, b.stderr)
	}
	return answer, nil
}

// Call runs an operation of bridge.py and decodes its answer into out, which may be nil. An error of pylance is an
// error here, with its text.
func (b *Bridge) Call(op string, args Args, out any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cmd == nil {
		if err := b.start(); err != nil {
			return err
		}
	}
	request := Args{"op": op}
	for k, v := range args {
		request[k] = v
	}
	answer, err := b.roundTrip(request)
	if err != nil {
		b.stop()
		return fmt.Errorf("pylance %s: %w", op, err)
	}
	var failure struct{ Error string }
	if err := json.Unmarshal(answer, &failure); err != nil {
		return err
	}
	if failure.Error != "" {
		return fmt.Errorf("pylance %s: %s", op, failure.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Commit runs an operation that makes a new version and returns its number.
func (b *Bridge) Commit(t testing.TB, op string, args Args) uint64 {
	t.Helper()
	var out struct{ Version uint64 }
	if err := b.Call(op, args, &out); err != nil {
		t.Fatal(err)
	}
	return out.Version
}

// Answer is what pylance found for one query vector.
type Answer struct {
	RowIDs    []uint64
	Distances []float32
	IDs       []int64
}

// Nearest runs one whole-dataset scan for each query vector of args.
func (b *Bridge) Nearest(args Args) ([]Answer, error) {
	var out struct {
		Counts    []int
		RowIDs    []byte `json:"row_ids"`
		Distances []byte
		IDs       []byte
	}
	if err := b.Call("nearest", args, &out); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(out.Counts))
	at := 0
	for i, n := range out.Counts {
		a := &answers[i]
		for j := at; j < at+n; j++ {
			a.RowIDs = append(a.RowIDs, binary.LittleEndian.Uint64(out.RowIDs[8*j:]))
			a.Distances = append(a.Distances, math.Float32frombits(binary.LittleEndian.Uint32(out.Distances[4*j:])))
			if len(out.IDs) > 0 {
				a.IDs = append(a.IDs, int64(binary.LittleEndian.Uint64(out.IDs[8*j:])))
			}
		}
		at += n
	}
	return answers, nil
}

// Scan reads columns of the live rows of a version, with `_rowid`.
func (b *Bridge) Scan(args Args) ([]arrow.Record, error) {
	var out struct{ IPC string }
	if err := b.Call("scan", args, &out); err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(out.IPC)
	if err != nil {
		return nil, err
	}
	reader, err := ipc.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer reader.Release()
	var records []arrow.Record
	for reader.Next() {
		r := reader.Record()
		r.Retain()
		records = append(records, r)
	}
	return records, reader.Err()
}

// IPC encodes records for a request.
func IPC(records ...arrow.Record) string {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(records[0].Schema()))
	err := error(nil)
	for _, r := range records {
		err = errors.Join(err, w.Write(r))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // an in-memory buffer fails only on a record that does not fit its own schema
	}
	return base64.StdEncoding.EncodeToString(buf.Bytes())
}

// tail keeps the end of what the process printed.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if n := len(t.buf) - 4096; n > 0 {
		t.buf = t.buf[n:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
