package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// layout says where everything is and what is built for.
type layout struct {
	root      string // the checkout
	cache     string
	goos      string
	goarch    string
	triple    string // Rust's name of the target
	targetCPU string // empty: rustc's default
}

func newLayout(getenv func(string) string) (layout, error) {
	wd, err := os.Getwd()
	if err != nil {
		return layout{}, err
	}
	root, err := findRoot(wd)
	if err != nil {
		return layout{}, err
	}
	cache, err := cacheDir(getenv)
	if err != nil {
		return layout{}, err
	}
	triple, err := targetTriple(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return layout{}, err
	}
	return layout{
		root:      root,
		cache:     cache,
		goos:      runtime.GOOS,
		goarch:    runtime.GOARCH,
		triple:    triple,
		targetCPU: targetCPU(runtime.GOARCH, getenv("LANCEKNN_TARGET_CPU")),
	}, nil
}

func (l layout) crate() string     { return filepath.Join(l.root, "lance-ffi") }
func (l layout) header() string    { return filepath.Join(l.crate(), "include", "lance_ffi.h") }
func (l layout) dist() string      { return filepath.Join(l.root, "cbuild", "dist", l.goos+"_"+l.goarch) }
func (l layout) targetDir() string { return filepath.Join(l.cache, "target") }
func (l layout) release() string   { return filepath.Join(l.targetDir(), l.triple, "release") }

// findRoot walks up to the folder that holds both the Go module and the crate.
func findRoot(dir string) (string, error) {
	for d := dir; ; {
		if exists(filepath.Join(d, "go.mod")) && exists(filepath.Join(d, "lance-ffi", "Cargo.toml")) {
			return d, nil
		}
		parent := filepath.Dir(d)
		if parent == d {
			return "", fmt.Errorf("no go.mod beside lance-ffi/Cargo.toml in %s or above: run it inside a checkout of lanceknn", dir)
		}
		d = parent
	}
}

func cacheDir(getenv func(string) string) (string, error) {
	if dir := getenv("LANCEKNN_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("neither LANCEKNN_CACHE nor HOME is set: set LANCEKNN_CACHE to a folder for build artefacts")
	}
	return filepath.Join(home, ".cache", "lanceknn"), nil
}

func targetTriple(goos, goarch string) (string, error) {
	switch goos + "/" + goarch {
	case "linux/amd64":
		return "x86_64-unknown-linux-gnu", nil
	case "linux/arm64":
		return "aarch64-unknown-linux-gnu", nil
	}
	return "", fmt.Errorf("%s/%s is not supported: the native library is built for linux/amd64 and linux/arm64", goos, goarch)
}

// targetCPU defaults to v3 on x86-64, since Lance's distance kernels are several times slower without AVX2 and FMA.
func targetCPU(goarch, override string) string {
	if override != "" {
		return override
	}
	if goarch == "amd64" {
		return "x86-64-v3"
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
