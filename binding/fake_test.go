package binding

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// fake is a library made of testdata/fake.c, with the entries that steer it.
type fake struct {
	*library
	last       func() string
	fail       func(code int32, message string)
	block      func(on int32)
	cancelCode func(code int32)
	blocked    func() int32
	misuse     func() int32
	describes  func() int32
	written    func() uintptr
	writtenLen func() uintptr
	committed  func() int32
	pushes     func() int32
}

var plainFake string // compiled once, copied for each test: the loader tells libraries apart by file

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "lanceknn-fake-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		plainFake = filepath.Join(dir, libraryFile())
		if err := compileFake(plainFake); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

func compileFake(path string, flags ...string) error {
	arguments := append([]string{
		"-shared", "-fPIC", "-pthread", "-I", filepath.Join("..", "lance-ffi", "include"), "-o", path,
		filepath.Join("testdata", "fake.c"), "-lm",
	}, flags...)
	out, err := exec.Command("cc", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cc %v: %w\n%s", arguments, err, out)
	}
	return nil
}

func fakeFile(t testing.TB, flags ...string) string {
	t.Helper()
	if static {
		t.Skip("the native library is linked in: no other can be loaded")
	}
	path := filepath.Join(t.TempDir(), libraryFile())
	if len(flags) > 0 {
		require.NoError(t, compileFake(path, flags...))
		return path
	}
	content, err := os.ReadFile(plainFake)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, content, 0o700))
	return path
}

// newFake loads a fake and, when the test is over, checks that nothing of it is left and that nothing was used after it was freed.
func newFake(t testing.TB) *fake {
	t.Helper()
	path := fakeFile(t)
	l, err := (&loader{path: path}).load()
	require.NoError(t, err)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	f := &fake{library: l}
	for name, function := range map[string]any{
		"fake_last": &f.last, "fake_fail": &f.fail, "fake_block": &f.block, "fake_cancel_code": &f.cancelCode, "fake_blocked": &f.blocked, "fake_misuse": &f.misuse,
		"fake_describes": &f.describes, "fake_written": &f.written, "fake_written_len": &f.writtenLen, "fake_committed": &f.committed,
		"fake_pushes": &f.pushes,
	} {
		purego.RegisterLibFunc(function, handle, name)
	}
	t.Cleanup(func() {
		require.Zero(t, f.liveHandles(), "native objects are left")
		require.Zero(t, f.misuse(), "a native object was used after it was freed")
	})
	return f
}

func (f *fake) openDataset(t testing.TB) *Dataset {
	t.Helper()
	d, err := f.open(context.Background(), "mem://table", OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// recorded gives the last call as the fake recorded it, name by name.
func (f *fake) recorded() map[string]string {
	out := map[string]string{}
	for _, line := range strings.Split(f.last(), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			out[name] = value
		}
	}
	return out
}

func (f *fake) stream() []byte {
	n := f.writtenLen()
	if n == 0 {
		return nil
	}
	address := f.written()
	return append([]byte(nil), unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)...)
}

func (f *fake) awaitBlocked(t testing.TB, n int32) {
	t.Helper()
	require.Eventually(t, func() bool { return f.blocked() == n }, 10*time.Second, time.Millisecond)
}

func float32s(values ...float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))...)
}

func someSearch() SearchRequest {
	return SearchRequest{Column: "vec", K: 2, Vectors: Vectors{Data: float32s(1, 2, 10, 20), Type: Float32, Queries: 2, Dim: 2}}
}
