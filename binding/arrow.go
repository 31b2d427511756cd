package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/cdata"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

func (l *library) readSchema(op string, hide secrets, dataset *C.LanceFfiDataset) (*arrow.Schema, error) {
	native := C.lk_schema_new()
	defer C.lk_schema_free(native)
	var failure C.lk_error
	if code := C.lk_dataset_schema(l.entries, dataset, native, &failure); code != C.LANCE_FFI_OK {
		return nil, l.fail(op, hide, code, &failure)
	}
	schema, err := cdata.ImportCArrowSchema((*cdata.CArrowSchema)(unsafe.Pointer(native)))
	if err != nil {
		return nil, &Error{Op: op, Code: CodeUnsupported, cause: err, Message: fmt.Sprintf("schema has a type that arrow for go lacks: %v", err)}
	}
	return schema, nil
}

// importRecord copies a native struct array into memory of mem. What array and schema own is released by their owner, or on the way.
func importRecord(op string, native *C.struct_ArrowArray, schema *C.struct_ArrowSchema, mem memory.Allocator) (out arrow.Record, err error) {
	defer func() {
		// The importer meets arrays that do not fit their schema by panicking.
		if p := recover(); p != nil {
			err = &Error{Op: op, Code: CodeInternal, Message: fmt.Sprintf("native library gave a malformed arrow array: %v", p)}
		}
	}()
	C.lk_array_normalise(native)
	imported, err := cdata.ImportCRecordBatch((*cdata.CArrowArray)(unsafe.Pointer(native)), (*cdata.CArrowSchema)(unsafe.Pointer(schema)))
	if err != nil {
		return nil, &Error{Op: op, Code: CodeUnsupported, cause: err, Message: fmt.Sprintf("a column has a type that arrow for go lacks: %v", err)}
	}
	defer imported.Release()
	return copyRecord(imported, mem), nil
}

// copyRecord copies every buffer of a record, however deep, so that nothing refers to the memory of the original.
func copyRecord(r arrow.Record, mem memory.Allocator) arrow.Record {
	columns := make([]arrow.Array, r.NumCols())
	for i := range columns {
		data := copyData(r.Column(i).Data(), mem)
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	out := array.NewRecord(r.Schema(), columns, r.NumRows())
	for _, c := range columns {
		c.Release()
	}
	return out
}

// copyData keeps offsets as they are: the buffers are copied whole, and offsets of children follow from those of their parents.
func copyData(data arrow.ArrayData, mem memory.Allocator) *array.Data {
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, from := range data.Buffers() {
		if from == nil {
			continue
		}
		to := memory.NewResizableBuffer(mem)
		to.Resize(from.Len())
		copy(to.Bytes(), from.Bytes())
		buffers[i] = to
	}
	children := make([]arrow.ArrayData, len(data.Children()))
	for i, child := range data.Children() {
		children[i] = copyData(child, mem)
	}
	out := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	memory.ReleaseBuffers(buffers)
	for _, child := range children {
		child.Release()
	}
	if from, ok := data.Dictionary().(*array.Data); ok && from != nil {
		dictionary := copyData(from, mem)
		out.SetDictionary(dictionary)
		dictionary.Release()
	}
	return out
}
