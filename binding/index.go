package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// IndexOptions describe a vector index to build. Column and Type are required; 0 leaves a parameter to Lance.
type IndexOptions struct {
	Column         string   `json:"column"`
	Type           string   `json:"type"` // IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_SQ or IVF_HNSW_PQ
	Name           string   `json:"name,omitempty"`
	Metric         Metric   `json:"metric,omitempty"`
	Partitions     int      `json:"partitions,omitempty"`
	SubVectors     int      `json:"sub_vectors,omitempty"` // of PQ
	NumBits        int      `json:"num_bits,omitempty"`    // of a PQ, SQ or RQ code
	MaxLevel       int      `json:"max_level,omitempty"`   // of HNSW, as M and EFConstruction
	M              int      `json:"m,omitempty"`
	EFConstruction int      `json:"ef_construction,omitempty"`
	SampleRate     int      `json:"sample_rate,omitempty"` // of k-means training, as MaxIterations
	MaxIterations  int      `json:"max_iterations,omitempty"`
	Replace        bool     `json:"replace,omitempty"`
	Fragments      []uint32 `json:"fragments,omitempty"` // of a segment
}

func (o *IndexOptions) validate(op string) error {
	switch {
	case o.Column == "":
		return invalid(op, "column is empty")
	case o.Type == "":
		return invalid(op, "index type is empty; use IVF_FLAT, IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_SQ or IVF_HNSW_PQ")
	}
	for _, n := range [...]struct {
		name  string
		value int
	}{
		{"partitions", o.Partitions},
		{"sub vectors", o.SubVectors},
		{"bits", o.NumBits},
		{"maximum level", o.MaxLevel},
		{"m", o.M},
		{"ef construction", o.EFConstruction},
		{"sample rate", o.SampleRate},
		{"maximum iterations", o.MaxIterations},
	} {
		if n.value < 0 {
			return invalid(op, "number of %s is %d; it must not be negative", n.name, n.value)
		}
	}
	return nil
}

// IndexSegment is a segment that has been built and not yet committed. It is opaque, and can be carried to another process as JSON.
type IndexSegment struct{ raw json.RawMessage }

// MarshalJSON gives the native form.
func (s IndexSegment) MarshalJSON() ([]byte, error) { return s.raw.MarshalJSON() }

// UnmarshalJSON keeps the native form.
func (s *IndexSegment) UnmarshalJSON(data []byte) error { return s.raw.UnmarshalJSON(data) }

// ScalarIndexOptions describe a scalar index to build. Column and Type are required.
type ScalarIndexOptions struct {
	Column  string `json:"column"`
	Type    string `json:"type"` // BTREE or BITMAP
	Name    string `json:"name,omitempty"`
	Replace bool   `json:"replace,omitempty"`
}

// CreateIndex builds a vector index over the whole dataset and commits it. It gives the new version; this handle stays on its own. Errors are
// ErrInvalidArgument, ErrNotFound, ErrAlreadyExists (an index of that name, without Replace), ErrConflict, ErrIO, ErrClosed, and that of the context.
func (d *Dataset) CreateIndex(ctx context.Context, o IndexOptions) (uint64, error) {
	const op = "create index"
	if err := o.validate(op); err != nil {
		return 0, err
	}
	if o.Fragments != nil {
		return 0, invalid(op, "fragments are given; a whole index covers all of them, use CreateIndexSegment")
	}
	version, err := d.commit(ctx, op, C.LK_INDEX_CREATE, o)
	return version, untrainable(err, o.Column)
}

// CreateIndexSegment builds a segment over o.Fragments, which must not be empty, and commits nothing. Segments that other processes build from the same
// version can be committed together by [Dataset.CommitIndexSegments]. Errors are those of [Dataset.CreateIndex].
func (d *Dataset) CreateIndexSegment(ctx context.Context, o IndexOptions) (IndexSegment, error) {
	const op = "create index segment"
	if err := o.validate(op); err != nil {
		return IndexSegment{}, err
	}
	if len(o.Fragments) == 0 {
		return IndexSegment{}, invalid(op, "no fragments are given; name those that the segment covers")
	}
	var raw json.RawMessage
	if err := d.reply(ctx, op, C.LK_INDEX_CREATE_SEGMENT, o, &raw); err != nil {
		return IndexSegment{}, untrainable(err, o.Column)
	}
	return IndexSegment{raw}, nil
}

// untrainable says what is wrong with the data where Lance advises a smaller number of partitions, of which even 1 is too many.
func untrainable(err error, column string) error {
	var e *Error
	if errors.As(err, &e) && strings.Contains(e.Message, "KMeans cannot train") && strings.Contains(e.Message, " with 0 vectors") {
		e.Code = CodeInvalidArgument
		e.Message = fmt.Sprintf("column %q holds no vectors to train on, only nulls and vectors with values that are not finite; fill it first", column)
	}
	return err
}

// CommitIndexSegments commits segments as one index and gives the new version; this handle stays on its own. Errors are ErrInvalidArgument (segments that
// overlap, or of different metrics), ErrConflict, ErrIO, ErrClosed, and that of the context.
func (d *Dataset) CommitIndexSegments(ctx context.Context, name, column string, segments []IndexSegment) (uint64, error) {
	const op = "commit index segments"
	switch {
	case name == "":
		return 0, invalid(op, "index name is empty")
	case column == "":
		return 0, invalid(op, "column is empty")
	case len(segments) == 0:
		return 0, invalid(op, "no segments are given")
	}
	for i, s := range segments {
		if len(s.raw) == 0 {
			return 0, invalid(op, "segment %d was not made by CreateIndexSegment", i)
		}
	}
	return d.commit(ctx, op, C.LK_INDEX_COMMIT_SEGMENTS, struct {
		Name     string         `json:"name"`
		Column   string         `json:"column"`
		Segments []IndexSegment `json:"segments"`
	}{name, column, segments})
}

// CreateScalarIndex builds an index that filters can use, and commits it. It gives the new version; this handle stays on its own. Errors are those of
// [Dataset.CreateIndex].
func (d *Dataset) CreateScalarIndex(ctx context.Context, o ScalarIndexOptions) (uint64, error) {
	const op = "create scalar index"
	switch {
	case o.Column == "":
		return 0, invalid(op, "column is empty")
	case o.Type == "":
		return 0, invalid(op, "index type is empty; use BTREE or BITMAP")
	}
	return d.commit(ctx, op, C.LK_SCALAR_INDEX_CREATE, o)
}
