package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Sources identifies the code that ran.
type Sources struct {
	Revision string `json:"revision"`
	Dirty    bool   `json:"dirty"`
	// Hash is over the tree's Go, Rust, Python, C and lock files as they are on disk, committed or not.
	Hash string `json:"hash"`
	// Measured is over those of them that a measurement runs, beside the native library: a figure stays valid while it does not change.
	Measured string `json:"measured"`
}

// Root finds the checkout that holds the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module github.com/lanceknn/lanceknn\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", errors.New("not inside a checkout of lanceknn: run from there")
		}
	}
}

// measured says whether a source file is part of what runs while something is measured.
func measured(name string) bool {
	if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/internal/report/") {
		return false
	}
	for _, folder := range []string{"binding/", "topk/", "distributed/", "bench/internal/"} {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return name == "go.sum"
}

var sourceKinds = []string{".go", ".rs", ".py", ".c", ".h", ".lock", ".sum", ".mod", ".toml"}

// Identify hashes the sources below root.
func Identify(root string) (Sources, error) {
	s := Sources{Revision: output(root, "git", "rev-parse", "HEAD"), Dirty: output(root, "git", "status", "--porcelain") != ""}
	list := output(root, "git", "ls-files", "-co", "--exclude-standard")
	if list == "" {
		return s, fmt.Errorf("git lists no files: the sources cannot be identified")
	}
	names := strings.Split(list, "\n")
	slices.Sort(names)
	all, part := sha256.New(), sha256.New()
	for _, name := range slices.Compact(names) {
		if !slices.Contains(sourceKinds, filepath.Ext(name)) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed as such
		}
		if err != nil {
			return s, err
		}
		var h io.Writer = all
		if measured(name) {
			h = io.MultiWriter(all, part)
		}
		fmt.Fprintf(h, "%s\x00%d\x00%s", name, len(content), content)
	}
	s.Hash, s.Measured = hex.EncodeToString(all.Sum(nil)), hex.EncodeToString(part.Sum(nil))
	return s, nil
}

// Library is the native library under test.
type Library struct {
	Path   string `json:"-"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// FindLibrary returns the library named by LANCE_FFI_LIB, else the one cbuild made.
func FindLibrary(root string) (Library, error) {
	path := os.Getenv("LANCE_FFI_LIB")
	if path == "" {
		path = filepath.Join(root, "cbuild", "dist", runtime.GOOS+"_"+runtime.GOARCH, "liblance_ffi.so")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Library{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Library{}, fmt.Errorf("native library: %w: build it with `make native` or name it in LANCE_FFI_LIB", err)
	}
	defer file.Close()
	h := sha256.New()
	n, err := io.Copy(h, file)
	if err != nil {
		return Library{}, err
	}
	return Library{Path: path, SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n}, nil
}
