package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cargoEnv is the environment of every cargo run over the crate. All of them must agree on it, since cargo compiles the
// whole tree again under other flags. ambient names the variables left out because they would do that.
func (l layout) cargoEnv(environ []string, protoc string) (env, ambient []string) {
	targetFlags := "CARGO_TARGET_" + strings.ToUpper(strings.ReplaceAll(l.triple, "-", "_")) + "_RUSTFLAGS"
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case name == "CARGO_TARGET_DIR" || name == "PROTOC":
		case name == "RUSTFLAGS" || name == "CARGO_ENCODED_RUSTFLAGS" || name == "CARGO_BUILD_RUSTFLAGS" ||
			name == targetFlags || strings.HasPrefix(name, "CARGO_PROFILE_"):
			if value != "" {
				ambient = append(ambient, kv)
			}
		default:
			env = append(env, kv)
		}
	}
	env = append(env, "CARGO_TARGET_DIR="+l.targetDir(), "PROTOC="+protoc)
	if flags := l.rustflags(); flags != "" {
		env = append(env, "RUSTFLAGS="+flags)
	}
	slices.Sort(ambient)
	return env, ambient
}

func (l layout) rustflags() string {
	if l.targetCPU == "" {
		return ""
	}
	return "-C target-cpu=" + l.targetCPU
}

// toolchain is what a build of the crate needs of the machine.
type toolchain struct {
	rustc  string // rustc's own version line
	protoc string
}

func (l layout) toolchain() (toolchain, error) {
	minimum, err := crateRustVersion(filepath.Join(l.crate(), "Cargo.toml"))
	if err != nil {
		return toolchain{}, err
	}
	if err := requirePrograms(minimum, "cargo", "rustc", "cc"); err != nil {
		return toolchain{}, err
	}
	rustc, err := l.rustcVersion()
	if err != nil {
		return toolchain{}, err
	}
	if err := checkRustVersion(rustc, minimum); err != nil {
		return toolchain{}, err
	}
	protoc, err := l.protoc()
	if err != nil {
		return toolchain{}, err
	}
	return toolchain{rustc: rustc, protoc: protoc}, nil
}

func (l layout) rustcVersion() (string, error) {
	return command{dir: l.crate(), name: "rustc", args: []string{"--version"}}.output()
}

// protoc finds a protobuf compiler: the caller's, one on PATH, or the one that a registry crate carries.
func (l layout) protoc() (string, error) {
	if path := os.Getenv("PROTOC"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("protoc"); err == nil {
		return path, nil
	}
	env, _ := l.cargoEnv(os.Environ(), "")
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "RUSTFLAGS=") || strings.HasPrefix(kv, "PROTOC=")
	})
	env = append(env, "CARGO_TARGET_DIR="+filepath.Join(l.cache, "protoc"))
	path, err := command{
		dir: filepath.Join(l.root, "cbuild", "protoc"), env: env,
		name: "cargo", args: []string{"run", "--quiet", "--locked"},
	}.output()
	if err != nil {
		return "", fmt.Errorf("protoc is not on PATH and the crate that carries one could not be built "+
			"(put a protoc on PATH, or set PROTOC): %w", err)
	}
	return path, nil
}

// cargo runs cargo over the crate exactly as the build does, for tests and lints.
func cargo(l layout, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("cargo needs arguments: %w", errUsage)
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
	return l.runCargo(tc, args...)
}

func (l layout) runCargo(tc toolchain, args ...string) error {
	if err := l.claimTarget(); err != nil {
		return err
	}
	env, ambient := l.cargoEnv(os.Environ(), tc.protoc)
	for _, kv := range ambient {
		say("ignoring %s from the environment: set LANCEKNN_TARGET_CPU to build for another CPU", kv)
	}
	return command{dir: l.crate(), env: env, name: "cargo", args: args}.run()
}

var rustVersionLine = regexp.MustCompile(`(?m)^rust-version\s*=\s*"([^"]+)"`)

// crateRustVersion reads the oldest Rust that the crate says it takes.
func crateRustVersion(manifest string) (string, error) {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return "", err
	}
	m := rustVersionLine.FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s has no rust-version", manifest)
	}
	return string(m[1]), nil
}

var rustcVersionLine = regexp.MustCompile(`^rustc (\d+)\.(\d+)`)

func checkRustVersion(rustc, minimum string) error {
	m := rustcVersionLine.FindStringSubmatch(rustc)
	if m == nil {
		return fmt.Errorf("rustc --version printed %q, which names no version", rustc)
	}
	wantMajor, wantMinor, _ := strings.Cut(minimum, ".")
	wantMinor, _, _ = strings.Cut(wantMinor, ".")
	if number(m[1]) < number(wantMajor) || number(m[1]) == number(wantMajor) && number(m[2]) < number(wantMinor) {
		return fmt.Errorf("%s is too old: Rust %s or newer is needed (rustup update stable)", rustc, minimum)
	}
	return nil
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
