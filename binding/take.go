package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// Take reads the given columns of the given rows, in the order of rowIDs. Columns are field paths in Lance's syntax. The record is in memory of mem, which
// may be nil for Go's; the caller releases it. Errors are ErrInvalidArgument (no columns), ErrNotFound (a column or row that does not exist),
// ErrUnsupported (a type that Arrow for Go lacks), ErrIO, ErrClosed, and that of the context.
func (d *Dataset) Take(ctx context.Context, rowIDs []uint64, columns []string, mem memory.Allocator) (arrow.Record, error) {
	const op = "take"
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	if len(columns) == 0 {
		return nil, invalid(op, "no columns are given")
	}
	paths, err := json.Marshal(columns)
	if err != nil {
		return nil, invalid(op, "columns cannot be encoded: %v", err)
	}
	if err := d.acquire(op); err != nil {
		return nil, err
	}
	defer d.release()
	native, schema := C.lk_array_new(), C.lk_schema_new()
	defer C.lk_array_free(native)
	defer C.lk_schema_free(schema)
	err = d.lib.call(ctx, op, d.hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t {
		return C.lk_dataset_take(d.lib.entries, d.native, cancel, (*C.uint64_t)(unsafe.SliceData(rowIDs)), C.size_t(len(rowIDs)),
			bytesPointer(paths), C.size_t(len(paths)), native, schema, failure)
	})
	if err != nil {
		return nil, err
	}
	return importRecord(op, native, schema, mem)
}
