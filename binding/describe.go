package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"cmp"
	"context"
	"slices"
)

// Description is what a dataset holds at its version. It is shared between callers: do not modify it.
type Description struct {
	URI          string
	Version      uint64
	StableRowIDs bool
	Fragments    []Fragment
	Indexes      []VectorIndex
	OtherIndexes []ScalarIndex
	Monolithic   []string // reasons why this dataset must be searched as one scan; usually empty
}

// Fragment is one fragment of the dataset.
type Fragment struct {
	ID           uint32 `json:"id"`
	PhysicalRows uint64 `json:"physical_rows"`
	DeletedRows  uint64 `json:"deleted_rows"`
}

// LiveRows is the number of rows not deleted.
func (f Fragment) LiveRows() uint64 { return f.PhysicalRows - f.DeletedRows }

// VectorIndex is one logical vector index, made of segments.
type VectorIndex struct {
	Name     string
	Column   string
	FieldID  int32
	Type     string // as Lance names it, such as IVF_PQ
	Metric   Metric
	Segments []Segment
}

// Segment is one part of an index, built over some fragments.
type Segment struct {
	ID             SegmentID
	Fragments      []uint32 // as stored: may name fragments that no longer exist
	NoBitmap       bool     // the segment does not say which fragments it covers
	Type           string
	Metric         Metric
	Partitions     int
	DatasetVersion uint64 // the version the segment was built from
	Problem        string // why the segment cannot be used; usually empty
}

// ScalarIndex is an index that is not a vector index.
type ScalarIndex struct {
	Name   string `json:"name"`
	Column string `json:"column"`
	Type   string `json:"type"`
}

// ColumnInfo describes a vector column.
type ColumnInfo struct {
	FieldID     int32     `json:"field_id"`
	Path        string    `json:"path"` // canonical, as Lance writes it
	Type        ValueType `json:"value_type"`
	Dim         int       `json:"dim"`
	Multivector bool      `json:"multivector"`
}

// Describe gives the fragments and indexes of the dataset. It is computed once, whoever asks first, and shared: do not modify it.
func (d *Dataset) Describe(ctx context.Context) (*Description, error) {
	const op = "describe"
	if d.isClosed() {
		return nil, closed(op)
	}
	return d.description.get(ctx, op, func(ctx context.Context) (*Description, error) {
		var reply describeReply
		err := d.ask(ctx, op, &reply, func(cancel *C.LanceFfiCancel, out *C.lk_buffer, failure *C.lk_error) C.int32_t {
			return C.lk_dataset_describe(d.lib.entries, d.native, cancel, out, failure)
		})
		if err != nil {
			return nil, err
		}
		return reply.description(), nil
	})
}

// Column describes the vector column at a field path, in Lance's syntax: dots between levels, back-ticks around a name that has dots. Errors are
// ErrNotFound when there is no such column, and ErrInvalidArgument when it does not hold vectors.
func (d *Dataset) Column(ctx context.Context, path string) (ColumnInfo, error) {
	const op = "column"
	if d.isClosed() {
		return ColumnInfo{}, closed(op)
	}
	if path == "" {
		return ColumnInfo{}, invalid(op, "column path is empty")
	}
	known, ok := d.columns.Load(path)
	if !ok {
		known, _ = d.columns.LoadOrStore(path, new(flight[ColumnInfo]))
	}
	info, err := known.(*flight[ColumnInfo]).get(ctx, op, func(ctx context.Context) (*ColumnInfo, error) {
		var info ColumnInfo
		err := d.ask(ctx, op, &info, func(_ *C.LanceFfiCancel, out *C.lk_buffer, failure *C.lk_error) C.int32_t {
			return C.lk_dataset_column(d.lib.entries, d.native, stringPointer(path), C.size_t(len(path)), out, failure)
		})
		return &info, err
	})
	if err != nil {
		// Wrong names are the caller's to choose, so keeping them would let memory grow without bound.
		d.columns.CompareAndDelete(path, known)
		return ColumnInfo{}, err
	}
	return *info, nil
}

// ask makes a native call that replies in JSON, and decodes the reply into out.
func (d *Dataset) ask(ctx context.Context, op string, out any, native func(*C.LanceFfiCancel, *C.lk_buffer, *C.lk_error) C.int32_t) error {
	if err := d.acquire(op); err != nil {
		return err
	}
	defer d.release()
	var reply C.lk_buffer
	err := d.lib.call(ctx, op, d.hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t { return native(cancel, &reply, failure) })
	if err != nil {
		return err
	}
	return decode(op, d.lib.takeBuffer(&reply), out)
}

type describeReply struct {
	URI          string     `json:"uri"`
	Version      uint64     `json:"version"`
	StableRowIDs bool       `json:"stable_row_ids"`
	Fragments    []Fragment `json:"fragments"`
	Indexes      []struct {
		Name     string `json:"name"`
		Column   string `json:"column"`
		FieldID  int32  `json:"field_id"`
		Type     string `json:"type"`
		Metric   Metric `json:"metric"`
		Segments []struct {
			UUID           SegmentID `json:"uuid"`
			Fragments      *[]uint32 `json:"fragments"` // null where the segment has no bitmap
			Type           string    `json:"type"`
			Metric         Metric    `json:"metric"`
			Partitions     int       `json:"partitions"`
			DatasetVersion uint64    `json:"dataset_version"`
			Problem        string    `json:"problem"`
		} `json:"segments"`
	} `json:"indexes"`
	OtherIndexes []ScalarIndex `json:"other_indexes"`
	Monolithic   []string      `json:"monolithic"`
}

func (r *describeReply) description() *Description {
	d := &Description{
		URI: r.URI, Version: r.Version, StableRowIDs: r.StableRowIDs,
		Fragments: r.Fragments, OtherIndexes: r.OtherIndexes, Monolithic: r.Monolithic,
	}
	slices.SortFunc(d.Fragments, func(a, b Fragment) int { return cmp.Compare(a.ID, b.ID) })
	for _, index := range r.Indexes {
		v := VectorIndex{Name: index.Name, Column: index.Column, FieldID: index.FieldID, Type: index.Type, Metric: index.Metric}
		for _, s := range index.Segments {
			segment := Segment{
				ID: s.UUID, NoBitmap: s.Fragments == nil, Type: s.Type, Metric: s.Metric, Partitions: s.Partitions,
				DatasetVersion: s.DatasetVersion, Problem: s.Problem,
			}
			if s.Fragments != nil {
				segment.Fragments = *s.Fragments
			}
			v.Segments = append(v.Segments, segment)
		}
		d.Indexes = append(d.Indexes, v)
	}
	return d
}
