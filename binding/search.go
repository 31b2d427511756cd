package binding

/*
#include "trampoline.h"
*/
import "C"

import (
	"context"
	"math"
	"time"
	"unsafe"
)

// SearchRequest is one search. Column, Vectors and K are required; the zero value of everything else is Lance's default.
type SearchRequest struct {
	Column string // field path, in Lance's syntax
	Filter string // SQL; always applied before neighbours are chosen

	// Segments restricts the search to these segments of one index, Fragments to these fragments; nil does not restrict. An empty slice that is not nil
	// is an error, since it would search everything.
	Segments  []SegmentID
	Fragments []uint32

	Vectors Vectors
	K       int // candidates per query; the native side clamps it to the live rows
	// RefineFactor n re-scores k x n candidates exactly inside this search; 0 does not re-score.
	RefineFactor int

	// Partitions to read in each segment: NProbes sets both bounds. With all three 0 the segments share one budget, whose knob is SearchEffort in
	// [0, 1], nil for 0.5; see Probing.
	NProbes, MinNProbes, MaxNProbes int
	SearchEffort                    *float64
	EF                              int // width of the search in an HNSW graph; 0 leaves it to Lance

	DistanceMin, DistanceMax *float32 // DistanceMin <= distance < DistanceMax
	Metric                   Metric
	QueryParallelism         int // as Lance has it; 0 is its default
	ApproxMode               ApproxMode
	NoIndex                  bool // flat search
	Path                     Path
	Probing                  Probing
	Threads                  int // native threads to use; 0 is all cores
	// Bounds gives, for each query, a k-th distance already known from elsewhere, or +Inf. The search may leave out what is farther.
	Bounds []float32
}

// Candidates are the rows found: parallel slices, ordered by query, distance and row id, with at most K rows a query.
type Candidates struct {
	Query    []uint32
	Distance []float32
	RowID    []uint64
	Stats    SearchStats
}

// SearchStats says how a search was done. Counts are summed over the queries.
type SearchStats struct {
	Path   Path // PathScanner or PathDirect
	Exact  bool // distances are exact, not approximations of a quantised index
	Metric Metric

	SegmentsSearched   uint64 // segments of which at least one partition was read
	PartitionsRanked   uint64
	PartitionsSearched uint64
	BytesRead          uint64 // from storage
	Requests           uint64 // to storage
	CacheHits          uint64 // opened indexes, masks and filters found warm
	CacheMisses        uint64

	Filter, Rank, Search, Total time.Duration
}

// Eligibility says whether a request can take the direct path, and if not, why.
type Eligibility struct {
	Direct  bool     `json:"direct"`
	Reasons []string `json:"reasons"`
}

// Search finds the nearest rows of each query. The candidates are in Go memory. Errors are ErrInvalidArgument, ErrNotFound (a column or segment that does
// not exist), ErrUnsupported, ErrIO, ErrCorrupt, ErrClosed, and that of the context.
func (d *Dataset) Search(ctx context.Context, r SearchRequest) (*Candidates, error) {
	const op = "search"
	if err := r.Vectors.validate(op); err != nil {
		return nil, err
	}
	if err := r.validate(op); err != nil {
		return nil, err
	}
	return d.find(ctx, op, &r)
}

func (d *Dataset) find(ctx context.Context, op string, r *SearchRequest) (*Candidates, error) {
	if err := d.acquire(op); err != nil {
		return nil, err
	}
	defer d.release()
	var found C.lk_candidates
	err := d.lib.call(ctx, op, d.hide, func(cancel *C.LanceFfiCancel, failure *C.lk_error) C.int32_t {
		return d.search(r, cancel, &found, nil, failure)
	})
	if err != nil {
		return nil, err
	}
	n := int(found.len)
	out := &Candidates{Query: make([]uint32, n), Distance: make([]float32, n), RowID: make([]uint64, n), Stats: searchStats(&found.stats)}
	C.lk_candidates_take(d.lib.entries, &found, (*C.uint32_t)(unsafe.SliceData(out.Query)), (*C.float)(unsafe.SliceData(out.Distance)),
		(*C.uint64_t)(unsafe.SliceData(out.RowID)))
	return out, nil
}

// CheckFilter says whether searches of a vector column can use the filter: it is planned, and no row is read. The native side remembers the
// filters that passed, so the search that follows does not plan it again. Errors are those of [Dataset.Column] and [Dataset.Search];
// ErrInvalidArgument names the filter.
func (d *Dataset) CheckFilter(ctx context.Context, column, filter string) error {
	const op = "check filter"
	if d.isClosed() {
		return closed(op)
	}
	info, err := d.Column(ctx, column)
	if err != nil {
		return err
	}
	// A search for no query ends where the others begin: once its filter has been checked.
	r := SearchRequest{Column: column, Filter: filter, K: 1, Vectors: Vectors{Type: info.Type, Dim: info.Dim}}
	if info.Multivector {
		r.Vectors.PerQuery = 1
	}
	_, err = d.find(ctx, op, &r)
	return err
}

// Eligibility says which path the request would take. Its vectors may be left out, but not their shape.
func (d *Dataset) Eligibility(ctx context.Context, r SearchRequest) (Eligibility, error) {
	const op = "eligibility"
	if err := r.validate(op); err != nil {
		return Eligibility{}, err
	}
	if len(r.Vectors.Data) > 0 {
		if err := r.Vectors.validate(op); err != nil {
			return Eligibility{}, err
		}
	}
	var e Eligibility
	err := d.ask(ctx, op, &e, func(cancel *C.LanceFfiCancel, out *C.lk_buffer, failure *C.lk_error) C.int32_t {
		return d.search(&r, cancel, nil, out, failure)
	})
	return e, err
}

func (d *Dataset) search(r *SearchRequest, cancel *C.LanceFfiCancel, found *C.lk_candidates, eligibility *C.lk_buffer, failure *C.lk_error) C.int32_t {
	return C.lk_dataset_search(d.lib.entries, d.native, cancel,
		stringPointer(r.Column), C.size_t(len(r.Column)), stringPointer(r.Filter), C.size_t(len(r.Filter)),
		(*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(r.Segments))), C.size_t(len(r.Segments)),
		(*C.uint32_t)(unsafe.SliceData(r.Fragments)), C.size_t(len(r.Fragments)),
		bytesPointer(r.Vectors.aligned()), (*C.float)(unsafe.SliceData(r.Bounds)), r.native(), found, eligibility, failure)
}

func (r *SearchRequest) native() C.lk_search_options {
	useIndex := C.uint32_t(1)
	if r.NoIndex {
		useIndex = 0
	}
	return C.lk_search_options{
		value_type:        C.uint32_t(r.Vectors.Type),
		vectors_per_query: C.uint32_t(r.Vectors.PerQuery),
		query_count:       C.size_t(r.Vectors.Queries),
		dim:               C.size_t(r.Vectors.Dim),
		k:                 C.uint64_t(r.K),
		refine_factor:     C.uint64_t(r.RefineFactor),
		nprobes:           positiveOrUnset(r.NProbes),
		min_nprobes:       positiveOrUnset(r.MinNProbes),
		max_nprobes:       positiveOrUnset(r.MaxNProbes),
		search_effort:     C.double(orNaN(r.SearchEffort)),
		ef:                positiveOrUnset(r.EF),
		distance_lower:    C.float(orNaN(r.DistanceMin)),
		distance_upper:    C.float(orNaN(r.DistanceMax)),
		metric:            C.uint32_t(r.Metric),
		query_parallelism: C.int32_t(r.QueryParallelism),
		approx_mode:       C.uint32_t(r.ApproxMode),
		use_index:         useIndex,
		path:              C.uint32_t(r.Path),
		probing:           C.uint32_t(r.Probing),
		threads:           C.uint32_t(r.Threads),
	}
}

func positiveOrUnset(n int) C.int64_t {
	if n == 0 {
		return -1
	}
	return C.int64_t(n)
}

func orNaN[F float32 | float64](f *F) F {
	if f == nil {
		return F(math.NaN())
	}
	return *f
}

func (r *SearchRequest) validate(op string) error {
	switch {
	case r.Column == "":
		return invalid(op, "column is empty")
	case r.K <= 0:
		return invalid(op, "k is %d; it must be positive", r.K)
	case r.Segments != nil && len(r.Segments) == 0:
		return invalid(op, "segments is empty; use nil to search every segment")
	case r.Fragments != nil && len(r.Fragments) == 0:
		return invalid(op, "fragments is empty; use nil to search every fragment")
	case r.QueryParallelism != int(int32(r.QueryParallelism)):
		return invalid(op, "query parallelism is %d; it must fit 32 bits", r.QueryParallelism)
	case r.Threads != int(int32(r.Threads)):
		return invalid(op, "threads is %d; it must fit 32 bits", r.Threads)
	case r.SearchEffort != nil && math.IsNaN(*r.SearchEffort):
		return invalid(op, "search effort is NaN")
	case r.DistanceMin != nil && isNaN(*r.DistanceMin), r.DistanceMax != nil && isNaN(*r.DistanceMax):
		return invalid(op, "a bound of the distance range is NaN")
	case r.Bounds != nil && len(r.Bounds) != r.Vectors.Queries:
		return invalid(op, "%d bounds for %d queries; give one each", len(r.Bounds), r.Vectors.Queries)
	}
	for i, bound := range r.Bounds {
		if isNaN(bound) {
			return invalid(op, "bound of query %d is NaN; use +Inf for none", i)
		}
	}
	for _, n := range [...]struct {
		name  string
		value int
	}{
		{"refine factor", r.RefineFactor},
		{"nprobes", r.NProbes},
		{"minimum nprobes", r.MinNProbes},
		{"maximum nprobes", r.MaxNProbes},
		{"ef", r.EF},
		{"threads", r.Threads},
	} {
		if n.value < 0 {
			return invalid(op, "%s is %d; it must not be negative", n.name, n.value)
		}
	}
	return nil
}

func isNaN(f float32) bool { return f != f }

func searchStats(s *C.LanceFfiStats) SearchStats {
	return SearchStats{
		Path:               Path(s.path),
		Exact:              s.exact != 0,
		Metric:             Metric(s.metric),
		SegmentsSearched:   uint64(s.segments_searched),
		PartitionsRanked:   uint64(s.partitions_ranked),
		PartitionsSearched: uint64(s.partitions_searched),
		BytesRead:          uint64(s.bytes_read),
		Requests:           uint64(s.requests),
		CacheHits:          uint64(s.cache_hits),
		CacheMisses:        uint64(s.cache_misses),
		Filter:             time.Duration(s.filter_nanos),
		Rank:               time.Duration(s.rank_nanos),
		Search:             time.Duration(s.search_nanos),
		Total:              time.Duration(s.total_nanos),
	}
}
