package binding

/*
#cgo CFLAGS: -I${SRCDIR}/../lance-ffi/include -std=gnu11 -Wall -Wextra
#include <stdlib.h>
#include "trampoline.h"

#cgo noescape lk_error_take
#cgo nocallback lk_error_take
#cgo noescape lk_buffer_take
#cgo nocallback lk_buffer_take
#cgo noescape lk_candidates_take
#cgo nocallback lk_candidates_take
#cgo noescape lk_cancel_trigger
#cgo nocallback lk_cancel_trigger
#cgo noescape lk_dataset_search
#cgo nocallback lk_dataset_search
#cgo noescape lk_dataset_refine
#cgo nocallback lk_dataset_refine
#cgo noescape lk_request
#cgo nocallback lk_request
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

// library is one loaded native library. It is never unloaded: native threads live on after the last call.
type library struct {
	path    string
	entries *C.lk_library
	info    BuildInfo
}

// newLibrary fills the table of entries through resolve, and checks that the library speaks this package's ABI.
func newLibrary(path string, resolve func(symbol string) (uintptr, error)) (*library, error) {
	entries := C.lk_library_new()
	if entries == nil {
		return nil, &Error{Op: "load", Code: CodeInternal, Message: "out of memory"}
	}
	l := &library{path: path, entries: entries}
	// The version is the first symbol: where it differs, other symbols are expected to be missing.
	for i := 0; C.lk_symbol_name(C.size_t(i)) != nil; i++ {
		symbol := C.GoString(C.lk_symbol_name(C.size_t(i)))
		address, err := resolve(symbol)
		if err != nil || address == 0 {
			return nil, &Error{
				Op: "load", Code: CodeABIMismatch, cause: err,
				Message: fmt.Sprintf("library %q lacks symbol %s; rebuild it with `make native`", path, symbol),
			}
		}
		C.lk_library_set(entries, C.size_t(i), C.uintptr_t(address))
		if i == 0 {
			if err := l.checkABI(); err != nil {
				return nil, err
			}
		}
	}
	if err := l.readInfo(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *library) checkABI() error {
	if got := uint32(C.lk_abi_version(l.entries)); got != C.LANCE_FFI_ABI_VERSION {
		return &Error{
			Op: "load", Code: CodeABIMismatch,
			Message: fmt.Sprintf("library %q has abi version %d, this program needs %d; rebuild it with `make native`", l.path, got, C.LANCE_FFI_ABI_VERSION),
		}
	}
	return nil
}

func (l *library) readInfo() error {
	text := C.lk_build_info(l.entries)
	if err := json.Unmarshal(C.GoBytes(unsafe.Pointer(text.ptr), C.int(text.len)), &l.info); err != nil {
		return &Error{Op: "load", Code: CodeInternal, cause: err, Message: fmt.Sprintf("library %q gave malformed build info: %v", l.path, err)}
	}
	return nil
}

func (l *library) liveHandles() int64 { return int64(C.lk_live_handles(l.entries)) }

func (l *library) takeBuffer(buffer *C.lk_buffer) []byte {
	out := make([]byte, int(buffer.len))
	C.lk_buffer_take(l.entries, buffer, bytesPointer(out))
	return out
}

func decode(op string, reply []byte, out any) error {
	if err := json.Unmarshal(reply, out); err != nil {
		return &Error{Op: op, Code: CodeInternal, cause: err, Message: fmt.Sprintf("native library gave a malformed reply: %v", err)}
	}
	return nil
}

// Pointers of this kind cross without a check or a pin: what they point to holds no pointers.
func bytesPointer(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

func stringPointer(s string) *C.uint8_t { return (*C.uint8_t)(unsafe.StringData(s)) }
