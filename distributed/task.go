package distributed

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"

	"github.com/lanceknn/lanceknn/binding"
)

// Task is one k-nearest search of a plan: a plain value that can be encoded, sent to another process and run there with [RunTask]. It holds
// its own copy of everything but the vectors, which tasks of one plan share and nobody writes to.
type Task struct {
	ID   int // position in Plan.Tasks
	Kind TaskKind

	// What to open: exactly this version. Open carries no storage options and no namespace properties unless Options.TaskCredentials is set.
	URI     string
	Version uint64
	Open    binding.OpenOptions

	Column    string
	Index     string              // name of the index; empty for a flat search
	Segments  []binding.SegmentID // to search; none in a FlatTask, or in a ScanTask that takes what Lance chooses
	Fragments []uint32            // the live fragments whose rows this task answers for, ascending
	Rows      uint64              // live rows in Fragments

	// The queries of the task are FirstQuery to FirstQuery+Vectors.Queries-1 of the plan.
	FirstQuery int
	Vectors    binding.Vectors

	Filter                          string
	K                               int // candidates wanted for each query: more than the query's K where they are re-scored after the merge
	RefineFactor                    int // more than 0 only where one task answers a query alone
	Metric                          binding.Metric
	NProbes, MinNProbes, MaxNProbes int
	SearchEffort                    *float64
	EF                              int
	DistanceMin, DistanceMax        *float32
	ApproxMode                      binding.ApproxMode
	QueryParallelism                int
	Probing                         binding.Probing
	Path                            binding.Path
	Threads                         int // native threads; 0 is all cores

	// Bounds gives, for each query, the K-th distance found by tasks that have finished; +Inf is none, nil is none for any query. What is farther
	// may be left out. Plan.Tasks leaves it nil: an execution fills it in the copies of tasks that had to wait for others of the same queries. An
	// executor that lets tasks wait itself may fill it by the same rules: distances of one kind ([binding.SearchStats].Exact), finite, and of
	// tasks that succeeded. It changes nothing where probes are counted in each segment.
	Bounds Distances
}

// request is the native search of the task.
func (t *Task) request() binding.SearchRequest {
	r := binding.SearchRequest{
		Column: t.Column, Filter: t.Filter, Vectors: t.Vectors, K: t.K, RefineFactor: t.RefineFactor,
		NProbes: t.NProbes, MinNProbes: t.MinNProbes, MaxNProbes: t.MaxNProbes, SearchEffort: t.SearchEffort, EF: t.EF,
		DistanceMin: t.DistanceMin, DistanceMax: t.DistanceMax, Metric: t.Metric,
		QueryParallelism: t.QueryParallelism, ApproxMode: t.ApproxMode, Path: t.Path, Probing: t.Probing, Threads: t.Threads, Bounds: t.Bounds,
	}
	switch {
	case t.Kind == FlatTask:
		r.NoIndex, r.Fragments = true, t.Fragments
	case t.Kind == IndexTask:
		r.Segments = t.Segments
	case len(t.Segments) > 0:
		// Given both, Lance searches the segments and scans those of the fragments that they do not cover.
		r.Segments, r.Fragments = t.Segments, t.Fragments
	}
	return r
}

// usesBounds says whether a k-th distance known from elsewhere can spare the task anything.
func (t *Task) usesBounds() bool {
	if t.Kind != IndexTask || t.RefineFactor > 0 || t.Path == binding.PathScanner {
		return false
	}
	if t.Probing == binding.ProbingAuto {
		return t.NProbes == 0 && t.MinNProbes == 0 && t.MaxNProbes == 0
	}
	return t.Probing == binding.ProbingShared
}

// String names the task without its vectors and without anything secret.
func (t Task) String() string {
	s := fmt.Sprintf("task %d: %s", t.ID, t.Kind)
	if len(t.Segments) > 0 {
		s += fmt.Sprintf(", %s %s", plural(len(t.Segments), "segment"), joinSegments(t.Segments, 4))
	}
	s += fmt.Sprintf(", fragments %s, %d rows, queries %s, k %d", formatFragments(t.Fragments), t.Rows, formatRange(t.FirstQuery, t.Vectors.Queries), t.K)
	if t.RefineFactor > 0 {
		s += fmt.Sprintf(" refined x%d", t.RefineFactor)
	}
	if t.Threads > 0 {
		s += ", " + plural(t.Threads, "thread")
	}
	return s
}

// GoString is [Task.String], so that no way of printing a task prints its credentials.
func (t Task) GoString() string { return t.String() }

// LogValue is [Task.String].
func (t Task) LogValue() slog.Value { return slog.StringValue(t.String()) }

// TaskResult is what a task found: parallel slices, at most Task.K a query, in any order.
type TaskResult struct {
	Query    []uint32 // position in the plan's queries, not in the task's
	Distance Distances
	RowID    []uint64
	Stats    binding.SearchStats
}

// check refuses what an executor must not return: the merge relies on it.
func (r *TaskResult) check(t *Task) error {
	if len(r.Query) != len(r.Distance) || len(r.Query) != len(r.RowID) {
		return fmt.Errorf("executor returned %d queries, %d distances and %d row ids; they are parallel", len(r.Query), len(r.Distance), len(r.RowID))
	}
	first, end := uint32(t.FirstQuery), uint32(t.FirstQuery+t.Vectors.Queries)
	for _, q := range r.Query {
		if q < first || q >= end {
			return fmt.Errorf("executor returned query %d for a task of queries %s", q, formatRange(t.FirstQuery, t.Vectors.Queries))
		}
	}
	return nil
}

// Distances is a list of distances that survives text encodings: as text it is the base64 form of its little-endian bytes, since JSON has no
// infinities.
type Distances []float32

// MarshalText writes base64.
func (d Distances) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(d))
	for _, x := range d {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads what MarshalText writes.
func (d *Distances) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("distributed: distances: %w", err)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("distributed: distances: %d bytes are not a whole number of float32", len(raw))
	}
	*d = nil
	for ; len(raw) > 0; raw = raw[4:] {
		*d = append(*d, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return nil
}
