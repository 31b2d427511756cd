//go:build lance_ffi_static

package binding

/*
#cgo CFLAGS: -DLANCEKNN_STATIC
#cgo linux,amd64 LDFLAGS: ${SRCDIR}/../cbuild/dist/linux_amd64/liblance_ffi.a -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
#cgo linux,arm64 LDFLAGS: ${SRCDIR}/../cbuild/dist/linux_arm64/liblance_ffi.a -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
#cgo darwin,amd64 LDFLAGS: ${SRCDIR}/../cbuild/dist/darwin_amd64/liblance_ffi.a -framework Security -framework CoreFoundation -framework SystemConfiguration -liconv
#cgo darwin,arm64 LDFLAGS: ${SRCDIR}/../cbuild/dist/darwin_arm64/liblance_ffi.a -framework Security -framework CoreFoundation -framework SystemConfiguration -liconv
#include "trampoline.h"
*/
import "C"

const static = true

// openLibrary takes the entries linked into this program, path.
func openLibrary(path string) (*library, error) {
	l := &library{path: path, entries: C.lk_library_new()}
	if l.entries == nil {
		return nil, &Error{Op: "load", Code: CodeInternal, Message: "out of memory"}
	}
	C.lk_library_link(l.entries)
	if err := l.checkABI(); err != nil {
		return nil, err
	}
	if err := l.readInfo(); err != nil {
		return nil, err
	}
	return l, nil
}
