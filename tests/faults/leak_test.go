package faults

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// TestLeaks_ManySearches: after thousands of searches, good and bad, memory is where it was and no native object is
// left.
func TestLeaks_ManySearches(t *testing.T) {
	lab.Child(t, func() {
		d := lab.Create(t, random(20, 2000, 16), lab.Rows(500))
		d.Index(lab.Index{Partitions: 4, Groups: [][]int{{0}, {1}, {2}, {3}}})
		a := lab.Ask{Queries: queries(21, 4, 16), K: 20}
		q := a.Question(t, d)
		q.Columns = []string{"id", "vec"}
		bad := q
		bad.Filter = "nosuch = 1"
		filtered := q
		filtered.Filter = "category < 50"
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		ds, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
		require.NoError(t, err)
		round := func(i int) {
			way := lab.FewWays()[i%len(lab.FewWays())]
			o := way.Apply(distributed.Options{Allocator: mem})
			for _, q := range []distributed.Query{q, filtered} {
				res, err := distributed.VectorSearch(t.Context(), ds, q, o)
				require.NoError(t, err)
				require.NotNil(t, res.Record())
				res.Release()
			}
			_, err := distributed.VectorSearch(t.Context(), ds, bad, o)
			require.Error(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = distributed.VectorSearch(ctx, ds, q, o)
			require.ErrorIs(t, err, context.Canceled)
			if i%20 == 0 {
				other, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
				require.NoError(t, err)
				_, err = other.Take(t.Context(), []uint64{1, 2, 3}, []string{"nosuch"}, nil)
				require.Error(t, err)
				require.NoError(t, other.Close())
			}
		}
		for i := range 300 {
			round(i)
		}
		runtime.GC()
		before, handles := residentKB(t), binding.LiveHandles()
		for i := range 1200 {
			round(i)
		}
		runtime.GC()
		require.Less(t, residentKB(t)-before, 24<<10, "kB more after 1200 rounds")
		require.Equal(t, handles, binding.LiveHandles())
		mem.AssertSize(t, 0)
		require.NoError(t, ds.Close())
		require.Zero(t, binding.LiveHandles())
	})
}

// TestConcurrency_ManyCallers: 64 goroutines on one handle, each judged by brute force, some cancelled, and the handle
// closed under those that remain.
func TestConcurrency_ManyCallers(t *testing.T) {
	d := lab.Create(t, random(22, 2000, 8), lab.Rows(500))
	d.Index(lab.Index{Partitions: 3, Groups: [][]int{{0}, {1}, {2}}})
	rows := d.Live(0)
	ds, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
	require.NoError(t, err)
	type job struct {
		ask    lab.Ask
		query  distributed.Query
		ranked [][]oracle.Hit
	}
	var jobs []job
	for i := range 8 {
		a := lab.Ask{Queries: queries(uint64(30+i), 1+i%3, 8), K: 5 + i, Options: scan}
		a.Query.NProbes = 3
		if i%2 == 1 {
			a.Filter, a.Keep = fmt.Sprintf("category < %d", 20+i), func(r oracle.Row) bool { return int(r.Category) < 20+i }
		}
		jobs = append(jobs, job{a, a.Question(t, d), a.Ranked(d, rows)})
	}
	errs := make(chan error, 64)
	var wg sync.WaitGroup
	var done atomic.Int64
	for g := range 64 {
		wg.Go(func() {
			for i := range 12 {
				j := jobs[(g+i)%len(jobs)]
				ctx, cancel := context.WithCancel(t.Context())
				cancelled := (g+i)%7 == 0
				if cancelled {
					time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
				}
				got, _, err := lab.SearchContext(ctx, ds, j.query, lab.FewWays()[(g+i)%len(lab.FewWays())].Apply(j.ask.Options))
				cancel()
				switch {
				case err != nil && cancelled && errors.Is(err, context.Canceled):
				case err != nil:
					errs <- err
					return
				default:
					for q := range got {
						if err := oracle.CheckExact(got[q], j.ranked[q], j.ask.Page(), oracle.Single); err != nil {
							errs <- err
							return
						}
					}
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, int64(64*12), done.Load())

	// Closing waits for the calls in flight; those that come later are told.
	var late sync.WaitGroup
	outcomes := make([]error, 64)
	for g := range 64 {
		late.Go(func() {
			for range 50 {
				if _, _, outcomes[g] = lab.Search(ds, jobs[g%8].query, scan); outcomes[g] != nil {
					return
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, ds.Close())
	late.Wait()
	for _, err := range outcomes {
		if err != nil {
			require.ErrorIs(t, err, binding.ErrClosed)
		}
	}
}

// TestLeaks_ForgottenHandles: a handle that is not closed is freed when it is collected.
func TestLeaks_ForgottenHandles(t *testing.T) {
	d := lab.Create(t, random(23, 100, 8))
	before := binding.LiveHandles()
	for range 10 {
		_, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return binding.LiveHandles() <= before
	}, 10*time.Second, 20*time.Millisecond)
}
