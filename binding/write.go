package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// WriteMode says what Write does with the dataset that is there.
type WriteMode uint32

// Create fails with ErrAlreadyExists where there is a dataset; Append adds rows to it, Overwrite replaces its rows and schema with a new version.
const (
	Create WriteMode = iota
	Append
	Overwrite
)

var writeModeNames = []string{"create", "append", "overwrite"}

// String gives Lance's name.
func (m WriteMode) String() string { return name(writeModeNames, uint32(m), "write mode") }

// MarshalText gives Lance's name.
func (m WriteMode) MarshalText() ([]byte, error) {
	return marshal(writeModeNames, uint32(m), "write mode")
}

// WriteOptions are the options of [Write].
type WriteOptions struct {
	Mode               WriteMode
	MaxRowsPerFile     int // rows of a fragment; 0 is Lance's default
	MaxRowsPerGroup    int // only for the oldest storage version; 0 is Lance's default
	StableRowIDs       bool
	DataStorageVersion string // such as "2.1"; empty is Lance's default
	StorageOptions     map[string]string
	Namespace          *Namespace
}

// String gives the options with secret values left out.
func (o WriteOptions) String() string {
	text := fmt.Sprintf("mode:%s max_rows_per_file:%d max_rows_per_group:%d stable_row_ids:%t data_storage_version:%q storage_options:%v",
		o.Mode, o.MaxRowsPerFile, o.MaxRowsPerGroup, o.StableRowIDs, o.DataStorageVersion, redactOptions(o.StorageOptions))
	if o.Namespace != nil {
		text += " namespace:{" + o.Namespace.String() + "}"
	}
	return text
}

// GoString is [WriteOptions.String].
func (o WriteOptions) GoString() string { return o.String() }

// LogValue is [WriteOptions.String].
func (o WriteOptions) LogValue() slog.Value { return slog.StringValue(o.String()) }

type writeRequest struct {
	URI                string            `json:"uri"`
	Mode               WriteMode         `json:"mode"`
	MaxRowsPerFile     int               `json:"max_rows_per_file,omitempty"`
	MaxRowsPerGroup    int               `json:"max_rows_per_group,omitempty"`
	StableRowIDs       bool              `json:"stable_row_ids,omitempty"`
	DataStorageVersion string            `json:"data_storage_version,omitempty"`
	StorageOptions     map[string]string `json:"storage_options,omitempty"`
	Namespace          *Namespace        `json:"namespace,omitempty"`
}

const writeOp = "write"

// chunkSize bounds what crosses in one native call; larger buffers of a record cross unbuffered.
const chunkSize = 1 << 20

// Write writes the records of r to the dataset at uri and gives the version it committed. On any error nothing is committed. Records are read once and
// released by r's owner, as usual. Errors are ErrAlreadyExists, ErrNotFound, ErrInvalidArgument (such as a schema that does not fit), ErrConflict, ErrIO,
// that of the context, and that of r, wrapped.
func Write(ctx context.Context, uri string, r array.RecordReader, o WriteOptions) (version uint64, err error) {
	if err := checkContext(ctx, writeOp); err != nil {
		return 0, err
	}
	l, err := current()
	if err != nil {
		return 0, err
	}
	return l.write(ctx, uri, r, o)
}

func (l *library) write(ctx context.Context, uri string, r array.RecordReader, o WriteOptions) (version uint64, err error) {
	switch {
	case uri == "" && o.Namespace == nil:
		return 0, invalid(writeOp, "neither a uri nor a namespace is given")
	case o.MaxRowsPerFile < 0 || o.MaxRowsPerGroup < 0:
		return 0, invalid(writeOp, "maximum rows are %d per file and %d per group; they must not be negative", o.MaxRowsPerFile, o.MaxRowsPerGroup)
	}
	request, err := json.Marshal(writeRequest{
		URI: uri, Mode: o.Mode, MaxRowsPerFile: o.MaxRowsPerFile, MaxRowsPerGroup: o.MaxRowsPerGroup, StableRowIDs: o.StableRowIDs,
		DataStorageVersion: o.DataStorageVersion, StorageOptions: o.StorageOptions, Namespace: o.Namespace,
	})
	if err != nil {
		return 0, invalid(writeOp, "options cannot be encoded: %v", err)
	}
	hide := newSecrets(uri, o.StorageOptions, o.Namespace.properties())
	var failure C.lk_error
	native := C.lk_writer_open(l.entries, bytesPointer(request), C.size_t(len(request)), &failure)
	if native == nil {
		return 0, l.fail(writeOp, hide, failure.code, &failure)
	}
	// Also when r panics: a writer that is freed unfinished commits nothing.
	defer C.lk_writer_free(l.entries, native)
	w := &writer{ctx: ctx, lib: l, native: native, hide: hide, interrupt: l.interruptOn(ctx)}
	defer w.interrupt.end()
	if err := w.copy(r); err != nil {
		return 0, err
	}
	return w.finish()
}

// writer is an io.Writer of Arrow IPC into the native library.
type writer struct {
	ctx       context.Context
	lib       *library
	native    *C.LanceFfiWriter
	hide      secrets
	interrupt *interrupt
	abandoned bool // what is still written goes nowhere
}

func (w *writer) copy(r array.RecordReader) (err error) {
	buffer := bufio.NewWriterSize(w, chunkSize)
	stream := ipc.NewWriter(buffer, ipc.WithSchema(r.Schema()))
	defer func() {
		if err != nil {
			// The stream lets go of its dictionaries only when it can write its end.
			w.abandoned = true
			buffer.Reset(w)
			_ = stream.Close()
		}
	}()
	for r.Next() {
		if err := checkContext(w.ctx, writeOp); err != nil {
			return err
		}
		if err := stream.Write(r.Record()); err != nil {
			return wrapped(CodeInvalidArgument, "a record cannot be encoded", err)
		}
	}
	if err := r.Err(); err != nil {
		return wrapped(CodeIO, "the records cannot be read", err)
	}
	if err := stream.Close(); err != nil {
		return wrapped(CodeInternal, "the records cannot be encoded", err)
	}
	if err := buffer.Flush(); err != nil {
		return wrapped(CodeInternal, "the records cannot be sent", err)
	}
	return nil
}

// wrapped keeps an error that began in a native call as it is.
func wrapped(code Code, what string, err error) error {
	var native *Error
	if errors.As(err, &native) && native.Op == writeOp {
		return native
	}
	return &Error{Op: writeOp, Code: code, Message: fmt.Sprintf("%s: %v", what, err), cause: err}
}

// Write pushes one chunk.
func (w *writer) Write(chunk []byte) (int, error) {
	if w.abandoned || len(chunk) == 0 {
		return len(chunk), nil
	}
	if err := checkContext(w.ctx, writeOp); err != nil {
		return 0, err
	}
	var failure C.lk_error
	code := C.lk_writer_push(w.lib.entries, w.native, w.interrupt.token, bytesPointer(chunk), C.size_t(len(chunk)), &failure)
	if err := w.lib.result(w.ctx, writeOp, w.hide, code, &failure); err != nil {
		return 0, err
	}
	return len(chunk), nil
}

func (w *writer) finish() (uint64, error) {
	if err := checkContext(w.ctx, writeOp); err != nil {
		return 0, err
	}
	var failure C.lk_error
	var version C.uint64_t
	code := C.lk_writer_finish(w.lib.entries, w.native, w.interrupt.token, &version, &failure)
	if err := w.lib.result(w.ctx, writeOp, w.hide, code, &failure); err != nil {
		return 0, err
	}
	return uint64(version), nil
}
