package distributed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func TestSearch_NilDataset(t *testing.T) {
	_, err := VectorSearch(t.Context(), nil, oneQuery, Options{})
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
}

func TestPlan_ThatNewPlanDidNotMake(t *testing.T) {
	for _, p := range []*Plan{nil, {}} {
		_, err := p.Execute(t.Context())
		var a *ArgumentError
		require.ErrorAs(t, err, &a)
		require.ErrorIs(t, err, binding.ErrInvalidArgument)
		require.ErrorContains(t, err, "make it with NewPlan")
		require.Contains(t, p.Explain(), "make it with NewPlan")
		_, why := p.Index()
		require.Contains(t, why, "make it with NewPlan")
		require.Empty(t, p.Tasks())
	}
}

func TestSearch_ClosedHandle(t *testing.T) {
	tab := line(10)
	tab.closed = true
	require.ErrorIs(t, tab.planError(t, oneQuery, Options{}), binding.ErrClosed)
}

func TestSearch_UnknownColumn(t *testing.T) {
	for _, column := range []string{"Vec", "VEC", "nope", "vec.x"} {
		err := line(10).planError(t, Query{Column: column, Vectors: at(0), K: 1}, Options{})
		var a *ArgumentError
		require.ErrorAs(t, err, &a)
		require.Equal(t, "Column", a.Name)
		require.ErrorIs(t, err, binding.ErrNotFound)
		require.ErrorContains(t, err, column)
	}
}

func TestSearch_ColumnNamesNoEngineCanSearch(t *testing.T) {
	err := line(10).planError(t, Query{Column: "`with``tick`", Vectors: at(0), K: 1}, Options{})
	require.ErrorIs(t, err, binding.ErrUnsupported)
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
	for _, column := range []string{"", "a..b", "`a"} {
		require.ErrorIs(t, line(10).planError(t, Query{Column: column, Vectors: at(0), K: 1}, Options{}), binding.ErrInvalidArgument)
	}
}

func TestSearch_WrongDimension(t *testing.T) {
	err := line(10).planError(t, Query{Column: "vec", Vectors: Float32(make([]float32, 6), 3), K: 1}, Options{})
	var a *ArgumentError
	require.ErrorAs(t, err, &a)
	require.ErrorContains(t, err, "dimension 3")
	require.ErrorContains(t, err, "has 4")
}

func TestSearch_NaNQueryNamesQueryAndPosition(t *testing.T) {
	v := make([]float32, 12)
	v[4+2] = float32(math.NaN())
	tab := line(10).index("x", []uint32{0})
	err := tab.planError(t, Query{Column: "vec", Vectors: Float32(v, 4), K: 1}, Options{})
	var q *QueryError
	require.ErrorAs(t, err, &q)
	require.Equal(t, 1, q.Query)
	require.Equal(t, 2, q.Position)
	require.Empty(t, tab.searches)
}

func TestSearch_UnknownRequestedColumnBeforeSearching(t *testing.T) {
	tab := line(10)
	q := oneQuery
	q.Columns = []string{"nope"}
	require.ErrorIs(t, tab.planError(t, q, Options{}), binding.ErrNotFound)
	require.Empty(t, tab.searches)
}

func TestFilter_ThatCannotBePlannedIsRefusedBeforeSearching(t *testing.T) {
	tab := line(10, 10).index("x", []uint32{0}, []uint32{1})
	native := &binding.Error{Op: "check filter", Code: binding.CodeInvalidArgument, Message: `filter "nope > 1": no field named nope`}
	tab.filterErr = native
	q := oneQuery
	q.Filter = "nope > 1"
	err := tab.planError(t, q, Options{})
	var a *ArgumentError
	require.ErrorAs(t, err, &a)
	require.Equal(t, "Filter", a.Name)
	require.EqualError(t, err, `distributed: Filter: "nope > 1": no field named nope`)
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
	require.ErrorIs(t, err, error(native))
	require.Empty(t, tab.searches)

	tab.filterErr = &binding.Error{Op: "check filter", Code: binding.CodeIO, Message: "disk"}
	err = tab.planError(t, q, Options{})
	require.ErrorIs(t, err, binding.ErrIO)
	require.NotErrorAs(t, err, &a)
}

func TestFilter_IsCheckedOnce(t *testing.T) {
	tab := line(10)
	q := oneQuery
	tab.plan(t, q, Options{})
	require.Empty(t, tab.filters)
	for range 3 {
		q.Filter = "category < 5"
		tab.plan(t, q, Options{})
		tab.plan(t, q, Options{Strategy: Segments})
	}
	require.Equal(t, []string{"category < 5"}, tab.filters)
	for i := range 2 * remembered {
		q.Filter = fmt.Sprint("category < ", i)
		tab.plan(t, q, Options{})
	}
	d, err := tab.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(catalogOf(d).filters), remembered)
}

func TestSearch_BadArguments(t *testing.T) {
	tab := line(10).index("x", []uint32{0})
	for name, change := range map[string]func(*Query){
		"K":                func(q *Query) { q.K = 0 },
		"K ":               func(q *Query) { q.K = math.MinInt },
		"Offset":           func(q *Query) { q.Offset = -1 },
		"RefineFactor":     func(q *Query) { q.RefineFactor = -1 },
		"NProbes":          func(q *Query) { q.NProbes = -1 },
		"MinNProbes":       func(q *Query) { q.MinNProbes = math.MinInt },
		"MaxNProbes":       func(q *Query) { q.MaxNProbes = -3 },
		"MinNProbes ":      func(q *Query) { q.MinNProbes, q.MaxNProbes = 5, 4 },
		"MinNProbes  ":     func(q *Query) { q.MinNProbes, q.NProbes = 5, 4 },
		"NProbes ":         func(q *Query) { q.NProbes, q.MaxNProbes = 5, 4 },
		"EF":               func(q *Query) { q.EF = -1 },
		"SearchEffort":     func(q *Query) { q.SearchEffort = ptr(math.NaN()) },
		"SearchEffort ":    func(q *Query) { q.SearchEffort = ptr(1.001) },
		"SearchEffort  ":   func(q *Query) { q.SearchEffort = ptr(-0.1) },
		"DistanceMin":      func(q *Query) { q.DistanceMin = ptr(float32(math.NaN())) },
		"DistanceMax":      func(q *Query) { q.DistanceMax = ptr(float32(math.Inf(1))) },
		"DistanceMin ":     func(q *Query) { q.DistanceMin, q.DistanceMax = ptr(float32(2)), ptr(float32(2)) },
		"QueryParallelism": func(q *Query) { q.QueryParallelism = -2 },
		"Metric":           func(q *Query) { q.Metric = 9 },
		"ApproxMode":       func(q *Query) { q.ApproxMode = 9 },
	} {
		q := oneQuery
		change(&q)
		err := tab.planError(t, q, Options{})
		var a *ArgumentError
		require.ErrorAs(t, err, &a, name)
		require.ErrorIs(t, err, binding.ErrInvalidArgument)
		require.Contains(t, name, a.Name)
	}
	for name, o := range map[string]Options{
		"Strategy":    {Strategy: 99},
		"Unindexed":   {Unindexed: 99},
		"MaxTasks":    {MaxTasks: -1},
		"Threads":     {Threads: -1},
		"Threads ":    {Threads: math.MaxInt},
		"Probing":     {Probing: 99},
		"Path":        {Path: 99},
		"TaskTimeout": {TaskTimeout: -1},
	} {
		var a *ArgumentError
		require.ErrorAs(t, tab.planError(t, oneQuery, o), &a, name)
		require.Contains(t, "Options."+name, a.Name)
	}
	q := oneQuery
	q.NProbes, q.MinNProbes, q.SearchEffort = 1, 4, ptr(0.5) // the effort makes Lance ignore NProbes, so nothing contradicts
	tab.plan(t, q, Options{})
}

func TestSearch_EFBelowTheCandidatesNeeded(t *testing.T) {
	tab := line(100).index("x", []uint32{0})
	q := Query{Column: "vec", Vectors: at(0), K: 10, RefineFactor: 3, EF: 29}
	tab.plan(t, q, Options{}) // no graph, no ef
	tab.description.Indexes[0].Type = "IVF_HNSW_SQ"
	var a *ArgumentError
	require.ErrorAs(t, tab.reopened().planError(t, q, Options{}), &a)
	require.Equal(t, "EF", a.Name)
	require.ErrorContains(t, a, "30 candidates")
	q.EF = 30
	tab.plan(t, q, Options{})
}

func TestSearch_CancelledContext(t *testing.T) {
	tab := line(10)
	reason := errors.New("the user went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := newPlan(ctx, tab, oneQuery, Options{})
	require.NoError(t, err)
	cancel(reason)
	for _, allowPartial := range []bool{false, true} {
		p.options.AllowPartial = allowPartial
		_, err = p.Execute(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
		_, err = newPlan(ctx, tab, oneQuery, Options{AllowPartial: allowPartial})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, reason)
	}
}

func TestSearch_EmptyDataset(t *testing.T) {
	for name, tab := range map[string]*table{
		"no fragments": {column: binding.ColumnInfo{FieldID: 7, Path: "vec", Type: binding.Float32, Dim: 4}},
		"all deleted":  line(5, 5).index("x", []uint32{0}, []uint32{1}).delete(0).delete(1),
		"dead index":   line(5).index("x", []uint32{7}).delete(0),
		"missing bitmaps": func() *table {
			x := line(5).index("x", nil).delete(0)
			x.description.Indexes[0].Segments[0].NoBitmap = true
			return x
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, o Options) {
				q := Query{Column: "vec", Vectors: at(1, 2), K: 5, Offset: 3, RefineFactor: 2, Columns: []string{"id", "title"}}
				r := tab.search(t, q, o)
				require.Equal(t, 2, r.Len())
				require.Empty(t, r.Neighbors(0))
				require.Empty(t, r.Neighbors(1))
				rec := r.Record()
				require.Zero(t, rec.NumRows())
				require.Equal(t, []string{"_query_id", "_distance", "_rowid", "id", "title"}, fieldNames(rec))
				require.Empty(t, tab.searches)
			})
		})
	}
}

func TestSearch_KAboveTheRowCount(t *testing.T) {
	tab := line(7, 5, 3).index("x", []uint32{0}, []uint32{1})
	for _, huge := range []int{15, 16, 1000, 1 << 31, math.MaxInt} {
		every(t, func(t *testing.T, o Options) {
			o.Unindexed = Scan
			for _, refine := range []int{0, 1, 7, math.MaxInt} {
				r := tab.search(t, Query{Column: "vec", Vectors: at(3), K: huge, RefineFactor: refine}, o)
				require.Equal(t, tab.bruteForce(binding.L2, []float64{3, 0, 0, 0}, nil), r.Neighbors(0))
				r = tab.search(t, Query{Column: "vec", Vectors: at(3), K: 2, Offset: huge, RefineFactor: refine}, o)
				require.Empty(t, r.Neighbors(0))
				r = tab.search(t, Query{Column: "vec", Vectors: at(3), K: huge, Offset: 13, RefineFactor: refine}, o)
				require.Equal(t, tab.bruteForce(binding.L2, []float64{3, 0, 0, 0}, nil)[13:], r.Neighbors(0))
			}
		})
	}
}

// The fake refuses a k beyond its rows, so these pass only where the sizes are clamped.
func TestSizes_AnyIntIsSafe(t *testing.T) {
	values := []int{0, 1, 2, 3, 7, 10, 1 << 20, math.MaxInt32, math.MaxInt - 1, math.MaxInt}
	for _, live := range []uint64{0, 1, 10, 1 << 40, math.MaxUint64} {
		for _, k := range values[1:] {
			for _, offset := range values {
				for _, refine := range values {
					s := (&Query{K: k, Offset: offset, RefineFactor: refine}).sizesFor(live)
					top := min(live, math.MaxInt)
					require.GreaterOrEqual(t, s.want, 0)
					require.LessOrEqual(t, uint64(s.want), top)
					require.LessOrEqual(t, uint64(s.candidates), top)
					require.GreaterOrEqual(t, s.candidates, s.want)
					require.Equal(t, refine > 0 && live > 0, s.refine > 0)
					if s.want > 0 && s.refine > 0 {
						require.LessOrEqual(t, float64(s.want)*float64(s.refine), 2*float64(top)+float64(s.want))
					}
					if uint64(offset) < top {
						want := int(min(top-uint64(offset), uint64(k))) + offset
						require.Equal(t, want, s.want)
					}
				}
			}
		}
	}
}

func TestSearch_BoundedCandidatesWithTiedDistances(t *testing.T) {
	same := func(n int) [][]float64 {
		out := make([][]float64, n)
		for i := range out {
			out[i] = []float64{1, 1, 1, 1}
		}
		return out
	}
	tab := newTable(same(20), same(20), same(20), same(20)).index("x", []uint32{0}, []uint32{1, 2})
	var want []uint64
	for i := range 25 {
		want = append(want, tab.rows[i].id)
	}
	every(t, func(t *testing.T, o Options) {
		o.Unindexed = Scan
		for range 5 {
			r := tab.search(t, Query{Column: "vec", Vectors: Float32([]float32{1, 1, 1, 1}, 4), K: 25}, o)
			require.Equal(t, want, rowIDs(r.Neighbors(0)))
			for _, n := range r.Neighbors(0) {
				require.Zero(t, n.Distance)
			}
		}
	})
}

func TestSearch_QueryBufferChangedAfterPlanning(t *testing.T) {
	tab := line(50, 50).index("x", []uint32{0}, []uint32{1})
	every(t, func(t *testing.T, o Options) {
		buffer := []float32{10, 0, 0, 0, 80, 0, 0, 0}
		columns := []string{"id"}
		effort, low := 0.5, float32(0)
		q := Query{Column: "vec", Vectors: Float32(buffer, 4), K: 2, Columns: columns, SearchEffort: &effort, DistanceMin: &low}
		p := tab.plan(t, q, o)
		for i := range buffer {
			buffer[i] = float32(math.NaN())
		}
		columns[0], effort, low = "nope", 9, 1e9
		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, tab.ids(10, 9), rowIDs(r.Neighbors(0)))
		require.Equal(t, tab.ids(80, 79), rowIDs(r.Neighbors(1)))
		require.Equal(t, "id", r.Record().ColumnName(3))
	})
}

func TestSearch_QueryBufferChangedDuringExecution(t *testing.T) {
	tab := line(50, 50).index("x", []uint32{0}, []uint32{1}).quantised()
	buffer := []float32{10, 0, 0, 0}
	p := tab.plan(t, Query{Column: "vec", Vectors: Float32(buffer, 4), K: 3, RefineFactor: 40}, Options{Strategy: Segments, Threads: 2})
	entered, goOn := make(chan struct{}, 2), make(chan struct{})
	tab.onSearch = func(context.Context, binding.SearchRequest) error {
		entered <- struct{}{}
		<-goOn
		return nil
	}
	var r *Result
	var err error
	finished := make(chan struct{})
	go func() { defer close(finished); r, err = p.Execute(context.Background()) }()
	<-entered
	<-entered
	buffer[0] = 90 // under -race, a read of it by a task would also be reported
	close(goOn)
	<-finished
	require.NoError(t, err)
	defer r.Release()
	require.Equal(t, tab.ids(10, 9, 11), rowIDs(r.Neighbors(0)))
}

func TestSearch_UnevenSegmentGrouping(t *testing.T) {
	// 100 and 90 rows dominate. Round robin in the order of the index puts both into one group (100+90+1 against 1+1+1).
	tab := line(100, 1, 90, 1, 1, 1).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}, []uint32{4}, []uint32{5})
	p := tab.plan(t, Query{Column: "vec", Vectors: at(0), K: 5}, Options{Strategy: Segments, MaxTasks: 2})
	tasks := p.Tasks()
	require.Len(t, tasks, 2)
	require.Equal(t, uint64(100), tasks[0].Rows)
	require.Equal(t, uint64(94), tasks[1].Rows)
	require.Equal(t, []uint32{0}, tasks[0].Fragments)
	require.Equal(t, []uint32{1, 2, 3, 4, 5}, tasks[1].Fragments)
}

func TestSearch_IndependentTopKPerQueryOfAMatrix(t *testing.T) {
	tab := line(50, 50, 50, 50).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3})
	want := [][]uint64{tab.ids(0, 1, 2, 3, 4), tab.ids(199, 198, 197, 196, 195), tab.ids(75, 76, 74, 77, 73)}
	every(t, func(t *testing.T, o Options) {
		r := tab.search(t, Query{Column: "vec", Vectors: at(0, 199, 75.2), K: 5}, o)
		require.Equal(t, 3, r.Len())
		for q := range want {
			require.Equal(t, want[q], rowIDs(r.Neighbors(q)))
		}
		// A query without rows keeps its place.
		r = tab.search(t, Query{Column: "vec", Vectors: at(0, 1000, 75.2), K: 5, DistanceMax: ptr(float32(2))}, o)
		require.Equal(t, tab.ids(0, 1), rowIDs(r.Neighbors(0)))
		require.Empty(t, r.Neighbors(1))
		require.Equal(t, tab.ids(75, 76, 74), rowIDs(r.Neighbors(2)))
	})
}

func TestSearch_FilterBeforeNeighbours(t *testing.T) {
	for name, tab := range map[string]*table{
		"no index": line(64, 64, 64, 64),
		"indexed":  line(64, 64, 64, 64).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}),
		"half":     line(64, 64, 64, 64).index("x", []uint32{0}, []uint32{1}),
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, o Options) {
				o.Unindexed = Scan
				r := tab.search(t, Query{Column: "vec", Vectors: at(0), K: 3, Filter: "category = 7"}, o)
				require.Equal(t, tab.ids(7, 17, 27), rowIDs(r.Neighbors(0)))
			})
		})
	}
}

func TestCoverage_RefusedScannedSkipped(t *testing.T) {
	for _, quantised := range []bool{false, true} {
		every(t, func(t *testing.T, o Options) {
			tab := line(10, 20, 30, 5).index("x", []uint32{0}, []uint32{2})
			if quantised {
				tab.quantised()
			}
			q := Query{Column: "vec", Vectors: at(11.4), K: 4, RefineFactor: 30}

			err := tab.planError(t, q, o)
			var c *CoverageError
			require.ErrorAs(t, err, &c)
			require.ErrorIs(t, err, ErrCoverage)
			require.Equal(t, "x", c.Index)
			require.Equal(t, []uint32{1, 3}, c.Fragments)
			require.Equal(t, uint64(25), c.Rows)
			require.Equal(t, uint64(65), c.LiveRows)
			require.ErrorContains(t, err, `index "x" on "vec" does not cover 25 of 65 live rows, in fragments 1, 3`)
			require.Empty(t, tab.searches)

			o.Unindexed = Scan
			r := tab.search(t, q, o)
			require.Equal(t, tab.bruteForce(binding.L2, []float64{float64(float32(11.4)), 0, 0, 0}, nil)[:4], r.Neighbors(0))
			require.Equal(t, uint64(65), r.Stats.CoveredRows)
			require.True(t, r.Stats.Exact)

			o.Unindexed = Skip
			r = tab.search(t, q, o)
			inIndex := func(w row) bool { return w.fragment == 0 || w.fragment == 2 }
			require.Equal(t, tab.bruteForce(binding.L2, []float64{float64(float32(11.4)), 0, 0, 0}, inIndex)[:4], r.Neighbors(0))
			require.Equal(t, uint64(65), r.Stats.LiveRows)
			require.Equal(t, uint64(40), r.Stats.CoveredRows)
		})
	}
}

func TestCoverage_FragmentsWithoutLiveRowsNeedNoIndex(t *testing.T) {
	tab := line(10, 10).index("x", []uint32{0}).delete(1)
	r := tab.search(t, Query{Column: "vec", Vectors: at(9), K: 1}, Options{})
	require.Equal(t, tab.ids(9), rowIDs(r.Neighbors(0)))
	require.Equal(t, uint64(10), r.Stats.CoveredRows)
}

func TestCoverage_AnIndexThatCoversNothing(t *testing.T) {
	tab := line(10, 20).index("x", []uint32{9})
	q := Query{Column: "vec", Vectors: at(13), K: 2}
	every(t, func(t *testing.T, o Options) {
		require.ErrorIs(t, tab.planError(t, q, o), ErrCoverage)
		o.Unindexed = Scan
		require.Equal(t, tab.ids(13, 12), rowIDs(tab.search(t, q, o).Neighbors(0)))
		o.Unindexed = Skip
		r := tab.search(t, q, o)
		require.Empty(t, r.Neighbors(0))
		require.Zero(t, r.Stats.CoveredRows)
	})
	// Nor does it force one scan on the rows, in which Lance might choose another index.
	tab.column.Multivector = true
	tab.description.Monolithic = []string{"rows were moved"}
	p := tab.reopened().plan(t, q, Options{Unindexed: Scan, Threads: 2})
	require.Len(t, p.Tasks(), 2)
	for _, task := range p.Tasks() {
		require.Equal(t, FlatTask, task.Kind)
	}
}

func TestFlat_WithoutIndexIsExactOverEveryRow(t *testing.T) {
	tab := line(10, 100, 20, 30)
	every(t, func(t *testing.T, o Options) {
		p := tab.plan(t, Query{Column: "vec", Vectors: at(55, 120), K: 4, RefineFactor: 3}, o)
		require.Contains(t, p.Explain(), `index:    none: there is no vector index on "vec"`)
		var rows uint64
		for _, task := range p.Tasks() {
			require.Equal(t, FlatTask, task.Kind)
			require.True(t, task.request().NoIndex)
			require.Zero(t, task.RefineFactor, "a flat search is exact as it is")
			if task.FirstQuery == 0 {
				rows += task.Rows
			}
		}
		require.Equal(t, uint64(160), rows)
		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, tab.ids(55, 54, 56, 53), rowIDs(r.Neighbors(0)))
		require.Equal(t, tab.ids(120, 119, 121, 118), rowIDs(r.Neighbors(1)))
		require.True(t, r.Stats.Exact)
		require.Empty(t, r.Stats.Index)
		require.Empty(t, tab.refines)
	})
	// "Index only" without an index is no rows, and says so.
	r := tab.search(t, Query{Column: "vec", Vectors: at(55), K: 4}, Options{Unindexed: Skip})
	require.Empty(t, r.Neighbors(0))
	require.Zero(t, r.Stats.CoveredRows)
	require.Equal(t, uint64(160), r.Stats.LiveRows)
	// Asked for, it is every row whatever the policy.
	tab.index("x", []uint32{0}).quantised().reopened()
	for _, policy := range []Unindexed{Require, Scan, Skip} {
		r = tab.search(t, Query{Column: "vec", Vectors: at(55), K: 1, NoIndex: true}, Options{Unindexed: policy})
		require.Equal(t, tab.ids(55), rowIDs(r.Neighbors(0)))
	}
}

func TestCosine_ZeroQueryHasAnEmptyAnswerOfItsOwn(t *testing.T) {
	tab := newTable([][]float64{{1, 0}, {0, 1}}, [][]float64{{1, 1}, {-1, 0}}).index("x", []uint32{0}, []uint32{1}).metric(binding.Cosine)
	v := Float32([]float32{0, 0, 1, 0, 0, 0, 0, 2, 0, 0}, 2)
	every(t, func(t *testing.T, o Options) {
		r := tab.search(t, Query{Column: "vec", Vectors: v, K: 1, Columns: []string{"id"}}, o)
		require.Equal(t, 5, r.Len())
		for q, want := range [][]uint64{{}, tab.ids(0), {}, tab.ids(1), {}} {
			require.Equal(t, want, rowIDs(r.Neighbors(q)), "query %d", q)
		}
		require.Equal(t, []int32{1, 3}, int32s(r.Record().Column(0)))
		r = tab.search(t, Query{Column: "vec", Vectors: Float32(make([]float32, 4), 2), K: 1}, o)
		require.Equal(t, 2, r.Len())
		require.Empty(t, r.Neighbors(0))
	})
	p := tab.plan(t, Query{Column: "vec", Vectors: v, K: 1}, Options{})
	require.Contains(t, p.Explain(), "3 zero vectors without direction")
	// The same vectors are queries like any other for l2.
	r := tab.metric(binding.L2).reopened().search(t, Query{Column: "vec", Vectors: v, K: 1}, Options{})
	require.Len(t, r.Neighbors(0), 1)
}

func TestPaging_DisjointAndComplete(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var fragments [][][]float64
	for range 5 {
		var vectors [][]float64
		for range 17 {
			vectors = append(vectors, []float64{float64(rng.IntN(6)), 0, 0, 0}) // pages end inside ties
		}
		fragments = append(fragments, vectors)
	}
	for _, quantised := range []bool{false, true} {
		tab := newTable(fragments...).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3})
		if quantised {
			tab.quantised()
		}
		every(t, func(t *testing.T, o Options) {
			o.Unindexed = Scan
			whole := tab.search(t, Query{Column: "vec", Vectors: at(2, 5), K: 85}, o)
			for q := range 2 {
				var pages []Neighbor
				for offset := 0; offset < 90; offset += 7 {
					page := tab.search(t, Query{Column: "vec", Vectors: at(2, 5), K: 7, Offset: offset, RefineFactor: 85}, o).Neighbors(q)
					require.LessOrEqual(t, len(page), 7)
					pages = append(pages, page...)
				}
				require.Equal(t, whole.Neighbors(q), pages)
			}
		})
	}
}

func TestDistanceRange_LowerInclusiveUpperExclusive(t *testing.T) {
	for name, tab := range map[string]*table{
		"indexed": line(50, 50, 50, 50).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}),
		"half":    line(50, 50, 50, 50).index("x", []uint32{0}, []uint32{1}),
		"flat":    line(50, 50, 50, 50),
	} {
		t.Run(name, func(t *testing.T) {
			every(t, func(t *testing.T, o Options) {
				o.Unindexed = Scan
				for _, refine := range []int{0, 2} {
					r := tab.search(t, Query{Column: "vec", Vectors: at(0), K: 10, DistanceMin: ptr(float32(4)), DistanceMax: ptr(float32(16)), RefineFactor: refine}, o)
					require.Equal(t, tab.ids(2, 3), rowIDs(r.Neighbors(0)))
				}
			})
		})
	}
}

func TestDistanceRange_AppliesToExactDistancesAfterRefinement(t *testing.T) {
	// The index distance is at least twice the exact one, so every row with an exact distance of 10 and more passes the index' lower bound of 10,
	// and so do nearer ones, which only the exact distance can exclude.
	tab := line(10, 10).index("x", []uint32{0}, []uint32{1}).quantised()
	every(t, func(t *testing.T, o Options) {
		r := tab.search(t, Query{Column: "vec", Vectors: at(0), K: 4, RefineFactor: 5, DistanceMin: ptr(float32(10))}, o)
		require.Equal(t, tab.ids(4, 5, 6, 7), rowIDs(r.Neighbors(0)))
	})
}

func TestSearch_EveryStrategyEqualsBruteForceOnRandomTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for round := range 15 {
		var fragments [][][]float64
		for range 1 + rng.IntN(6) {
			vectors := make([][]float64, rng.IntN(30))
			for i := range vectors {
				vectors[i] = []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
			}
			fragments = append(fragments, vectors)
		}
		fragments = append(fragments, [][]float64{{1, 2, 3}})
		tab := newTable(fragments...)
		if rng.IntN(4) > 0 {
			var segments [][]uint32
			for f := range uint32(len(fragments)) {
				if rng.IntN(3) > 0 {
					segments = append(segments, []uint32{f, uint32(rng.IntN(len(fragments)))})
				}
			}
			tab.index("x", segments...)
		}
		metric := []binding.Metric{binding.L2, binding.Cosine, binding.Dot}[rng.IntN(3)]
		tab.metric(metric)
		n := 1 + rng.IntN(9)
		matrix := make([]float32, 3*n)
		for i := range matrix {
			matrix[i] = float32(rng.NormFloat64())
		}
		q := Query{Column: "vec", Vectors: Float32(matrix, 3), K: 1 + rng.IntN(12), Offset: rng.IntN(4), Metric: metric, RefineFactor: rng.IntN(3)}
		if rng.IntN(2) == 0 {
			q.Filter = "category < 6"
		}
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			every(t, func(t *testing.T, o Options) {
				o.Unindexed = Scan
				r := tab.search(t, q, o)
				for i := range n {
					point := []float64{float64(matrix[3*i]), float64(matrix[3*i+1]), float64(matrix[3*i+2])}
					want := tab.bruteForce(metric, point, func(w row) bool { return tab.matches(q.Filter, w) })
					want = want[min(q.Offset, len(want)):min(q.Offset+q.K, len(want))]
					got := r.Neighbors(i)
					require.Equal(t, rowIDs(want), rowIDs(got))
					for j := range got {
						require.InDelta(t, want[j].Distance, got[j].Distance, 1e-5)
					}
				}
			})
		})
	}
}

func TestSearch_LogsAFlatSearchBesideAnIndex(t *testing.T) {
	tab := line(10).index("x", []uint32{0})
	log, text := captured()
	tab.search(t, withMetric(binding.Dot), Options{Logger: log})
	require.Contains(t, text.String(), "level=WARN")
	require.Contains(t, text.String(), "vector search without index")

	log, text = captured()
	tab.search(t, oneQuery, Options{Logger: log})
	require.NotContains(t, text.String(), "WARN")
	require.Contains(t, text.String(), "vector search planned")
	require.Contains(t, text.String(), "vector search done")
}
