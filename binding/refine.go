package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"unsafe"
)

// RefineRequest asks for the exact distance of each pair Query[i], RowID[i]. Metric must be set.
type RefineRequest struct {
	Column  string
	Metric  Metric
	Vectors Vectors
	Query   []uint32 // index into the queries of Vectors
	RowID   []uint64
}

// Refine gives the exact distances, in the order of the pairs, NaN for a row without a vector. The vectors of the distinct rows are read in one request
// to storage. Errors are ErrInvalidArgument, ErrNotFound (a column or row that does not exist), ErrIO, ErrClosed, and that of the context.
func (d *Dataset) Refine(ctx context.Context, r RefineRequest) ([]float32, error) {
	const op = "refine"
	if err := r.validate(op); err != nil {
		return nil, err
	}
	if err := d.acquire(op); err != nil {
		return nil, err
	}
	defer d.release()
	distances := make([]float32, len(r.RowID))
	v := r.Vectors
	err := d.lib.call(ctx, op, d.hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t {
		return C.lk_dataset_refine(d.lib.entries, d.native, cancel, stringPointer(r.Column), C.size_t(len(r.Column)), C.uint32_t(r.Metric),
			bytesPointer(v.aligned()), C.uint32_t(v.Type), C.uint32_t(v.PerQuery), C.size_t(v.Queries), C.size_t(v.Dim),
			(*C.uint32_t)(unsafe.SliceData(r.Query)), (*C.uint64_t)(unsafe.SliceData(r.RowID)), C.size_t(len(r.RowID)),
			(*C.float)(unsafe.SliceData(distances)), failure)
	})
	if err != nil {
		return nil, err
	}
	return distances, nil
}

func (r *RefineRequest) validate(op string) error {
	if err := r.Vectors.validate(op); err != nil {
		return err
	}
	switch {
	case r.Column == "":
		return invalid(op, "column is empty")
	case r.Metric == MetricUnset:
		return invalid(op, "metric is not set; use that of the search")
	case len(r.Query) != len(r.RowID):
		return invalid(op, "%d queries for %d row ids; give one each", len(r.Query), len(r.RowID))
	}
	for i, q := range r.Query {
		if int64(q) >= int64(r.Vectors.Queries) {
			return invalid(op, "pair %d names query %d of %d", i, q, r.Vectors.Queries)
		}
	}
	return nil
}
