package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testLayout(t *testing.T) layout {
	t.Helper()
	dir := t.TempDir()
	l := layout{
		root: filepath.Join(dir, "checkout"), cache: filepath.Join(dir, "cache"),
		goos: "linux", goarch: "amd64", triple: "x86_64-unknown-linux-gnu", targetCPU: "x86-64-v3",
	}
	write(t, filepath.Join(l.root, "go.mod"), "module m\n")
	write(t, filepath.Join(l.crate(), "Cargo.toml"), "[package]\nrust-version = \"1.94\"\n")
	write(t, filepath.Join(l.crate(), "Cargo.lock"), "[[package]]\nname = \"lance\"\nversion = \"14.0.2\"\n")
	write(t, filepath.Join(l.crate(), "src", "lib.rs"), "pub fn f() {}\n")
	return l
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestFindRoot_FromBelowAndOutside(t *testing.T) {
	l := testLayout(t)
	below := filepath.Join(l.root, "a", "b")
	require.NoError(t, os.MkdirAll(below, 0o755))
	got, err := findRoot(below)
	require.NoError(t, err)
	require.Equal(t, l.root, got)

	_, err = findRoot(t.TempDir())
	require.ErrorContains(t, err, "run it inside a checkout")
}

func TestCacheDir(t *testing.T) {
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	got, err := cacheDir(env(map[string]string{"HOME": "/home/x", "LANCEKNN_CACHE": "/big/cache"}))
	require.NoError(t, err)
	require.Equal(t, "/big/cache", got)
	got, err = cacheDir(env(map[string]string{"HOME": "/home/x"}))
	require.NoError(t, err)
	require.Equal(t, "/home/x/.cache/lanceknn", got)
	_, err = cacheDir(env(nil))
	require.ErrorContains(t, err, "LANCEKNN_CACHE")
}

func TestTarget(t *testing.T) {
	triple, err := targetTriple("linux", "arm64")
	require.NoError(t, err)
	require.Equal(t, "aarch64-unknown-linux-gnu", triple)
	_, err = targetTriple("plan9", "386")
	require.ErrorContains(t, err, "plan9/386")

	require.Equal(t, "x86-64-v3", targetCPU("amd64", ""))
	require.Equal(t, "native", targetCPU("amd64", "native"))
	require.Empty(t, targetCPU("arm64", ""))
	require.Empty(t, layout{}.rustflags())
}

func TestCargoEnv_ReplacesWhatWouldRebuildEverything(t *testing.T) {
	l := testLayout(t)
	env, ambient := l.cargoEnv([]string{
		"PATH=/bin", "RUSTFLAGS=-C debuginfo=2", "CARGO_PROFILE_RELEASE_LTO=fat", "CARGO_TARGET_DIR=/elsewhere", "PROTOC=/old",
		"CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=-g", "CARGO_ENCODED_RUSTFLAGS=", "CARGO_HOME=/c",
	}, "/bin/protoc")
	require.ElementsMatch(t, []string{
		"PATH=/bin", "CARGO_HOME=/c", "CARGO_TARGET_DIR=" + l.targetDir(), "PROTOC=/bin/protoc",
		"RUSTFLAGS=-C target-cpu=x86-64-v3",
	}, env)
	require.Equal(t, []string{
		"CARGO_PROFILE_RELEASE_LTO=fat", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=-g", "RUSTFLAGS=-C debuginfo=2",
	}, ambient)
}

func TestCheckRustVersion(t *testing.T) {
	require.NoError(t, checkRustVersion("rustc 1.95.0 (59807616e 2026-04-14)", "1.94"))
	require.NoError(t, checkRustVersion("rustc 1.94.0-nightly (x)", "1.94.1"))
	require.NoError(t, checkRustVersion("rustc 2.0.0 (x)", "1.94"))
	require.ErrorContains(t, checkRustVersion("rustc 1.9.0 (x)", "1.94"), "too old")
	require.ErrorContains(t, checkRustVersion("rustc 0.95.0 (x)", "1.94"), "too old")
	require.ErrorContains(t, checkRustVersion("clang 18", "1.94"), "names no version")
}

func TestRequire_NamesEverythingMissingOnOneLine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := requirePrograms("1.94", "cargo", "cc", "python3")
	require.ErrorContains(t, err, "cargo is not on PATH: install Rust 1.94 or newer")
	require.ErrorContains(t, err, "cc is not on PATH: install a C compiler")
	require.ErrorContains(t, err, "python3 is not on PATH")
	require.NotContains(t, err.Error(), "\n")
}

func TestBuildKey_ChangesWithSourcesFlagsAndCompiler(t *testing.T) {
	l := testLayout(t)
	key := func(l layout, rustc string) string {
		k, err := l.buildKey(rustc)
		require.NoError(t, err)
		return k
	}
	first := key(l, "rustc 1.95.0")
	require.Equal(t, first, key(l, "rustc 1.95.0"))
	require.NotEqual(t, first, key(l, "rustc 1.96.0"))

	other := l
	other.targetCPU = "x86-64-v4"
	require.NotEqual(t, first, key(other, "rustc 1.95.0"))

	write(t, filepath.Join(l.crate(), "README.md"), "not a source\n")
	require.Equal(t, first, key(l, "rustc 1.95.0"))
	write(t, filepath.Join(l.crate(), "src", "direct", "mod.rs"), "pub fn g() {}\n")
	second := key(l, "rustc 1.95.0")
	require.NotEqual(t, first, second)
	require.NoError(t, os.Rename(filepath.Join(l.crate(), "src", "direct"), filepath.Join(l.crate(), "src", "other")))
	require.NotEqual(t, second, key(l, "rustc 1.95.0"))
}

// compile makes a small library that exports the given C functions.
func compile(t *testing.T, out, code string) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("cc is not on PATH")
	}
	source := filepath.Join(t.TempDir(), "x.c")
	write(t, source, code)
	require.NoError(t, os.MkdirAll(filepath.Dir(out), 0o755))
	text, err := exec.Command("cc", "-shared", "-fPIC", "-o", out, source).CombinedOutput()
	require.NoError(t, err, string(text))
}

func TestInstall_CopiesChecksAndIsThenUpToDate(t *testing.T) {
	l := testLayout(t)
	write(t, l.header(), "int lance_ffi_one(void);\n")
	compile(t, filepath.Join(l.release(), sharedLibrary.file), "int lance_ffi_one(void) { return 1; }\n")
	write(t, filepath.Join(l.release(), staticLibrary.file), "!<arch>\n")
	before, err := digest(filepath.Join(l.release(), sharedLibrary.file))
	require.NoError(t, err)

	require.False(t, l.upToDate(sharedLibrary, "key"))
	m, err := l.install(sharedLibrary, "key", "rustc 1.95.0")
	require.NoError(t, err)
	require.Equal(t, "14.0.2", m.Lance)
	require.True(t, l.upToDate(sharedLibrary, "key"))
	require.False(t, l.upToDate(sharedLibrary, "another key"))
	require.False(t, l.upToDate(staticLibrary, "key"), "each library for itself")
	_, err = l.install(staticLibrary, "key", "rustc 1.95.0")
	require.NoError(t, err)
	require.True(t, l.upToDate(staticLibrary, "key"))

	after, err := digest(filepath.Join(l.release(), sharedLibrary.file))
	require.NoError(t, err)
	require.Equal(t, before, after, "the cache's own library must not be stripped")
	f, err := elf.Open(filepath.Join(l.dist(), sharedLibrary.file))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.Equal(t, !m.Stripped, f.Section(".symtab") != nil)

	text, err := os.ReadFile(filepath.Join(l.dist(), sharedLibrary.file+".json"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "\n"))
	if _, err := exec.LookPath("sha256sum"); err == nil {
		check := exec.Command("sha256sum", "--check", sharedLibrary.file+".sha256", staticLibrary.file+".sha256")
		check.Dir = l.dist()
		out, err := check.CombinedOutput()
		require.NoError(t, err, string(out))
	}

	require.NoError(t, os.Truncate(filepath.Join(l.dist(), sharedLibrary.file), 100))
	require.False(t, l.upToDate(sharedLibrary, "key"), "a damaged library is not up to date")
}

func TestInstall_RefusesALibraryThatLacksADeclaredFunction(t *testing.T) {
	l := testLayout(t)
	write(t, l.header(), "int lance_ffi_one(void);\nint lance_ffi_two(void);\n")
	compile(t, filepath.Join(l.release(), sharedLibrary.file),
		"int lance_ffi_two(void); int lance_ffi_one(void) { return lance_ffi_two(); }\n")
	_, err := l.install(sharedLibrary, "key", "rustc 1.95.0")
	require.ErrorContains(t, err, "lance_ffi_two is declared")
	require.False(t, l.upToDate(sharedLibrary, "key"))
	left, err := os.ReadDir(l.dist())
	require.NoError(t, err)
	require.Empty(t, left, "nothing half-installed is left")
}

func TestDeclaredSymbols_SkipsComments(t *testing.T) {
	require.Equal(t, []string{"lance_ffi_a", "lance_ffi_b"}, declaredSymbols(`
/* lance_ffi_gone(x) was
   lance_ffi_old(y) */
int32_t lance_ffi_b (void); // see lance_ffi_c()
struct T *lance_ffi_a(const struct lance_ffi_t *t);
typedef struct lance_ffi_t lance_ffi_t;
`))
}

func TestFirstDifference(t *testing.T) {
	require.Zero(t, firstDifference([]byte("a\nb\n"), []byte("a\nb\n")))
	require.Equal(t, 2, firstDifference([]byte("a\nb\n"), []byte("a\nc\n")))
	require.Equal(t, 3, firstDifference([]byte("a\nb\n"), []byte("a\nb\nc\n")))
	require.Equal(t, 2, firstDifference([]byte("a"), []byte("a\nb")))
}

func TestLockedVersion(t *testing.T) {
	lock := []byte("[[package]]\nname = \"lance-core\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"lance\"\nversion = \"14.0.2\"\n")
	require.Equal(t, "14.0.2", lockedVersion(lock, "lance"))
	require.Empty(t, lockedVersion(lock, "core"))
}

func TestLock_ExcludesUntilReleased(t *testing.T) {
	l := testLayout(t)
	release, err := l.lock("x")
	require.NoError(t, err)
	got := make(chan struct{})
	go func() {
		second, err := l.lock("x")
		if err == nil {
			second()
		}
		close(got)
	}()
	select {
	case <-got:
		t.Fatal("two holders of one lock")
	case <-time.After(100 * time.Millisecond):
	}
	release()
	<-got
}

func TestRun_UsageErrors(t *testing.T) {
	for _, args := range [][]string{{"bild"}, {"build", "now"}, {"cargo"}, {"tools", "hammer"}} {
		err := run(args)
		require.ErrorIs(t, err, errUsage, args)
	}
}

func TestVenvKey_FollowsPythonAndRequirements(t *testing.T) {
	first := venvKey("Python 3.11.7", []byte("a==1\n"))
	require.NotEqual(t, first, venvKey("Python 3.12.0", []byte("a==1\n")))
	require.NotEqual(t, first, venvKey("Python 3.11.7", []byte("a==2\n")))
}
