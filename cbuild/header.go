package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// header replaces the committed header by what cbindgen generates from the crate.
func header(l layout) error {
	text, err := generateHeader(l)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(l.header()); err == nil && bytes.Equal(old, text) {
		say("%s is up to date", l.relative(l.header()))
		return nil
	}
	if err := writeAtomically(l.header(), text); err != nil {
		return err
	}
	say("wrote %s", l.relative(l.header()))
	return nil
}

func headerCheck(l layout) error {
	text, err := generateHeader(l)
	if err != nil {
		return err
	}
	committed, err := os.ReadFile(l.header())
	if err != nil {
		return err
	}
	if line := firstDifference(committed, text); line > 0 {
		return fmt.Errorf("%s differs from the crate at line %d: run make header and commit it", l.relative(l.header()), line)
	}
	return nil
}

func generateHeader(l layout) ([]byte, error) {
	cbindgen, err := install(l, cbindgenTool)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lanceknn-header-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "lance_ffi.h")
	generate := command{
		dir: l.crate(), name: cbindgen,
		args: []string{"--quiet", "--config", "cbindgen.toml", "--lockfile", "Cargo.lock", "--output", out},
	}
	if err := generate.run(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	if len(declaredSymbols(string(text))) == 0 {
		return nil, errors.New("cbindgen generated a header without a lance_ffi_ function: see its warnings above")
	}
	return append(bytes.TrimRight(text, "\n"), '\n'), nil
}

// firstDifference gives the number of the first line in which two texts differ, counted from 1; 0 if they are equal.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return 0
	}
	left, right := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(left), len(right)) {
		if !bytes.Equal(left[i], right[i]) {
			return i + 1
		}
	}
	return min(len(left), len(right)) + 1
}
