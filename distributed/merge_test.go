package distributed

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// scan is what Lance's own single scan gives, from the distances of the fake: the best k x refine by index distance over the whole index, re-scored,
// and merged with the rows outside it.
func (t *table) scan(q []float64, k, refine int, indexed func(row) bool) []Neighbor {
	var candidates []scored
	for _, w := range t.rows {
		if indexed(w) {
			candidates = append(candidates, scored{float64(float32(distort(exactDistance(binding.L2, q, w.vector), w.id))), w.id})
		}
	}
	candidates = best(candidates, k*max(1, refine))
	final := map[uint64]float64{}
	outside := false
	for _, w := range t.rows {
		if !indexed(w) {
			outside = true
			final[w.id] = exactDistance(binding.L2, q, w.vector)
		}
	}
	for _, c := range candidates {
		final[c.rowID] = c.distance
		if refine > 0 || outside {
			for _, w := range t.rows {
				if w.id == c.rowID {
					final[c.rowID] = exactDistance(binding.L2, q, w.vector)
				}
			}
		}
	}
	var out []Neighbor
	for id, d := range final {
		out = append(out, Neighbor{RowID: id, Distance: float32(d)})
	}
	slices.SortFunc(out, func(a, b Neighbor) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.RowID, b.RowID))
	})
	return out[:min(k, len(out))]
}

func everything(row) bool { return true }

func TestMerge_SplitSearchEqualsOneScan(t *testing.T) {
	tab := line(30, 10, 25, 15, 20).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}, []uint32{4}).quantised()
	every(t, func(t *testing.T, o Options) {
		for _, refine := range []int{0, 1, 2, 5} {
			r := tab.search(t, Query{Column: "vec", Vectors: at(20, 61.5, 99), K: 6, RefineFactor: refine}, o)
			for q, x := range []float64{20, 61.5, 99} {
				require.Equal(t, tab.scan([]float64{x, 0, 0, 0}, 6, refine, everything), r.Neighbors(q), "refine %d, query %d", refine, q)
			}
			require.Equal(t, refine > 0, r.Stats.Exact)
		}
	})
}

func TestMerge_ExactAndIndexDistancesAreNeverMergedUnrescored(t *testing.T) {
	// Distorted distances are twice the exact ones and more, so a plain merge would put rows outside the index before nearer rows in it.
	tab := line(20, 20, 20).index("x", []uint32{0}, []uint32{1}).quantised()
	inIndex := func(w row) bool { return w.fragment < 2 }
	every(t, func(t *testing.T, o Options) {
		o.Unindexed = Scan
		for _, refine := range []int{0, 1, 3} {
			r := tab.search(t, Query{Column: "vec", Vectors: at(39.4), K: 8, RefineFactor: refine}, o)
			require.Equal(t, tab.scan([]float64{float64(float32(39.4)), 0, 0, 0}, 8, refine, inIndex), r.Neighbors(0), "refine %d", refine)
			require.True(t, r.Stats.Exact)
		}
	})
}

func TestMerge_RefinesOnceOverTheMergedCandidates(t *testing.T) {
	tab := line(50, 50, 50, 50).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}).quantised()
	r := tab.search(t, Query{Column: "vec", Vectors: at(70, 130), K: 5, RefineFactor: 4}, Options{Strategy: Segments, MaxTasks: 4})
	for _, s := range tab.searches {
		require.Equal(t, 20, s.K)
		require.Zero(t, s.RefineFactor)
	}
	require.Len(t, tab.searches, 4)
	require.Len(t, tab.refines, 1)
	require.Len(t, tab.refines[0].RowID, 2*20, "the best k x refine of each query over all tasks, and no more")
	require.Equal(t, binding.L2, tab.refines[0].Metric)
	require.Equal(t, 40, r.Stats.Rescored)

	// Where one task answers a query alone there is nothing to merge, and the task refines as one scan would.
	for _, o := range []Options{{Strategy: Single}, {Strategy: Queries, Threads: 2}} {
		tab.searches, tab.refines = nil, nil
		tab.search(t, Query{Column: "vec", Vectors: at(70, 130), K: 5, RefineFactor: 4}, o)
		require.Empty(t, tab.refines)
		for _, s := range tab.searches {
			require.Equal(t, 5, s.K)
			require.Equal(t, 4, s.RefineFactor)
		}
	}
}

func TestMerge_FlatTasksAreAskedForTheNearestOnly(t *testing.T) {
	tab := line(50, 50, 50).index("x", []uint32{0}, []uint32{1}).quantised()
	tab.search(t, Query{Column: "vec", Vectors: at(70), K: 5, Offset: 2, RefineFactor: 4}, Options{Strategy: Segments, MaxTasks: 3, Unindexed: Scan})
	require.Len(t, tab.searches, 3)
	for _, s := range tab.searches {
		if s.NoIndex {
			require.Equal(t, 7, s.K)
			require.Equal(t, []uint32{2}, s.Fragments)
		} else {
			require.Equal(t, 28, s.K)
			require.Nil(t, s.Fragments, "segments alone restrict the search; fragments would cost it the direct path")
		}
	}
}

func TestMerge_PlaceholdersNeverDisplaceANeighbour(t *testing.T) {
	// Each segment has 5 rows that match, no more than k, so each task gives every second of them at +Inf. One scan over all of them would have found
	// more than k and given none.
	tab := line(50, 50, 50).index("x", []uint32{0}, []uint32{1}, []uint32{2})
	for _, quantised := range []bool{false, true} {
		if quantised {
			tab.quantised()
		}
		tab.placeholders = true
		every(t, func(t *testing.T, o Options) {
			r := tab.search(t, Query{Column: "vec", Vectors: at(60), K: 12, Filter: "category = 3"}, o)
			finite := 0
			for _, n := range r.Neighbors(0) {
				if !math.IsInf(float64(n.Distance), 1) {
					finite++
				}
			}
			require.Equal(t, 12, finite)
			matching := func(w row) bool { return w.category == 3 }
			if !quantised || r.Stats.Exact {
				require.Equal(t, tab.bruteForce(binding.L2, []float64{60, 0, 0, 0}, matching)[:12], r.Neighbors(0))
			}
		})
	}
}

func TestMerge_PlaceholdersAreOutsideADistanceRange(t *testing.T) {
	tab := line(50, 50).index("x", []uint32{0}, []uint32{1})
	tab.placeholders = true
	every(t, func(t *testing.T, o Options) {
		r := tab.search(t, Query{Column: "vec", Vectors: at(50), K: 20, Filter: "category = 3", DistanceMax: ptr(float32(200))}, o)
		matching := func(w row) bool { return w.category == 3 && w.vector[0] > 36 && w.vector[0] < 64 }
		require.Equal(t, tab.bruteForce(binding.L2, []float64{50, 0, 0, 0}, matching), r.Neighbors(0))
	})
}

func TestMerge_InfiniteDistancesOfRealRowsStay(t *testing.T) {
	tab := newTable([][]float64{{0, 0}, {math.Inf(1), 0}}, [][]float64{{1, 0}})
	every(t, func(t *testing.T, o Options) {
		r := tab.search(t, Query{Column: "vec", Vectors: Float32([]float32{0, 0}, 2), K: 5}, o)
		require.Equal(t, []Neighbor{{tab.rows[0].id, 0}, {tab.rows[2].id, 1}, {tab.rows[1].id, float32(math.Inf(1))}}, r.Neighbors(0))
	})
}

// One task's segments have stale rows, so Lance re-scores what that task finds, and only that.
func TestMerge_TasksOfBothKindsAmongIndexTasks(t *testing.T) {
	tab := line(20, 20, 20).index("x", []uint32{0}, []uint32{1}, []uint32{2}).quantised()
	tab.exactBy = func(r binding.SearchRequest) bool { return slices.Contains(r.Segments, segmentID(1)) }
	o := Options{Strategy: Segments, MaxTasks: 3}
	r := tab.search(t, Query{Column: "vec", Vectors: at(39.4), K: 6}, o)
	require.Len(t, tab.refines, 1)
	require.True(t, r.Stats.Exact)
	require.Equal(t, tab.ids(39, 40, 38, 41, 37, 42), rowIDs(r.Neighbors(0)))
	require.True(t, slices.IsSortedFunc(r.Neighbors(0), func(a, b Neighbor) int { return cmp.Compare(a.Distance, b.Distance) }))
	for i, n := range r.Neighbors(0) {
		want := exactDistance(binding.L2, []float64{float64(float32(39.4)), 0, 0, 0}, tab.rows[[]int{39, 40, 38, 41, 37, 42}[i]].vector)
		require.InDelta(t, want, n.Distance, 1e-4)
	}
}

func TestMerge_RefineThatFails(t *testing.T) {
	tab := line(20, 20).index("x", []uint32{0}, []uint32{1}).quantised()
	broken := &brokenRefine{table: tab, err: errors.New("disk on fire")}
	p, err := newPlan(t.Context(), broken, Query{Column: "vec", Vectors: at(0), K: 2, RefineFactor: 2}, Options{Strategy: Segments, Threads: 2, AllowPartial: true})
	require.NoError(t, err)
	_, err = p.Execute(t.Context())
	require.ErrorIs(t, err, broken.err)

	broken.err, broken.short = nil, true
	_, err = p.Execute(t.Context())
	require.ErrorIs(t, err, binding.ErrInternal)
}

type brokenRefine struct {
	*table
	err   error
	short bool
}

func (b *brokenRefine) Refine(ctx context.Context, r binding.RefineRequest) ([]float32, error) {
	if b.err != nil {
		return nil, b.err
	}
	d, err := b.table.Refine(ctx, r)
	return d[:len(d)-1], err
}

func TestMultivector_RowsStayTogether(t *testing.T) {
	tab := line(20, 20, 20).index("x", []uint32{0}, []uint32{1}, []uint32{2})
	tab.column.Multivector = true
	v := Float32(make([]float32, 2*3*4), 4)
	for _, c := range []struct {
		strategy Strategy
		refine   int
		tasks    int
	}{
		{Single, 0, 1}, {Segments, 0, 1}, {Queries, 0, 2}, {Grid, 0, 2}, {Auto, 0, 1}, {Segments, 2, 1}, {Grid, 2, 2},
	} {
		p := tab.plan(t, Query{Column: "vec", Vectors: MultiVector(v, 3), K: 2, RefineFactor: c.refine}, Options{Strategy: c.strategy, Threads: 4})
		require.Len(t, p.Tasks(), c.tasks, "%s, refine %d", c.strategy, c.refine)
		for _, task := range p.Tasks() {
			require.Equal(t, 3, task.Vectors.PerQuery)
			require.Equal(t, IndexTask, task.Kind)
			require.Len(t, task.Segments, 3)
		}
		require.Contains(t, p.Explain(), "candidates of a multivector search depend on the set of segments")
	}
}
