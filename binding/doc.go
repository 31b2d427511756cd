// Package binding is the Go side of lance-ffi, the native Lance core: it loads the library, makes typed calls, and turns native results into Go memory.
//
// # Loading
//
// The library is loaded by the first call that needs it, or by [Load]. It is searched for at [WithLibraryPath], in the environment variable
// LANCE_FFI_LIB, in the folder of the executable, and in cbuild/dist/<goos>_<goarch> of this module; it is never downloaded and never unloaded. With the
// build tag lance_ffi_static it is linked into the program instead. A library of another ABI version is refused with [ErrABIMismatch], one built for a
// newer CPU with [ErrUnsupportedCPU].
//
// # Ownership
//
// A [Dataset] is one exact version of a dataset. It is safe for concurrent use, and its Close waits for the calls in flight. Slices given to a call are
// read before it returns and never kept. Slices and records returned are Go memory: a record of [Dataset.Take] lives in the allocator of its call and is
// released by the caller; everything else is left to the garbage collector. [LiveHandles] counts native objects not yet freed.
//
// # Errors and cancellation
//
// Every error is an [*Error] and matches one of the sentinels with [errors.Is]. A call whose context ends stops the native work, waits until it has
// stopped, and returns an error that matches both the context's Err and its Cause. Values of storage options that look secret never appear in an error.
//
// # Limits
//
// The package needs cgo. The native threads are out of reach of Go's CPU profiler, and a process that forks without exec is not supported.
package binding
