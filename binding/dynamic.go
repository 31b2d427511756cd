//go:build !lance_ffi_static

package binding

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

const static = false

// openLibrary loads a shared library for good: unloading Rust code that keeps threads and thread-locals is not safe.
func openLibrary(path string) (*library, error) {
	noDelete := 0x1000 // RTLD_NODELETE of Linux, which purego lacks
	if runtime.GOOS == "darwin" {
		noDelete = 0x80
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL|noDelete)
	if err != nil {
		return nil, &Error{
			Op: "load", Code: CodeLibraryNotFound, cause: err,
			Message: fmt.Sprintf("library %q cannot be loaded: %v; rebuild it with `make native`", path, err),
		}
	}
	return newLibrary(path, func(symbol string) (uintptr, error) { return purego.Dlsym(handle, symbol) })
}
