package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"encoding/json"
)

// PrewarmOptions say what to load; empty fields do not restrict.
type PrewarmOptions struct {
	Column   string      `json:"column,omitempty"`
	Index    string      `json:"index,omitempty"`
	Segments []SegmentID `json:"segments,omitempty"`
	Filter   string      `json:"filter,omitempty"` // also compute the mask of this filter
}

// CompactOptions say how to rewrite fragments; the zero value is Lance's default.
type CompactOptions struct {
	TargetRowsPerFragment int
	KeepDeletions         bool // leave fragments alone that only have deleted rows to drop
	DeferIndexRemap       bool // leave indexes as they are, and let readers translate row addresses
}

// CompactResult says what a compaction did.
type CompactResult struct {
	Version          uint64 `json:"version"`
	FragmentsRemoved int    `json:"fragments_removed"`
	FragmentsAdded   int    `json:"fragments_added"`
}

// Prewarm loads what a search of this column, index or segments will need into the caches. Errors are ErrNotFound, ErrIO, ErrClosed, and that of the
// context.
func (d *Dataset) Prewarm(ctx context.Context, o PrewarmOptions) error {
	const op = "prewarm"
	if o.Segments != nil && len(o.Segments) == 0 {
		return invalid(op, "segments is empty; use nil for every segment")
	}
	return d.reply(ctx, op, C.LK_PREWARM, o, nil)
}

// Delete deletes the rows that match a SQL predicate and gives the new version; this handle stays on its own. Errors are ErrInvalidArgument, ErrConflict,
// ErrIO, ErrClosed, and that of the context.
func (d *Dataset) Delete(ctx context.Context, predicate string) (version uint64, err error) {
	const op = "delete"
	if predicate == "" {
		return 0, invalid(op, "predicate is empty; use \"true\" to delete every row")
	}
	version, _, err = d.request(ctx, op, C.LK_DELETE, []byte(predicate))
	return version, err
}

// Compact rewrites small fragments and gives the new version; this handle stays on its own. Errors are ErrConflict, ErrIO, ErrClosed, and that of the
// context.
func (d *Dataset) Compact(ctx context.Context, o CompactOptions) (CompactResult, error) {
	const op = "compact"
	if o.TargetRowsPerFragment < 0 {
		return CompactResult{}, invalid(op, "target rows per fragment is %d; it must not be negative", o.TargetRowsPerFragment)
	}
	var result CompactResult
	err := d.reply(ctx, op, C.LK_COMPACT, struct {
		TargetRowsPerFragment int  `json:"target_rows_per_fragment,omitempty"`
		MaterializeDeletions  bool `json:"materialize_deletions"`
		DeferIndexRemap       bool `json:"defer_index_remap,omitempty"`
	}{o.TargetRowsPerFragment, !o.KeepDeletions, o.DeferIndexRemap}, &result)
	return result, err
}

// Tag creates a tag for a version, or moves it there. Errors are ErrInvalidArgument, ErrNotFound, ErrIO, ErrClosed, and that of the context.
func (d *Dataset) Tag(ctx context.Context, name string, version uint64) error {
	const op = "tag"
	switch {
	case name == "":
		return invalid(op, "tag name is empty")
	case version == 0:
		return invalid(op, "version is 0; versions begin at 1")
	}
	return d.reply(ctx, op, C.LK_TAG, struct {
		Tag     string `json:"tag"`
		Version uint64 `json:"version"`
	}{name, version}, nil)
}

// commit sends a JSON request that gives back a version.
func (d *Dataset) commit(ctx context.Context, op string, entry uint32, request any) (uint64, error) {
	text, err := json.Marshal(request)
	if err != nil {
		return 0, invalid(op, "options cannot be encoded: %v", err)
	}
	version, _, err := d.request(ctx, op, entry, text)
	return version, err
}

// reply sends a JSON request that gives back JSON, or nothing when out is nil.
func (d *Dataset) reply(ctx context.Context, op string, entry uint32, request, out any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return invalid(op, "options cannot be encoded: %v", err)
	}
	_, reply, err := d.request(ctx, op, entry, text)
	if err != nil || out == nil {
		return err
	}
	return decode(op, reply, out)
}

func (d *Dataset) request(ctx context.Context, op string, entry uint32, request []byte) (uint64, []byte, error) {
	if err := d.acquire(op); err != nil {
		return 0, nil, err
	}
	defer d.release()
	var version C.uint64_t
	var reply C.lk_buffer
	err := d.lib.call(ctx, op, d.hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t {
		return C.lk_request(d.lib.entries, d.native, cancel, entry, bytesPointer(request), C.size_t(len(request)), &version, &reply, failure)
	})
	if err != nil {
		return 0, nil, err
	}
	if reply.ptr == 0 {
		return uint64(version), nil, nil
	}
	return uint64(version), d.lib.takeBuffer(&reply), nil
}
