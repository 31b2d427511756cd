package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tool is a program that the checks need, pinned and installed into the cache from its language's registry.
type tool struct {
	name    string
	version string
	pkg     string // Go package; empty: a Rust crate of the tool's name
}

var (
	golangciTool  = tool{name: "golangci-lint", version: "v2.15.0", pkg: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"}
	cargoDenyTool = tool{name: "cargo-deny", version: "0.20.2"}
	cbindgenTool  = tool{name: "cbindgen", version: "0.29.4"}
	allTools      = []tool{golangciTool, cargoDenyTool, cbindgenTool}
)

// tools installs the named tools, or all, and prints the path of each.
func tools(l layout, names []string) error {
	wanted := allTools
	if len(names) > 0 {
		wanted = nil
	}
	for _, name := range names {
		t, err := toolNamed(name)
		if err != nil {
			return err
		}
		wanted = append(wanted, t)
	}
	for _, t := range wanted {
		path, err := install(l, t)
		if err != nil {
			return err
		}
		fmt.Println(path)
	}
	return nil
}

func toolNamed(name string) (tool, error) {
	var known []string
	for _, t := range allTools {
		if t.name == name {
			return t, nil
		}
		known = append(known, t.name)
	}
	return tool{}, fmt.Errorf("unknown tool %q (known: %s): %w", name, strings.Join(known, ", "), errUsage)
}

// folder keeps versions apart, so that checkouts which pin different ones can share a cache.
func (t tool) folder(l layout) string {
	return filepath.Join(l.cache, "tools", t.name+"-"+strings.TrimPrefix(t.version, "v"))
}

// install returns the path of the tool, installing it first if the cache lacks it.
func install(l layout, t tool) (string, error) {
	path := filepath.Join(t.folder(l), "bin", t.name)
	if exists(path) {
		return path, nil
	}
	unlock, err := l.lock("tools")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil
	}
	say("installing %s %s", t.name, t.version)
	var c command
	if t.pkg != "" {
		if err := requirePrograms("", "go"); err != nil {
			return "", err
		}
		env := append(os.Environ(), "GOBIN="+filepath.Dir(path), "GOFLAGS=", "CGO_ENABLED=0")
		c = command{dir: l.cache, env: env, name: "go", args: []string{"install", "-trimpath", t.pkg + "@" + t.version}}
	} else {
		minimum, err := crateRustVersion(filepath.Join(l.crate(), "Cargo.toml"))
		if err != nil {
			return "", err
		}
		if err := requirePrograms(minimum, "cargo", "rustc", "cc"); err != nil {
			return "", err
		}
		env := append(os.Environ(), "CARGO_TARGET_DIR="+filepath.Join(l.cache, "tools", "target"))
		c = command{
			dir: l.cache, env: env, name: "cargo",
			args: []string{"install", t.name, "--version", t.version, "--locked", "--root", t.folder(l)},
		}
	}
	if err := c.run(); err != nil {
		return "", err
	}
	if !exists(path) {
		return "", fmt.Errorf("%s did not install %s", c, path)
	}
	return path, nil
}
