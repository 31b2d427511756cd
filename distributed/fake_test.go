package distributed

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// table is a dataset in Go memory that behaves as the native core is documented to: the filter comes first, segments hold the rows of their
// fragments, index distances of a quantised index are another number than exact ones, and every rule about which of them is compared with
// what is Lance's. It records every call.
type table struct {
	description binding.Description
	column      binding.ColumnInfo
	rows        []row
	columnErr   error
	closed      bool
	described   *binding.Description // what Describe gives: one copy, as a handle does
	options     binding.OpenOptions

	approximate  bool // the index is quantised: its distances are distorted
	placeholders bool // a filter that leaves no more than k rows makes the index give some of them at +Inf
	direct       bool // answer of Eligibility
	filterErr    error
	exactBy      func(binding.SearchRequest) bool

	onSearch func(ctx context.Context, r binding.SearchRequest) error // nil: nothing happens

	lock          sync.Mutex
	searches      []binding.SearchRequest
	refines       []binding.RefineRequest
	takes         [][]uint64
	eligibilities int
	filters       []string // checked
}

type row struct {
	id       uint64 // fragment << 32 | offset
	fragment uint32
	vector   []float64 // dim values; nil: null
	category int
	title    string
}

func segmentID(n int) binding.SegmentID {
	var id binding.SegmentID
	binary.BigEndian.PutUint32(id[:], uint32(n)+0xa0000000)
	return id
}

// newTable makes one fragment of each list of vectors.
func newTable(fragments ...[][]float64) *table {
	t := &table{column: binding.ColumnInfo{FieldID: 7, Path: "vec", Type: binding.Float32}}
	t.description.Version = 42
	t.description.URI = "s3://bucket/t.lance"
	for f, vectors := range fragments {
		t.description.Fragments = append(t.description.Fragments, binding.Fragment{ID: uint32(f), PhysicalRows: uint64(len(vectors))})
		for i, v := range vectors {
			n := len(t.rows)
			t.rows = append(t.rows, row{id: uint64(f)<<32 | uint64(i), fragment: uint32(f), vector: v, category: n % 10, title: "title " + strconv.Itoa(n)})
			t.column.Dim = len(v)
		}
	}
	return t
}

// line makes fragments of n vectors (id, 0, 0, 0), ids counted through.
func line(sizes ...int) *table {
	id := 0
	var fragments [][][]float64
	for _, n := range sizes {
		var vectors [][]float64
		for range n {
			vectors = append(vectors, []float64{float64(id), 0, 0, 0})
			id++
		}
		fragments = append(fragments, vectors)
	}
	return newTable(fragments...)
}

// index adds an L2 index with a segment for each list of fragments.
func (t *table) index(name string, segments ...[]uint32) *table {
	x := binding.VectorIndex{Name: name, Column: t.column.Path, FieldID: t.column.FieldID, Type: "IVF_FLAT", Metric: binding.L2}
	for _, fragments := range segments {
		n := 0
		for _, other := range t.description.Indexes {
			n += len(other.Segments)
		}
		x.Segments = append(x.Segments, binding.Segment{ID: segmentID(n + len(x.Segments)), Fragments: fragments, Type: x.Type, Metric: x.Metric, Partitions: 1})
	}
	t.description.Indexes = append(t.description.Indexes, x)
	return t
}

func (t *table) quantised() *table {
	t.approximate = true
	for i := range t.description.Indexes {
		t.description.Indexes[i].Type = "IVF_PQ"
		for j := range t.description.Indexes[i].Segments {
			t.description.Indexes[i].Segments[j].Type = "IVF_PQ"
		}
	}
	return t
}

func (t *table) metric(m binding.Metric) *table {
	for i := range t.description.Indexes {
		t.description.Indexes[i].Metric = m
		for j := range t.description.Indexes[i].Segments {
			t.description.Indexes[i].Segments[j].Metric = m
		}
	}
	return t
}

func (t *table) delete(fragment uint32) *table {
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return r.fragment == fragment })
	t.description.Fragments[fragment].DeletedRows = t.description.Fragments[fragment].PhysicalRows
	return t
}

func (t *table) live() uint64 { return uint64(len(t.rows)) }

func (t *table) URI() string     { return t.description.URI }
func (t *table) Version() uint64 { return t.description.Version }
func (t *table) OpenOptions() binding.OpenOptions {
	o := t.options
	o.Version = t.description.Version
	return o
}

func (t *table) Describe(context.Context) (*binding.Description, error) {
	if t.closed {
		return nil, &binding.Error{Op: "describe", Code: binding.CodeClosed, Message: "dataset is closed"}
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.described == nil {
		d := t.description
		t.described = &d
	}
	return t.described, nil
}

// reopened is the same table after its description was changed: a handle never changes its own.
func (t *table) reopened() *table {
	t.described = nil
	return t
}

func (t *table) Column(_ context.Context, path string) (binding.ColumnInfo, error) {
	if t.columnErr != nil {
		return binding.ColumnInfo{}, t.columnErr
	}
	if path != t.column.Path {
		return binding.ColumnInfo{}, &binding.Error{Op: "column", Code: binding.CodeNotFound, Message: fmt.Sprintf("column %q does not exist", path)}
	}
	return t.column, nil
}

func (t *table) Schema() (*arrow.Schema, error) {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "title", Type: arrow.BinaryTypes.String},
		{Name: "Title", Type: arrow.BinaryTypes.String},
		{Name: "vec", Type: arrow.FixedSizeListOf(int32(max(1, t.column.Dim)), arrow.PrimitiveTypes.Float32)},
		{Name: "a.b", Type: arrow.PrimitiveTypes.Int64},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "y.z", Type: arrow.PrimitiveTypes.Int64})},
	}, nil), nil
}

func (t *table) CheckFilter(_ context.Context, _, filter string) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.filters = append(t.filters, filter)
	return t.filterErr
}

func (t *table) Eligibility(_ context.Context, r binding.SearchRequest) (binding.Eligibility, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.eligibilities++
	if t.direct {
		return binding.Eligibility{Direct: true}, nil
	}
	return binding.Eligibility{Reasons: []string{"the fake says no"}}, nil
}

// values gives the numbers of one query.
func values(v binding.Vectors, query int) []float64 {
	perQuery := max(1, v.PerQuery) * v.Dim
	out := make([]float64, perQuery)
	for i := range out {
		at := v.Data[(query*perQuery+i)*v.Type.Size():]
		switch v.Type {
		case binding.Float16:
			out[i] = halfToFloat64(binary.LittleEndian.Uint16(at))
		case binding.Float32:
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))
		case binding.Float64:
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(at))
		case binding.Uint8:
			out[i] = float64(at[0])
		}
	}
	return out
}

func exactDistance(m binding.Metric, q, v []float64) float64 {
	var l2, dot, qq, vv float64
	bits := 0
	for i := range q {
		l2 += (q[i] - v[i]) * (q[i] - v[i])
		dot += q[i] * v[i]
		qq += q[i] * q[i]
		vv += v[i] * v[i]
		if m == binding.Hamming {
			for x := uint8(q[i]) ^ uint8(v[i]); x != 0; x &= x - 1 {
				bits++
			}
		}
	}
	switch m {
	case binding.Cosine:
		return 1 - dot/math.Sqrt(qq)/math.Sqrt(vv)
	case binding.Dot:
		return 1 - dot
	case binding.Hamming:
		return float64(bits)
	}
	return l2
}

// distort is what a quantised index makes of a distance: on another scale, and off by up to a few, depending on the row.
func distort(d float64, rowID uint64) float64 {
	return 2*d + float64(rowID*2654435761%97)/16
}

type scored struct {
	distance float64
	rowID    uint64
}

func best(list []scored, k int) []scored {
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.rowID, b.rowID))
	})
	return list[:min(k, len(list))]
}

func (t *table) matches(filter string, r row) bool {
	switch {
	case filter == "":
		return true
	case strings.HasPrefix(filter, "category = "):
		n, _ := strconv.Atoi(strings.TrimPrefix(filter, "category = "))
		return r.category == n
	case strings.HasPrefix(filter, "category < "):
		n, _ := strconv.Atoi(strings.TrimPrefix(filter, "category < "))
		return r.category < n
	}
	panic("the fake does not know the filter " + filter)
}

func (t *table) segment(id binding.SegmentID) *binding.Segment {
	for i := range t.description.Indexes {
		for j := range t.description.Indexes[i].Segments {
			if s := &t.description.Indexes[i].Segments[j]; s.ID == id {
				return s
			}
		}
	}
	return nil
}

// covered says which fragments the segments of a request cover; all is true where it restricts nothing.
func (t *table) covered(r binding.SearchRequest) (fragments map[uint32]bool, all bool) {
	fragments = map[uint32]bool{}
	if len(r.Segments) == 0 {
		if len(t.description.Indexes) == 0 {
			return fragments, false
		}
		for _, s := range t.description.Indexes[0].Segments {
			all = all || s.NoBitmap
			for _, f := range s.Fragments {
				fragments[f] = true
			}
		}
		return fragments, all
	}
	for _, id := range r.Segments {
		s := t.segment(id)
		all = all || s.NoBitmap
		for _, f := range s.Fragments {
			fragments[f] = true
		}
	}
	return fragments, all
}

func (t *table) Search(ctx context.Context, r binding.SearchRequest) (*binding.Candidates, error) {
	t.lock.Lock()
	kept := r
	kept.Vectors.Data = slices.Clone(r.Vectors.Data)
	t.searches = append(t.searches, kept)
	t.lock.Unlock()
	if t.onSearch != nil {
		if err := t.onSearch(ctx, r); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.K <= 0 || uint64(r.K) > t.live() {
		return nil, fmt.Errorf("k %d reached the native side, which holds %d rows", r.K, t.live())
	}
	if r.RefineFactor > 0 && uint64(r.K*r.RefineFactor) > 2*t.live() {
		return nil, fmt.Errorf("k %d x refine factor %d reached the native side, which holds %d rows", r.K, r.RefineFactor, t.live())
	}
	out := &binding.Candidates{Stats: binding.SearchStats{Metric: r.Metric, PartitionsSearched: 1, BytesRead: 100, Requests: 2, CacheHits: 3}}
	if t.exactBy != nil {
		out.Stats.Exact = t.exactBy(r)
	}
	for query := range r.Vectors.Queries {
		for _, s := range t.searchOne(r, values(r.Vectors, query), out.Stats.Exact) {
			if r.Bounds != nil && float32(s.distance) > r.Bounds[query] && !math.IsInf(s.distance, 1) {
				continue // the most that a bound allows to be left out
			}
			out.Query = append(out.Query, uint32(query))
			out.Distance = append(out.Distance, float32(s.distance))
			out.RowID = append(out.RowID, s.rowID)
		}
	}
	return out, nil
}

func (t *table) searchOne(r binding.SearchRequest, q []float64, rescored bool) []scored {
	inRange := func(d float64) bool {
		return (r.DistanceMin == nil || d >= float64(*r.DistanceMin)) && (r.DistanceMax == nil || d < float64(*r.DistanceMax))
	}
	covered, all := t.covered(r)
	var indexed, flat []row
	for _, w := range t.rows {
		switch {
		case w.vector == nil || !t.matches(r.Filter, w):
		case len(r.Fragments) > 0 && !slices.Contains(r.Fragments, w.fragment):
		case r.NoIndex:
			flat = append(flat, w)
		case all || covered[w.fragment]:
			indexed = append(indexed, w)
		case len(r.Segments) == 0 || len(r.Fragments) > 0:
			flat = append(flat, w) // Lance scans what the segments do not cover, unless only segments were asked for
		}
	}
	exact := func(w row) float64 { return exactDistance(r.Metric, q, w.vector) }
	limit := r.K * max(1, r.RefineFactor)
	var found []scored
	for i, w := range indexed {
		d := exact(w)
		if t.approximate && !rescored {
			d = distort(d, w.id)
		}
		switch {
		case t.placeholders && len(indexed) <= r.K && i%2 == 1:
			found = append(found, scored{math.Inf(1), w.id}) // not range checked: neither does Lance
		case inRange(d):
			found = append(found, scored{d, w.id})
		}
	}
	found = best(found, limit)
	if r.RefineFactor > 0 || len(flat) > 0 {
		byID := map[uint64]row{}
		for _, w := range indexed {
			byID[w.id] = w
		}
		refined := found[:0]
		for _, s := range found {
			if d := exact(byID[s.rowID]); inRange(d) {
				refined = append(refined, scored{d, s.rowID})
			}
		}
		found = best(refined, r.K)
	}
	for _, w := range flat {
		if d := exact(w); inRange(d) && !math.IsNaN(d) {
			found = append(found, scored{d, w.id})
		}
	}
	return best(found, r.K)
}

func (t *table) Refine(_ context.Context, r binding.RefineRequest) ([]float32, error) {
	t.lock.Lock()
	t.refines = append(t.refines, r)
	t.lock.Unlock()
	byID := map[uint64]row{}
	for _, w := range t.rows {
		byID[w.id] = w
	}
	out := make([]float32, len(r.RowID))
	for i, id := range r.RowID {
		w, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("row %d does not exist", id)
		}
		out[i] = float32(exactDistance(r.Metric, values(r.Vectors, int(r.Query[i])), w.vector))
	}
	return out, nil
}

func (t *table) Take(_ context.Context, rowIDs []uint64, columns []string, mem memory.Allocator) (arrow.Record, error) {
	t.lock.Lock()
	t.takes = append(t.takes, slices.Clone(rowIDs))
	t.lock.Unlock()
	byID := map[uint64]int{}
	for i, w := range t.rows {
		byID[w.id] = i
	}
	var fields []arrow.Field
	var arrays []arrow.Array
	for _, column := range columns {
		switch column {
		case "title":
			b := array.NewStringBuilder(mem)
			for _, id := range rowIDs {
				b.Append(t.rows[byID[id]].title)
			}
			fields, arrays = append(fields, arrow.Field{Name: column, Type: arrow.BinaryTypes.String}), append(arrays, b.NewArray())
			b.Release()
		case "id":
			b := array.NewInt64Builder(mem)
			for _, id := range rowIDs {
				b.Append(int64(byID[id]))
			}
			fields, arrays = append(fields, arrow.Field{Name: column, Type: arrow.PrimitiveTypes.Int64}), append(arrays, b.NewArray())
			b.Release()
		default:
			return nil, fmt.Errorf("the fake cannot take %q", column)
		}
	}
	rec := array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(len(rowIDs)))
	for _, a := range arrays {
		a.Release()
	}
	return rec, nil
}

// bruteForce is the oracle: exact distances of every live row that fits, in the order (distance, row id), for one query.
func (t *table) bruteForce(m binding.Metric, q []float64, keep func(row) bool) []Neighbor {
	var all []scored
	for _, w := range t.rows {
		if w.vector == nil || keep != nil && !keep(w) {
			continue
		}
		if d := exactDistance(m, q, w.vector); !math.IsNaN(d) {
			all = append(all, scored{float64(float32(d)), w.id})
		}
	}
	var out []Neighbor
	for _, s := range best(all, len(all)) {
		out = append(out, Neighbor{RowID: s.rowID, Distance: float32(s.distance)})
	}
	return out
}

// search plans and executes.
func (t *table) search(tb testing.TB, q Query, o Options) *Result {
	tb.Helper()
	r, err := t.try(context.Background(), q, o)
	require.NoError(tb, err)
	tb.Cleanup(r.Release)
	return r
}

func (t *table) try(ctx context.Context, q Query, o Options) (*Result, error) {
	p, err := newPlan(ctx, t, q, o)
	if err != nil {
		return nil, err
	}
	return p.Execute(ctx)
}

func (t *table) plan(tb testing.TB, q Query, o Options) *Plan {
	tb.Helper()
	p, err := newPlan(context.Background(), t, q, o)
	require.NoError(tb, err)
	return p
}

func (t *table) planError(tb testing.TB, q Query, o Options) error {
	tb.Helper()
	p, err := newPlan(context.Background(), t, q, o)
	require.Error(tb, err)
	require.Nil(tb, p)
	return err
}

// at is the query (x, 0, 0, 0).
func at(xs ...float32) Vectors {
	var v []float32
	for _, x := range xs {
		v = append(v, x, 0, 0, 0)
	}
	return Float32(v, 4)
}

func rowIDs(neighbors []Neighbor) []uint64 {
	ids := []uint64{}
	for _, n := range neighbors {
		ids = append(ids, n.RowID)
	}
	return ids
}

// ids translates the position of a row in the table into its row id.
func (t *table) ids(positions ...int) []uint64 {
	out := []uint64{}
	for _, p := range positions {
		out = append(out, t.rows[p].id)
	}
	return out
}

func ptr[T any](v T) *T { return &v }

// every runs a test with each strategy, split as finely as the rows and queries allow.
func every(t *testing.T, run func(t *testing.T, o Options)) {
	for _, s := range []Strategy{Auto, Single, Segments, Queries, Grid} {
		for _, maxTasks := range []int{0, 1, 3, 100} {
			t.Run(fmt.Sprintf("%s/max=%d", s, maxTasks), func(t *testing.T) {
				run(t, Options{Strategy: s, MaxTasks: maxTasks, Threads: 4})
			})
		}
	}
}
