package distributed

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lanceknn/lanceknn/binding"
)

// Targets for [errors.Is]. Wrong arguments of every kind also match [binding.ErrInvalidArgument].
var (
	// ErrCoverage: live rows are outside the index and Options.Unindexed is Require.
	ErrCoverage = errors.New("distributed: index does not cover every live row")
	// ErrIndex: no index fits the query, or the one that does cannot be used.
	ErrIndex = errors.New("distributed: no usable index")
)

// ArgumentError is a field of [Query], [Options] or [BuildOptions] that cannot be used. It matches [binding.ErrInvalidArgument], and what it
// unwraps to.
type ArgumentError struct {
	Name   string // the field, such as "K" or "Columns[1]"
	Reason string // says the value and what to do
	Err    error  // what found it, where that was another package
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("distributed: %s: %s", e.Name, e.Reason)
}

// Is matches [binding.ErrInvalidArgument].
func (e *ArgumentError) Is(target error) bool { return target == binding.ErrInvalidArgument }

func (e *ArgumentError) Unwrap() error { return e.Err }

// QueryError is a query vector that has no answer. It matches [binding.ErrInvalidArgument].
type QueryError struct {
	Query    int     // position of the query in the matrix
	Position int     // position of the value in the query: of a multivector, counted through its vectors
	Value    float64 // the value
	Reason   string
}

func (e *QueryError) Error() string {
	return fmt.Sprintf("distributed: query %d: value %v at position %d: %s", e.Query, e.Value, e.Position, e.Reason)
}

// Is matches [binding.ErrInvalidArgument].
func (e *QueryError) Is(target error) bool { return target == binding.ErrInvalidArgument }

// IndexError says that no index can answer the query, and what is wrong with each there is. It matches [ErrIndex].
type IndexError struct {
	Column     string
	Name       string         // the index asked for; empty when none was
	Metric     binding.Metric // the metric asked for; unset when none was
	Candidates []RejectedIndex
}

// RejectedIndex is an index that was considered.
type RejectedIndex struct {
	Name   string
	Column string
	Type   string
	Metric binding.Metric
	Reason string // why it was not chosen
}

func (e *IndexError) Error() string {
	var b strings.Builder
	b.WriteString("distributed: no usable index")
	if e.Name != "" {
		fmt.Fprintf(&b, " named %q", e.Name)
	}
	fmt.Fprintf(&b, " for column %q", e.Column)
	if e.Metric != binding.MetricUnset {
		fmt.Fprintf(&b, " with metric %s", e.Metric)
	}
	if len(e.Candidates) == 0 {
		b.WriteString("; the dataset has no vector index")
	}
	for i, c := range e.Candidates {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		fmt.Fprintf(&b, "%s%q (%s, %s, on %q) %s", separator, c.Name, c.Type, orUnknown(c.Metric), c.Column, c.Reason)
	}
	return b.String()
}

// Is matches [ErrIndex].
func (e *IndexError) Is(target error) bool { return target == ErrIndex }

// SegmentError is an index whose live segments cannot be searched together. It matches [ErrIndex].
type SegmentError struct {
	Index    string
	Segments []binding.SegmentID // the segments at fault
	Reason   string
}

func (e *SegmentError) Error() string {
	return fmt.Sprintf("distributed: index %q: segments %s: %s", e.Index, joinSegments(e.Segments, len(e.Segments)), e.Reason)
}

// Is matches [ErrIndex].
func (e *SegmentError) Is(target error) bool { return target == ErrIndex }

// CoverageError says which live fragments the index does not cover. It matches [ErrCoverage].
type CoverageError struct {
	Index     string
	Column    string
	Fragments []uint32 // live fragments no segment covers, ascending
	Rows      uint64   // live rows in them
	LiveRows  uint64   // of the whole dataset
}

func (e *CoverageError) Error() string {
	return fmt.Sprintf("distributed: index %q on %q does not cover %d of %d live rows, in fragments %s; "+
		"index them, or set Options.Unindexed to Scan (search them flat) or Skip (leave them out)",
		e.Index, e.Column, e.Rows, e.LiveRows, formatFragments(e.Fragments))
}

// Is matches [ErrCoverage].
func (e *CoverageError) Is(target error) bool { return target == ErrCoverage }

// TaskError is the failure of one task. It unwraps to what failed.
type TaskError struct {
	Task       int // position in Plan.Tasks
	Segments   []binding.SegmentID
	Fragments  []uint32
	Rows       uint64 // live rows in Fragments
	FirstQuery int    // the queries of the task are FirstQuery to FirstQuery+Queries-1
	Queries    int
	Err        error
}

func (e *TaskError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "distributed: task %d (", e.Task)
	if len(e.Segments) > 0 {
		fmt.Fprintf(&b, "segments %s, ", joinSegments(e.Segments, 3))
	}
	fmt.Fprintf(&b, "fragments %s, queries %s): %v", formatFragments(e.Fragments), formatRange(e.FirstQuery, e.Queries), e.Err)
	return b.String()
}

func (e *TaskError) Unwrap() error { return e.Err }

// PanicError is a panic of an [Executor], caught.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the value of the panic where that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func orUnknown(m binding.Metric) string {
	if m == binding.MetricUnset {
		return "unknown metric"
	}
	return m.String()
}
