package lab

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

const childVariable = "LANCEKNN_TEST_CHILD"

// Main runs the tests of a package, and fails if native objects are left at the end.
func Main(m *testing.M) {
	// Set before the native library is loaded, since Lance may read it once only.
	if err := os.Setenv(pylance.Overlays, "1"); err != nil {
		panic(err)
	}
	code := m.Run()
	pylance.Stop()
	if code == 0 {
		if n := liveHandles(); n != 0 {
			fmt.Fprintf(os.Stderr, "%d native objects are alive after all tests\n", n)
			code = 1
		}
	}
	os.Exit(code)
}

// liveHandles gives finalizers and cleanups a moment, since a handle may be freed by one.
func liveHandles() int64 {
	n := binding.LiveHandles()
	for range 20 {
		if n == 0 {
			return 0
		}
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
		n = binding.LiveHandles()
	}
	return n
}

// Child runs body in a process of its own, which is the test binary running only this test, so that body may crash
// or measure the process. It fails the test if the child fails, and returns what the child printed.
func Child(t *testing.T, body func(), env ...string) string {
	t.Helper()
	if os.Getenv(childVariable) == t.Name() {
		body()
		return ""
	}
	if os.Getenv(childVariable) != "" {
		t.Skip("not the test of this child process")
	}
	parts := strings.Split(t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	cmd := exec.Command(os.Args[0], "-test.run="+strings.Join(parts, "/"), "-test.v", "-test.timeout=3m")
	cmd.Env = append(os.Environ(), childVariable+"="+t.Name())
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "child process: %s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "child process did not run the test: %s", out)
	return string(out)
}

// InChild tells whether this is a process started by Child.
func InChild() bool { return os.Getenv(childVariable) != "" }
