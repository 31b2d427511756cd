package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// venv makes a private Python environment with the packages of tests/requirements.txt and prints its interpreter.
func venv(l layout) error {
	if err := requirePrograms("", "python3"); err != nil {
		return err
	}
	requirements := filepath.Join(l.root, "tests", "requirements.txt")
	text, err := os.ReadFile(requirements)
	if err != nil {
		return err
	}
	version, err := command{name: "python3", args: []string{"--version"}}.output()
	if err != nil {
		return err
	}
	unlock, err := l.lock("venv")
	if err != nil {
		return err
	}
	defer unlock()
	folder := filepath.Join(l.cache, "venv")
	python := filepath.Join(folder, "bin", "python")
	stamp := filepath.Join(folder, "lanceknn-requirements")
	key := venvKey(version, text)
	if have, err := os.ReadFile(stamp); err != nil || string(have) != key || !works(python) {
		if err := fillVenv(folder, python, requirements); err != nil {
			return err
		}
		if err := writeAtomically(stamp, []byte(key)); err != nil {
			return err
		}
	}
	fmt.Println(python)
	return nil
}

func venvKey(pythonVersion string, requirements []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", pythonVersion)
	h.Write(requirements)
	return hex.EncodeToString(h.Sum(nil)) + "\n"
}

func works(python string) bool {
	return exec.Command(python, "-c", "").Run() == nil
}

func fillVenv(folder, python, requirements string) error {
	say("installing %s into %s", filepath.Base(requirements), folder)
	if !works(python) {
		create := command{name: "python3", args: []string{"-m", "venv", "--clear", folder}}
		if err := create.run(); err != nil {
			return fmt.Errorf("python3 cannot make a virtual environment (Debian: apt-get install python3-venv): %w", err)
		}
	}
	return command{
		name: python,
		args: []string{"-m", "pip", "install", "--quiet", "--no-input", "--requirement", requirements},
	}.run()
}
