package distributed

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// oneByOne makes every task wait for all before it.
var oneByOne = Options{Strategy: Segments, MaxTasks: 4, Threads: 1}

var none = float32(math.Inf(1))

// boundsOf gives the bounds of each search, in the order of the tasks.
func (t *table) boundsOf(tb testing.TB, q Query, o Options) []Distances {
	tb.Helper()
	t.searches = nil
	t.search(tb, q, o)
	var all []Distances
	for _, s := range t.searches {
		all = append(all, s.Bounds)
	}
	return all
}

func TestBounds_AreTheKthDistancesFoundSoFar(t *testing.T) {
	for _, c := range []struct {
		quantised bool
		refine    int
	}{{false, 0}, {true, 0}, {true, 2}} {
		tab := fourSegments()
		distance := func(x float64, w row) float64 { return exactDistance(binding.L2, []float64{x, 0, 0, 0}, w.vector) }
		if c.quantised {
			tab.quantised()
			exact := distance
			distance = func(x float64, w row) float64 { return distort(exact(x, w), w.id) }
		}
		got := tab.boundsOf(t, Query{Column: "vec", Vectors: at(12, 35), K: 3, RefineFactor: c.refine}, oneByOne)
		require.Len(t, got, 4)
		require.Nil(t, got[0])
		for task := 1; task < 4; task++ {
			var want Distances
			for _, x := range []float64{12, 35} {
				var found []scored
				for _, w := range tab.rows[:10*task] {
					found = append(found, scored{distance(x, w), w.id})
				}
				k := 3 * max(1, c.refine)
				want = append(want, float32(best(found, k)[k-1].distance))
			}
			require.Equal(t, want, got[task], "%+v, task %d", c, task)
		}
	}
}

func TestBounds_AQueryWithFewerThanKHasNone(t *testing.T) {
	q := Query{Column: "vec", Vectors: at(5, 25), K: 4, DistanceMax: ptr(float32(26))}
	require.Equal(t, []Distances{nil, {4, none}, {4, none}, {4, 4}}, fourSegments().boundsOf(t, q, oneByOne))
	q.Vectors, q.DistanceMin = at(5), ptr(float32(5)) // 5 to 26 hold the rows at 0, 1, 2, 8, 9 and 10
	require.Equal(t, []Distances{nil, {16}, {16}, {16}}, fourSegments().boundsOf(t, q, oneByOne))
	q.Vectors = at(100)
	require.Equal(t, []Distances{nil, nil, nil, nil}, fourSegments().boundsOf(t, q, oneByOne))
}

func TestBounds_OnlyWhereTasksWaitAndProbesAreShared(t *testing.T) {
	q := Query{Column: "vec", Vectors: at(12, 35), K: 3}
	given := func(tab *table, q Query, o Options) (n int) {
		for _, b := range tab.boundsOf(t, q, o) {
			if b != nil {
				n++
			}
		}
		return n
	}
	with := func(change func(*Query, *Options)) (Query, Options) {
		q, o := q, oneByOne
		change(&q, &o)
		return q, o
	}
	for name, c := range map[string]struct {
		given  int
		change func(*Query, *Options)
	}{
		"effort":             {3, func(q *Query, _ *Options) { q.SearchEffort = ptr(0.3) }},
		"nprobes":            {0, func(q *Query, _ *Options) { q.NProbes = 2 }},
		"minimum":            {0, func(q *Query, _ *Options) { q.MinNProbes = 2 }},
		"maximum":            {0, func(q *Query, _ *Options) { q.MaxNProbes = 2 }},
		"nprobes, shared":    {3, func(q *Query, o *Options) { q.NProbes, o.Probing = 2, binding.ProbingShared }},
		"per segment":        {0, func(_ *Query, o *Options) { o.Probing = binding.ProbingPerSegment }},
		"scanner":            {0, func(_ *Query, o *Options) { o.Path = binding.PathScanner }},
		"without index":      {0, func(q *Query, _ *Options) { q.NoIndex = true }},
		"one task":           {0, func(_ *Query, o *Options) { o.Strategy = Single }},
		"a task for a query": {0, func(_ *Query, o *Options) { o.Strategy = Queries }},
		"all at once":        {0, func(_ *Query, o *Options) { o.Threads = 4 }},
	} {
		q, o := with(c.change)
		require.Equal(t, c.given, given(fourSegments(), q, o), name)
	}
	beside := line(10, 10, 10, 10).index("x", []uint32{0}, []uint32{1})
	_, o := with(func(_ *Query, o *Options) { o.Unindexed = Scan })
	require.Len(t, beside.boundsOf(t, q, o), 4)
	for i, s := range beside.searches {
		require.Equal(t, i == 1, s.Bounds != nil, "exact distances of a flat task are not compared with those of an index")
	}
	two := fourSegments()
	two.description.Indexes[0].Segments[3].Type = "IVF_PQ"
	require.Zero(t, given(two, q, oneByOne), "a cosine distance of a quantised index is on another scale")

	tab := fourSegments()
	queued := &remote{tab: tab, workers: 4}
	o = oneByOne
	o.Executor = queued
	require.Zero(t, given(tab, q, o), "another executor is given all tasks at once")
	require.Len(t, queued.tasks, 4)
}

func TestBounds_AFailedTaskContributesNothing(t *testing.T) {
	tab := fourSegments()
	tab.onSearch = func(_ context.Context, r binding.SearchRequest) error {
		if searches(r, 0) {
			return errors.New("disk on fire")
		}
		return nil
	}
	o := oneByOne
	o.AllowPartial = true
	require.Equal(t, []Distances{nil, nil, {144}, {144}}, tab.boundsOf(t, Query{Column: "vec", Vectors: at(0), K: 3}, o))
}

func TestBounds_PlaceholdersAreNoDistance(t *testing.T) {
	tab := line(50, 50, 50).index("x", []uint32{0}, []uint32{1}, []uint32{2})
	tab.placeholders = true
	q := Query{Column: "vec", Vectors: at(0), K: 5, Filter: "category = 3"}
	// Each task finds 5 rows, 2 of them as placeholders: not those at 3, 23 and 43 of the first, at 53, 73 and 93 of the second.
	require.Equal(t, []Distances{nil, nil, {73 * 73}}, tab.boundsOf(t, q, oneByOne))
}

func TestBounds_DistancesOfTwoKindsGiveNone(t *testing.T) {
	tab := fourSegments().quantised()
	tab.exactBy = func(r binding.SearchRequest) bool { return searches(r, 1) }
	got := tab.boundsOf(t, Query{Column: "vec", Vectors: at(12), K: 3}, oneByOne)
	require.NotNil(t, got[1])
	require.Equal(t, []Distances{nil, nil}, got[2:])
}

// A task's rows are twice in its result, as an executor may return them.
func TestBounds_ARowCountsOnce(t *testing.T) {
	tab := fourSegments()
	p := tab.plan(t, Query{Column: "vec", Vectors: at(0), K: 3}, oneByOne)
	b := p.newBounds()
	defer b.release()
	r := TaskResult{Query: []uint32{0, 0, 0}, Distance: Distances{1, 1, 2}, RowID: []uint64{7, 7, 8}}
	b.learn(&p.tasks[0], &r, &p.tasks[1])
	require.Nil(t, b.of(&p.tasks[1]))
}

func TestBounds_StayWithTheirExecution(t *testing.T) {
	tab := line(30, 30, 30, 30, 30, 30).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}, []uint32{4}, []uint32{5}).quantised()
	for _, o := range []Options{{Strategy: Segments, MaxTasks: 6, Threads: 2}, {Strategy: Grid, MaxTasks: 20, Threads: 3}} {
		p := tab.plan(t, Query{Column: "vec", Vectors: at(59.2, 3, 178, 99), K: 4, RefineFactor: 3}, o)
		require.Greater(t, len(p.tasks), p.concurrency())
		executeAtOnce(t, p, func(r *Result) {
			for q, x := range []float32{59.2, 3, 178, 99} {
				want := tab.scan([]float64{float64(x), 0, 0, 0}, 4, 3, everything)
				if got := r.Neighbors(q); len(got) != 4 || got[0] != want[0] || got[3] != want[3] {
					t.Errorf("query %d: %v, not %v", q, got, want)
				}
			}
		})
		for _, task := range p.Tasks() {
			require.Nil(t, task.Bounds)
		}
	}
}
