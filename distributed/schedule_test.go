package distributed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func fourSegments() *table {
	return line(10, 10, 10, 10).index("x", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3})
}

func searches(r binding.SearchRequest, segment int) bool {
	return slices.Contains(r.Segments, segmentID(segment))
}

var bySegment = Options{Strategy: Segments, MaxTasks: 4, Threads: 4}

func TestSchedule_FailureNamesTheTask(t *testing.T) {
	tab := fourSegments()
	broken := errors.New("disk on fire")
	tab.onSearch = func(_ context.Context, r binding.SearchRequest) error {
		if searches(r, 2) {
			return broken
		}
		return nil
	}
	_, err := tab.try(t.Context(), Query{Column: "vec", Vectors: at(0, 1, 2), K: 3}, bySegment)
	var task *TaskError
	require.ErrorAs(t, err, &task)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 2, task.Task)
	require.Equal(t, []binding.SegmentID{segmentID(2)}, task.Segments)
	require.Equal(t, []uint32{2}, task.Fragments)
	require.Equal(t, uint64(10), task.Rows)
	require.Equal(t, 0, task.FirstQuery)
	require.Equal(t, 3, task.Queries)
	require.EqualError(t, err, "distributed: task 2 (segments a0000002, fragments 2, queries 0-2): disk on fire")
}

func TestSchedule_FirstFailureCancelsTheOthersAndWaitsForThem(t *testing.T) {
	tab := fourSegments()
	broken := errors.New("disk on fire")
	var ended atomic.Int32
	started := make(chan struct{}, 4)
	tab.onSearch = func(ctx context.Context, r binding.SearchRequest) error {
		started <- struct{}{}
		if searches(r, 1) {
			for len(started) < 4 {
				time.Sleep(time.Millisecond)
			}
			return broken
		}
		<-ctx.Done()
		ended.Add(1)
		return ctx.Err()
	}
	_, err := tab.try(t.Context(), oneQuery, bySegment)
	require.ErrorIs(t, err, broken)
	require.Equal(t, int32(3), ended.Load(), "execute returned before its tasks had")
}

func TestSchedule_TasksAfterAFailureAreNotStarted(t *testing.T) {
	tab := fourSegments()
	tab.onSearch = func(context.Context, binding.SearchRequest) error { return errors.New("no") }
	o := bySegment
	o.Threads = 1
	_, err := tab.try(t.Context(), oneQuery, o)
	require.Error(t, err)
	require.Less(t, len(tab.searches), 4)
}

func TestSchedule_PanicIsAnErrorOfItsTask(t *testing.T) {
	cause := errors.New("index out of reach")
	for _, o := range []Options{bySegment, {Strategy: Single}} {
		tab := fourSegments()
		tab.onSearch = func(_ context.Context, r binding.SearchRequest) error {
			if searches(r, 3) {
				panic(cause)
			}
			return nil
		}
		_, err := tab.try(t.Context(), oneQuery, o)
		var task *TaskError
		require.ErrorAs(t, err, &task)
		var p *PanicError
		require.ErrorAs(t, err, &p)
		require.NotEmpty(t, p.Stack)
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "panic: index out of reach")
	}
}

func TestSchedule_CancelledDuringTheSearch(t *testing.T) {
	for _, partial := range []bool{false, true} {
		for _, o := range []Options{bySegment, {Strategy: Single}} {
			o.AllowPartial = partial
			tab := fourSegments()
			reason := errors.New("the user went away")
			ctx, cancel := context.WithCancelCause(t.Context())
			tab.onSearch = func(ctx context.Context, _ binding.SearchRequest) error {
				cancel(reason)
				<-ctx.Done()
				return ctx.Err()
			}
			_, err := tab.try(ctx, oneQuery, o)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, reason)
		}
	}
}

func TestSchedule_DeadlineOfTheWholeQueryIsAnErrorEvenWithPartialResults(t *testing.T) {
	tab := fourSegments()
	tab.onSearch = func(ctx context.Context, r binding.SearchRequest) error {
		if searches(r, 0) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	o := bySegment
	o.AllowPartial = true
	_, err := tab.try(ctx, oneQuery, o)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAllowPartial_LeavesTheRestAndSaysWhatIsMissing(t *testing.T) {
	tab := fourSegments()
	broken := errors.New("disk on fire")
	tab.onSearch = func(ctx context.Context, r binding.SearchRequest) error {
		switch {
		case searches(r, 0):
			return broken
		case searches(r, 2):
			<-ctx.Done()
			return errors.New("the worker heard nothing any more")
		}
		return nil
	}
	o := bySegment
	o.AllowPartial, o.TaskTimeout = true, 20*time.Millisecond
	var text *lockedBuffer
	o.Logger, text = captured()
	r := tab.search(t, Query{Column: "vec", Vectors: at(0), K: 3, Columns: []string{"id"}}, o)
	require.Equal(t, tab.ids(10, 11, 12), rowIDs(r.Neighbors(0)))
	s := r.Stats
	require.Equal(t, uint64(40), s.LiveRows)
	require.Equal(t, uint64(20), s.CoveredRows)
	require.Len(t, s.Missing, 2)
	require.ErrorIs(t, s.Missing[0], broken)
	require.Equal(t, []uint32{0}, s.Missing[0].Fragments)
	require.Equal(t, []binding.SegmentID{segmentID(0)}, s.Missing[0].Segments)
	require.Equal(t, uint64(10), s.Missing[0].Rows)
	require.ErrorIs(t, s.Missing[1], context.DeadlineExceeded)
	require.ErrorContains(t, s.Missing[1], "no answer within 20ms")
	require.Contains(t, text.String(), "vector search is incomplete")

	o.AllowPartial = false
	_, err := tab.try(t.Context(), oneQuery, o)
	var task *TaskError
	require.ErrorAs(t, err, &task)
}

func TestAllowPartial_CoveredRowsAreThoseOfTheWorstQuery(t *testing.T) {
	tab := fourSegments()
	tab.onSearch = func(_ context.Context, r binding.SearchRequest) error {
		if values(r.Vectors, 0)[0] == 5 && searches(r, 1) {
			return errors.New("no")
		}
		return nil
	}
	o := Options{Strategy: Grid, Threads: 4, AllowPartial: true}
	r := tab.search(t, Query{Column: "vec", Vectors: at(5, 15, 25, 35), K: 1}, o)
	require.Equal(t, uint64(30), r.Stats.CoveredRows)
	require.Len(t, r.Stats.Missing, 1)
	require.Equal(t, 0, r.Stats.Missing[0].FirstQuery)
}

func TestAllowPartial_EveryTaskFailing(t *testing.T) {
	tab := fourSegments()
	broken := errors.New("disk on fire")
	tab.onSearch = func(context.Context, binding.SearchRequest) error { return broken }
	o := bySegment
	o.AllowPartial = true
	_, err := tab.try(t.Context(), oneQuery, o)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "all 4 tasks failed")
	o.Strategy = Single
	_, err = tab.try(t.Context(), oneQuery, o)
	require.ErrorIs(t, err, broken)
}

func TestTaskTimeout_WithoutPartialResultsFailsTheQuery(t *testing.T) {
	tab := fourSegments()
	tab.onSearch = func(ctx context.Context, r binding.SearchRequest) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, o := range []Options{bySegment, {Strategy: Single}} {
		o.TaskTimeout = 10 * time.Millisecond
		_, err := tab.try(t.Context(), oneQuery, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var task *TaskError
		require.ErrorAs(t, err, &task)
	}
}

func TestSchedule_ThreadsAreSharedByTheTasksThatRunAtOnce(t *testing.T) {
	for _, c := range []struct {
		threads, maxTasks int
		want              []int
	}{
		{4, 4, []int{1, 1, 1, 1}},
		{7, 4, []int{2, 2, 2, 1}},
		{2, 4, []int{1, 1, 1, 1}}, // two at once, one thread each
		{8, 2, []int{4, 4}},
		{8, 1, []int{8}},
	} {
		p := fourSegments().plan(t, oneQuery, Options{Strategy: Segments, Threads: c.threads, MaxTasks: c.maxTasks})
		var got []int
		for _, task := range p.Tasks() {
			got = append(got, task.Threads)
		}
		require.Equal(t, c.want, got)
		require.LessOrEqual(t, p.concurrency(), c.threads)
	}
	require.Zero(t, fourSegments().plan(t, oneQuery, Options{Strategy: Single}).Tasks()[0].Threads, "all cores")
}

func TestSchedule_NoMoreTasksAtOnceThanThreads(t *testing.T) {
	tab := fourSegments()
	var now, most atomic.Int32
	tab.onSearch = func(context.Context, binding.SearchRequest) error {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		return nil
	}
	tab.search(t, oneQuery, Options{Strategy: Segments, MaxTasks: 4, Threads: 2})
	require.LessOrEqual(t, most.Load(), int32(2))
}

// remote is an executor of its own, with a queue of its own.
type remote struct {
	tab     *table
	workers int
	lock    sync.Mutex
	tasks   []Task
	change  func(*TaskResult)
}

func (r *remote) Workers() int { return r.workers }

func (r *remote) Execute(ctx context.Context, t Task) (TaskResult, error) {
	r.lock.Lock()
	r.tasks = append(r.tasks, t)
	r.lock.Unlock()
	result, err := runTask(ctx, r.tab, &t)
	if r.change != nil {
		r.change(&result)
	}
	return result, err
}

func TestExecutor_Remote(t *testing.T) {
	tab := fourSegments()
	x := &remote{tab: tab, workers: 3}
	r := tab.search(t, Query{Column: "vec", Vectors: at(11), K: 2}, Options{Executor: x, Threads: 5})
	require.Equal(t, tab.ids(11, 10), rowIDs(r.Neighbors(0)))
	require.Len(t, x.tasks, 3)
	for _, task := range x.tasks {
		require.Equal(t, 5, task.Threads, "threads are each worker's own")
	}
	require.Zero(t, tab.eligibilities, "only a search in this process asks which path it would take")
}

func TestExecutor_ResultsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*TaskResult){
		"a query that was not asked": func(r *TaskResult) { r.Query[0] = 77 },
		"lists of two lengths":       func(r *TaskResult) { r.RowID = r.RowID[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			tab := fourSegments()
			_, err := tab.try(t.Context(), oneQuery, Options{Executor: &remote{tab: tab, workers: 2, change: change}})
			var task *TaskError
			require.ErrorAs(t, err, &task)
		})
	}
	// Rows beyond k, rows twice and NaN are the merge's business.
	tab := fourSegments()
	x := &remote{tab: tab, workers: 2, change: func(r *TaskResult) {
		r.Query, r.Distance, r.RowID = append(r.Query, r.Query...), append(r.Distance, r.Distance...), append(r.RowID, r.RowID...)
	}}
	r := tab.search(t, Query{Column: "vec", Vectors: at(11), K: 3}, Options{Executor: x})
	require.Equal(t, tab.ids(11, 10, 12), rowIDs(r.Neighbors(0)))
}

func TestRunTask_AnotherVersionIsRefused(t *testing.T) {
	tab := fourSegments()
	task := tab.plan(t, oneQuery, Options{}).Tasks()[0]
	tab.description.Version++
	_, err := runTask(t.Context(), tab, &task)
	require.ErrorIs(t, err, binding.ErrVersionGone)
	require.ErrorContains(t, err, "version 42")
	_, err = RunTask(t.Context(), nil, task)
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
}

func TestPlan_ExecutedAtOnceAndAgain(t *testing.T) {
	tab := line(30, 30, 30).index("x", []uint32{0}, []uint32{1}).quantised()
	p := tab.plan(t, Query{Column: "vec", Vectors: at(59.2, 3), K: 4, RefineFactor: 3, Columns: []string{"id"}}, Options{Strategy: Grid, Unindexed: Scan, Threads: 4})
	first, err := p.Execute(t.Context())
	require.NoError(t, err)
	defer first.Release()
	executeAtOnce(t, p, func(r *Result) {
		for q := range 2 {
			if !slices.Equal(first.Neighbors(q), r.Neighbors(q)) {
				t.Errorf("query %d: %v, then %v", q, first.Neighbors(q), r.Neighbors(q))
			}
		}
	})
}

// executeAtOnce runs a plan from several goroutines.
func executeAtOnce(t *testing.T, p *Plan, check func(*Result)) {
	t.Helper()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := p.Execute(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Release()
			check(r)
		})
	}
	wg.Wait()
}
