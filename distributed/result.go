package distributed

import (
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/topk"
)

// Neighbor is one row found for a query.
type Neighbor struct {
	RowID    uint64
	Distance float32 // smaller is nearer for every metric; +Inf for a row too far away for a float32
}

// Result is the answer of a search. It is safe for concurrent use until Release.
type Result struct {
	Stats Stats

	neighbors []Neighbor // of all queries, one after another
	ends      []int      // end of each query's neighbours
	allocator memory.Allocator

	lock     sync.Mutex
	columns  arrow.Record // as fetched: a row for each neighbour; nil: none requested
	record   arrow.Record // built on demand
	released bool
}

// newResult leaves the offset out and gives every query its number in the caller's matrix.
func (p *Plan) newResult(merged []topk.Candidate) *Result {
	r := &Result{ends: make([]int, p.queries), allocator: p.options.allocator()}
	r.neighbors = make([]Neighbor, 0, len(merged))
	next := 0 // query whose end is not known yet
	rank := 0 // of the candidate in its query
	for i, c := range merged {
		if i == 0 || c.Query != merged[i-1].Query {
			rank = 0
		}
		if query := p.callersQuery(c.Query); query != next {
			for ; next < query; next++ {
				r.ends[next] = len(r.neighbors)
			}
		}
		if rank >= p.query.Offset {
			r.neighbors = append(r.neighbors, Neighbor{RowID: c.RowID, Distance: c.Distance})
		}
		rank++
	}
	for ; next < p.queries; next++ {
		r.ends[next] = len(r.neighbors)
	}
	return r
}

func (p *Plan) callersQuery(query uint32) int {
	if p.ids != nil {
		return int(p.ids[query])
	}
	return int(query)
}

// Len is the number of queries, those without neighbours included.
func (r *Result) Len() int { return len(r.ends) }

// Neighbors gives the rows found for a query, nearest first, equal distances by row id: at most Query.K. The slice belongs to the result and
// stays valid after Release; do not modify it. It panics when the query is not within 0 to Len()-1.
func (r *Result) Neighbors(query int) []Neighbor {
	from := 0
	if query > 0 {
		from = r.ends[query-1]
	}
	to := r.ends[query]
	return r.neighbors[from:to:to]
}

// Record gives the whole answer as one Arrow record: _query_id int32, _distance float32, _rowid uint64, then the requested columns in the
// order and with the names the dataset gives them. Rows are ordered by query, distance and row id. It is built on the first call, in
// Options.Allocator, and belongs to the result: retain it to keep it beyond Release. After Release it is nil.
func (r *Result) Record() arrow.Record {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.record == nil && !r.released {
		r.record = r.build()
	}
	return r.record
}

// Release frees the memory of the record. It may be called more than once, also at once.
func (r *Result) Release() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.released = true
	if r.record != nil {
		r.record.Release()
		r.record = nil
	}
	if r.columns != nil {
		r.columns.Release()
		r.columns = nil
	}
}

func (r *Result) build() arrow.Record {
	n := len(r.neighbors)
	queries, distances, rowIDs := array.NewInt32Builder(r.allocator), array.NewFloat32Builder(r.allocator), array.NewUint64Builder(r.allocator)
	defer queries.Release()
	defer distances.Release()
	defer rowIDs.Release()
	queries.Reserve(n)
	distances.Reserve(n)
	rowIDs.Reserve(n)
	for q := range r.Len() {
		for _, neighbor := range r.Neighbors(q) {
			queries.UnsafeAppend(int32(q))
			distances.UnsafeAppend(neighbor.Distance)
			rowIDs.UnsafeAppend(neighbor.RowID)
		}
	}
	fields := []arrow.Field{
		{Name: QueryIDColumn, Type: arrow.PrimitiveTypes.Int32},
		{Name: DistanceColumn, Type: arrow.PrimitiveTypes.Float32},
		{Name: RowIDColumn, Type: arrow.PrimitiveTypes.Uint64},
	}
	arrays := []arrow.Array{queries.NewArray(), distances.NewArray(), rowIDs.NewArray()}
	defer func() {
		for _, a := range arrays[:3] {
			a.Release()
		}
	}()
	var metadata *arrow.Metadata
	if r.columns != nil {
		schema := r.columns.Schema()
		fields = append(fields, schema.Fields()...)
		arrays = append(arrays, r.columns.Columns()...)
		m := schema.Metadata()
		metadata = &m
	}
	return array.NewRecord(arrow.NewSchema(fields, metadata), arrays, int64(n))
}
