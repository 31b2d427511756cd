package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// faulty runs tasks here, but what happens to some of them is decided by fate.
type faulty struct {
	ds   *binding.Dataset
	fate func(ctx context.Context, t distributed.Task) error
}

func (f faulty) Execute(ctx context.Context, t distributed.Task) (distributed.TaskResult, error) {
	if err := f.fate(ctx, t); err != nil {
		return distributed.TaskResult{}, err
	}
	return distributed.RunTask(ctx, f.ds, t)
}

func (faulty) Workers() int { return 4 }

// TestPartial: one failed task fails the query and is named; opted in, the rest is the answer and what is missing is said.
func TestPartial(t *testing.T) {
	d := lab.Create(t, random(50, 800, 8), lab.Rows(200))
	d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}, {2}, {3}}})
	ds, rows := d.Open(0), d.Live(0)
	a := lab.Ask{Queries: queries(51, 3, 8), K: 10}
	a.Query.NProbes = 2
	broken := errors.New("the worker broke")
	hasFragment2 := func(task distributed.Task) bool { return task.Fragments[0] == 2 }
	for name, fate := range map[string]func(context.Context, distributed.Task) error{
		"error": func(_ context.Context, task distributed.Task) error {
			if hasFragment2(task) {
				return broken
			}
			return nil
		},
		"panic": func(_ context.Context, task distributed.Task) error {
			if hasFragment2(task) {
				panic(broken)
			}
			return nil
		},
		"late": func(ctx context.Context, task distributed.Task) error {
			if hasFragment2(task) {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := distributed.Options{Strategy: distributed.Segments, MaxTasks: 4, Executor: faulty{ds, fate}, TaskTimeout: 2 * time.Second}
			_, _, err := lab.Search(ds, a.Question(t, d), o)
			var task *distributed.TaskError
			require.ErrorAs(t, err, &task)
			require.Equal(t, []uint32{2}, task.Fragments)
			require.Len(t, task.Segments, 1)
			if name == "late" {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.ErrorIs(t, err, broken)
			}

			o.AllowPartial = true
			got, stats, err := lab.Search(ds, a.Question(t, d), o)
			require.NoError(t, err)
			b := a
			b.Keep = func(r oracle.Row) bool { return r.ID < 400 || r.ID >= 600 }
			for i, ranked := range b.Ranked(d, rows) {
				require.NoError(t, oracle.CheckExact(got[i], ranked, oracle.Page{K: 10}, oracle.Single))
			}
			require.Len(t, stats.Missing, 1)
			require.Equal(t, []uint32{2}, stats.Missing[0].Fragments)
			require.Equal(t, [2]uint64{600, 800}, [2]uint64{stats.CoveredRows, stats.LiveRows})
		})
	}
	t.Run("all", func(t *testing.T) {
		o := distributed.Options{Strategy: distributed.Segments, MaxTasks: 4, AllowPartial: true}
		o.Executor = faulty{ds, func(context.Context, distributed.Task) error { return broken }}
		_, _, err := lab.Search(ds, a.Question(t, d), o)
		require.ErrorIs(t, err, broken)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		o := distributed.Options{Strategy: distributed.Segments, MaxTasks: 4, AllowPartial: true}
		o.Executor = faulty{ds, func(context.Context, distributed.Task) error { cancel(); return nil }}
		_, _, err := lab.SearchContext(ctx, ds, a.Question(t, d), o)
		require.ErrorIs(t, err, context.Canceled)
	})
}
