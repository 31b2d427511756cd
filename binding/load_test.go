//go:build !lance_ffi_static

package binding

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func fixed(s string) func() (string, error) { return func() (string, error) { return s, nil } }

// place makes a library file at a path relative to root, and gives the path.
func place(t *testing.T, root string, elements ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{root}, elements...)...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return path
}

func module(t *testing.T, root, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(root, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("// comment\nmodule "+name+"\n\ngo 1.26\n"), 0o600))
}

func TestFind_SearchesInOrder(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	platform := runtime.GOOS + "_" + runtime.GOARCH
	repo, other := filepath.Join(root, "repo"), filepath.Join(root, "source")
	module(t, repo, modulePath)
	module(t, filepath.Join(repo, "bench"), "example.com/nested")
	module(t, other, modulePath)
	inSource := place(t, other, "cbuild", "dist", platform, libraryFile())
	l := &loader{
		executable: fixed(filepath.Join(root, "bin", "program")),
		workingDir: fixed(filepath.Join(repo, "bench", "deep")),
		sourceFile: filepath.Join(other, "binding", "load.go"),
	}
	expect := func(want string) {
		t.Helper()
		got, err := l.find()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	expect(inSource)
	expect(place(t, repo, "cbuild", "dist", platform, libraryFile()))
	expect(place(t, root, "bin", libraryFile()))
	l.environment = place(t, root, "env", "any-name.so")
	expect(l.environment)
	l.path = place(t, root, "option", "lib.so")
	expect(l.path)
}

func TestFind_NamedFileMissing(t *testing.T) {
	dir := t.TempDir()
	// A library elsewhere is no substitute for the one that was named.
	place(t, dir, libraryFile())
	missing := filepath.Join(dir, "missing.so")
	for _, l := range []*loader{{path: missing}, {environment: missing}, {path: dir}} {
		l.executable, l.workingDir = fixed(filepath.Join(dir, "program")), fixed(dir)
		_, err := l.find()
		require.ErrorIs(t, err, ErrLibraryNotFound)
		require.ErrorContains(t, err, "make native")
	}
}

func TestFind_NowhereNamesThePlaces(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	module(t, dir, modulePath)
	_, err = (&loader{executable: fixed(filepath.Join(dir, "bin", "program")), workingDir: fixed(dir), sourceFile: "trimmed/load.go"}).find()
	require.ErrorIs(t, err, ErrLibraryNotFound)
	require.ErrorContains(t, err, filepath.Join(dir, "bin", libraryFile()))
	require.ErrorContains(t, err, filepath.Join(dir, "cbuild", "dist", runtime.GOOS+"_"+runtime.GOARCH, libraryFile()))
	require.ErrorContains(t, err, libraryVariable)
}

func TestFind_WorkingDirOfAnotherModule(t *testing.T) {
	dir := t.TempDir()
	module(t, dir, "example.com/else")
	place(t, dir, "cbuild", "dist", runtime.GOOS+"_"+runtime.GOARCH, libraryFile())
	_, err := (&loader{executable: fixed("/nowhere/program"), workingDir: fixed(dir)}).find()
	require.ErrorIs(t, err, ErrLibraryNotFound)
}

func TestLoad_ABIMismatch(t *testing.T) {
	_, err := (&loader{path: fakeFile(t, "-DFAKE_ABI=4711")}).load()
	require.ErrorIs(t, err, ErrABIMismatch)
	require.ErrorContains(t, err, "abi version 4711")
}

func TestLoad_MissingSymbol(t *testing.T) {
	_, err := (&loader{path: fakeFile(t, "-DFAKE_WITHOUT_TAG")}).load()
	require.ErrorIs(t, err, ErrABIMismatch)
	require.ErrorContains(t, err, "lance_ffi_dataset_tag")
	var typed *Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, "load", typed.Op)
}

func TestLoad_NotALibrary(t *testing.T) {
	path := filepath.Join(t.TempDir(), libraryFile())
	for _, content := range []string{"", "not a library", "\x7fELF\x02\x01\x01"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o700))
		_, err := (&loader{path: path}).load()
		require.ErrorIs(t, err, ErrLibraryNotFound, "%q", content)
		require.ErrorContains(t, err, path)
	}
}

func TestLoad_Info(t *testing.T) {
	f := newFake(t)
	require.Equal(t, BuildInfo{Version: "0.0.1", Lance: "14.0.2", Target: "fake", TargetCPU: "none", Rustc: "none"}, f.info)
}

// The package's own functions work on one library for the whole process, so they are tried in a process of their own.
func TestProcess(t *testing.T) {
	const child = "LANCEKNN_TEST_CHILD"
	if os.Getenv(child) == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestProcess$", "-test.v")
		command.Env = append(os.Environ(), child+"=1", libraryVariable+"="+fakeFile(t))
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestProcess")
		return
	}
	named := os.Getenv(libraryVariable)
	require.Zero(t, LiveHandles())

	err := Load(WithLibraryPath(named + ".missing"))
	require.ErrorIs(t, err, ErrLibraryNotFound)
	require.NoError(t, Load(), "a failed load can be tried again")
	require.NoError(t, Load())
	require.NoError(t, Load(WithLibraryPath(named)))
	err = Load(WithLibraryPath(fakeFile(t)))
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, "already loaded")

	info, err := Info()
	require.NoError(t, err)
	require.Equal(t, "14.0.2", info.Lance)

	d, err := Open(t.Context(), "mem://table", OpenOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 1, LiveHandles())
	found, err := d.Search(t.Context(), someSearch())
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 10, 11}, found.Distance)
	require.NoError(t, d.Close())
	require.Zero(t, LiveHandles())
}

func TestCPU_MissingFeaturesAreNamed(t *testing.T) {
	all := func() map[string][]cpuFeature {
		features := hostFeatures()
		for level := range features {
			for i := range features[level] {
				features[level][i].present = true
			}
		}
		return features
	}
	without := func(names ...string) map[string][]cpuFeature {
		features := all()
		for level := range features {
			for i := range features[level] {
				for _, name := range names {
					if features[level][i].name == name {
						features[level][i].present = false
					}
				}
			}
		}
		return features
	}
	for _, c := range []struct {
		target   string
		features map[string][]cpuFeature
		missing  []string
	}{
		{"x86-64-v3", all(), nil},
		{"x86-64-v4", all(), nil},
		{"x86-64", without("sse3", "avx2"), nil},
		{"x86-64-v2", without("avx2"), nil},
		{"x86-64-v3", without("avx512f"), nil},
		{"x86-64-v3", without("fma", "avx2"), []string{"avx2", "fma"}},
		{"x86-64-v3", without("osxsave", "bmi1", "bmi2"), []string{"osxsave", "bmi1", "bmi2"}},
		{
			"x86-64-v4", without("avx2", "avx512vl", "avx512f", "avx512bw", "avx512cd", "avx512dq"),
			[]string{"avx2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
		},
		{"znver4", without("avx2"), nil},
	} {
		require.Equal(t, c.missing, missingFeatures(c.target, c.features), c.target)
	}
}

func TestLoad_UnsupportedCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the section is read from ELF files")
	}
	path := fakeFile(t, `-DFAKE_TARGET_CPU="x86-64-v3"`)
	old := map[string][]cpuFeature{"x86-64-v3": {{"avx2", false}, {"bmi1", true}, {"fma", false}}}
	_, err := (&loader{path: path, features: old}).load()
	require.ErrorIs(t, err, ErrUnsupportedCPU)
	require.ErrorContains(t, err, "x86-64-v3")
	require.ErrorContains(t, err, "lacks avx2, fma")
	require.False(t, mapped(t, path), "the library was loaded before the check")

	target, err := targetCPU(path)
	require.NoError(t, err)
	require.Equal(t, "x86-64-v3", target)

	target, err = targetCPU(fakeFile(t))
	require.NoError(t, err)
	require.Empty(t, target, "a library without the section is let through")
}

func mapped(t *testing.T, path string) bool {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Contains(string(maps), path)
}

func TestError_Is(t *testing.T) {
	for code, sentinel := range sentinels {
		err := error(&Error{Op: "search", Code: code, Message: "m"})
		for _, other := range sentinels {
			require.Equal(t, other == sentinel, errors.Is(err, other), "%v %v", err, other) //nolint:errorlint // identity is the oracle
		}
	}
	require.EqualError(t, &Error{Op: "search", Code: CodeIO, Message: "disk is gone"}, "binding: search: disk is gone")
}
