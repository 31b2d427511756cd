package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// product is a library that cargo makes of the crate.
type product struct {
	file  string
	cargo []string // arguments before those that every build has
	// prepare changes or refuses the copy in dist before it is put into place.
	prepare func(l layout, path string) (stripped bool, err error)
}

var (
	sharedLibrary = product{
		file: "liblance_ffi.so", cargo: []string{"build", "--lib"},
		prepare: func(l layout, path string) (bool, error) {
			stripped, err := strip(path)
			if err != nil {
				return false, err
			}
			return stripped, checkSymbols(l.header(), path)
		},
	}
	// Not a crate type in Cargo.toml, since few need it and every build would pay for it.
	staticLibrary = product{
		file: "liblance_ffi.a", cargo: []string{"rustc", "--lib", "--crate-type", "staticlib"},
		prepare: func(layout, string) (bool, error) { return false, nil },
	}
)

// manifest says what a library in dist is and what it was built from. Key decides whether it is up to date.
type manifest struct {
	artefact
	Key       string `json:"key"`
	Lance     string `json:"lance"`
	Target    string `json:"target"`
	TargetCPU string `json:"target_cpu,omitempty"`
	Rustc     string `json:"rustc"`
	Stripped  bool   `json:"stripped"`
}

type artefact struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// build leaves an up-to-date library in dist, or does nothing if one is there.
func build(l layout, p product) error {
	minimum, err := crateRustVersion(filepath.Join(l.crate(), "Cargo.toml"))
	if err != nil {
		return err
	}
	if err := requirePrograms(minimum, "cargo", "rustc"); err != nil {
		return err
	}
	rustc, err := l.rustcVersion()
	if err != nil {
		return err
	}
	key, err := l.buildKey(rustc)
	if err != nil {
		return err
	}
	if l.upToDate(p, key) {
		say("%s is up to date", l.relative(filepath.Join(l.dist(), p.file)))
		return nil
	}
	tc, err := l.toolchain()
	if err != nil {
		return err
	}
	unlock, err := l.lock("cargo")
	if err != nil {
		return err
	}
	defer unlock()
	start := time.Now()
	say("building %s for %s (about 40 minutes on 2 cores with an empty cache %s)", p.file, l.describeTarget(), l.cache)
	if err := l.runCargo(tc, append(slices.Clone(p.cargo), "--release", "--locked", "--target", l.triple)...); err != nil {
		return err
	}
	if after, err := l.buildKey(rustc); err != nil {
		return err
	} else if after != key {
		say("a source changed during the build: build again to be sure of its state")
		key = ""
	}
	m, err := l.install(p, key, rustc)
	if err != nil {
		return err
	}
	say("built %s, %d MB, in %s", l.relative(filepath.Join(l.dist(), p.file)), m.Bytes>>20, time.Since(start).Round(time.Second))
	return nil
}

func (l layout) describeTarget() string {
	if l.targetCPU == "" {
		return l.triple
	}
	return l.triple + " (" + l.targetCPU + ")"
}

func (l layout) relative(path string) string {
	if rel, err := filepath.Rel(l.root, path); err == nil {
		return rel
	}
	return path
}

// buildKey digests everything that the library depends on: the crate, the flags and the compiler. Dependencies are
// fixed by Cargo.lock.
func (l layout) buildKey(rustc string) (string, error) {
	files, err := crateSources(l.crate())
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n", l.triple, l.rustflags(), rustc)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(l.crate(), f))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(f), len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// crateSources lists, sorted and relative to the crate, the files that cargo build reads.
func crateSources(crate string) ([]string, error) {
	var files []string
	for _, name := range []string{"Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain.toml", filepath.Join("include", "lance_ffi.h")} {
		if exists(filepath.Join(crate, name)) {
			files = append(files, name)
		}
	}
	for _, folder := range []string{"src", ".cargo"} {
		err := filepath.WalkDir(filepath.Join(crate, folder), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && folder != "src" {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(crate, path)
			files = append(files, rel)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return files, nil
}

// upToDate reports whether dist holds what key stands for, whole.
func (l layout) upToDate(p product, key string) bool {
	text, err := os.ReadFile(filepath.Join(l.dist(), p.file+".json"))
	if err != nil {
		return false
	}
	var m manifest
	if json.Unmarshal(text, &m) != nil || key == "" || m.Key != key {
		return false
	}
	got, err := digest(filepath.Join(l.dist(), p.file))
	return err == nil && got == m.artefact
}

// claimTarget makes cargo rebuild the crate if another checkout used the target folder last. Cargo tells sources apart
// by their modification times and names artefacts by paths relative to the workspace, so it would take the library of
// that checkout for this one's whenever this one's files are older.
func (l layout) claimTarget() error {
	owner := filepath.Join(l.release(), "lanceknn-checkout")
	last, err := os.ReadFile(owner)
	if err == nil && string(last) == l.root {
		return nil
	}
	if exists(l.release()) {
		say("the target folder was last used by another checkout: compiling lance-ffi again")
		env, _ := l.cargoEnv(os.Environ(), "")
		clean := command{
			dir: l.crate(), env: env, name: "cargo",
			args: []string{"clean", "--quiet", "--locked", "--release", "--target", l.triple, "--package", "lance-ffi"},
		}
		if err := clean.run(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(l.release(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(owner, []byte(l.root), 0o644)
}

// install copies a library into dist, prepares it, and writes the manifest last, so that a half-finished install is never
// taken for an up-to-date one.
func (l layout) install(p product, key, rustc string) (manifest, error) {
	lock, err := os.ReadFile(filepath.Join(l.crate(), "Cargo.lock"))
	if err != nil {
		return manifest{}, err
	}
	m := manifest{Key: key, Lance: lockedVersion(lock, "lance"), Target: l.triple, TargetCPU: l.targetCPU, Rustc: rustc}
	if err := os.MkdirAll(l.dist(), 0o755); err != nil {
		return manifest{}, err
	}
	path := filepath.Join(l.dist(), p.file)
	if err := os.Remove(path + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return manifest{}, err
	}
	err = copyAtomically(filepath.Join(l.release(), p.file), path, func(copied string) (err error) {
		m.Stripped, err = p.prepare(l, copied)
		return err
	})
	if err != nil {
		return manifest{}, err
	}
	if m.artefact, err = digest(path); err != nil {
		return manifest{}, err
	}
	if err := writeAtomically(path+".sha256", fmt.Appendf(nil, "%s  %s\n", m.SHA256, m.Name)); err != nil {
		return manifest{}, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return manifest{}, err
	}
	return m, writeAtomically(path+".json", append(text, '\n'))
}

// strip drops the symbols that loading does not need, if binutils are there.
func strip(path string) (bool, error) {
	if _, err := exec.LookPath("strip"); err != nil {
		say("strip is not on PATH: leaving the library with all its symbols")
		return false, nil
	}
	return true, command{name: "strip", args: []string{"--strip-unneeded", path}}.run()
}

func digest(path string) (artefact, error) {
	f, err := os.Open(path)
	if err != nil {
		return artefact{}, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return artefact{}, err
	}
	return artefact{Name: filepath.Base(path), Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// copyAtomically copies from to a temporary file beside to, lets prepare change or refuse it, and renames it into place:
// a process that has the old library mapped keeps it.
func copyAtomically(from, to string, prepare func(path string) error) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(out.Name()) }()
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := prepare(out.Name()); err != nil {
		return err
	}
	if err := os.Chmod(out.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

func writeAtomically(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// lockedVersion finds the version of a crate in the text of a Cargo.lock; empty if it is not there.
func lockedVersion(lock []byte, crate string) string {
	m := regexp.MustCompile(`(?m)^name = "` + regexp.QuoteMeta(crate) + `"\nversion = "([^"]+)"`).FindSubmatch(lock)
	if m == nil {
		return ""
	}
	return string(m[1])
}
