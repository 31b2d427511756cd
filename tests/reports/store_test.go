package reports

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/s3"
)

const secret = "VERYSECRETVALUE0123456789"

func TestReport26_ChangedCredentials(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_SQ"} {
		t.Run(kind, func(t *testing.T) {
			store := s3.Start(t, "KEYAAAAAAAA", "KEYBBBBBBBB")
			optionsA, optionsB := store.Options("KEYAAAAAAAA", secret), store.Options("KEYBBBBBBBB", secret)
			rng := lab.Rand(26)
			d := lab.InStore(t, store.URI("t.lance"), optionsA, lab.Random(rng, binding.Float32, 600, 8), lab.Rows(200))
			d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}))
			rows := d.Live(0)
			a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 8)}, K: 5}
			a.Query.RefineFactor, a.Query.NProbes = 40, 1
			first := lab.Open(t, d.URI, binding.OpenOptions{StorageOptions: optionsA})
			a.Exact(t, d, first, rows)
			store.Revoke("KEYAAAAAAAA")
			before := store.Count("KEYBBBBBBBB")
			second := lab.Open(t, d.URI, binding.OpenOptions{StorageOptions: optionsB})
			a.Exact(t, d, second, rows)
			require.Greater(t, store.Count("KEYBBBBBBBB"), before, "the second handle signs with its own key")
			used := store.Count("KEYAAAAAAAA")
			a.Exact(t, d, second, rows)
			require.Equal(t, used, store.Count("KEYAAAAAAAA"), "no request with the old key")

			// What the first handle has not cached yet fails now, and the message keeps the secret.
			cold := a
			cold.Filter = "category = 3"
			for _, way := range lab.FewWays() {
				if _, _, err := lab.Search(first, cold.Question(t, d), way.Apply(cold.Options)); err != nil {
					require.NotContains(t, err.Error(), secret)
				}
			}
			_, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{StorageOptions: optionsA})
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
			// A wrong option fails, and says which.
			wrong := store.Options("KEYBBBBBBBB", secret)
			wrong["aws_endpoint"] = "http://127.0.0.1:1"
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			_, err = binding.Open(ctx, d.URI, binding.OpenOptions{StorageOptions: wrong})
			require.Error(t, err)
			require.NotContains(t, err.Error(), secret)
		})
	}
}

func TestReport36_CancelledWorkStops(t *testing.T) {
	rng := lab.Rand(36)
	t.Run("local", func(t *testing.T) {
		d := lab.Create(t, lab.Random(rng, binding.Float32, 20_000, 32), lab.Rows(5000))
		unindexed := d.Open(0)
		i := index("IVF_FLAT", oracle.L2, []int{0}, []int{1}, []int{2}, []int{3})
		i.Partitions = 8
		d.Index(i)
		indexed := d.Open(0)
		a := lab.Ask{K: 100, Options: scan}
		for range 64 {
			a.Queries = append(a.Queries, lab.RandomVector(rng, binding.Float32, 32))
		}
		q := a.Question(t, d)
		before := runtime.NumGoroutine()
		threads := 0
		for round := range 400 {
			way := lab.FewWays()[round%len(lab.FewWays())]
			ds := indexed
			if round%2 == 0 {
				ds = unindexed
			}
			delay := time.Duration(round%5) * time.Millisecond / 2
			ctx, cancel := context.WithCancel(t.Context())
			if delay == 0 {
				cancel()
			} else {
				time.AfterFunc(delay, cancel)
			}
			start := time.Now()
			_, _, err := lab.SearchContext(ctx, ds, q, way.Apply(a.Options))
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.Less(t, time.Since(start)-delay, 2*time.Second, "round %d", round)
			}
			if delay == 0 {
				require.Error(t, err)
			}
			cancel()
			if round == 100 {
				threads = status(t, "Threads")
			}
		}
		require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 5*time.Second, 10*time.Millisecond)
		require.LessOrEqual(t, status(t, "Threads"), threads+8)
		one := lab.Ask{Queries: a.Queries[:1], K: 10, Options: scan}
		one.Query.NProbes = 8
		one.Exact(t, d, indexed, d.Live(indexed.Version()))
	})
	t.Run("deadline", func(t *testing.T) {
		d := lab.Create(t, lab.Random(rng, binding.Float32, 2000, 8))
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, _, err := lab.SearchContext(ctx, d.Open(0), lab.Ask{Queries: origin(8), K: 3}.Question(t, d), scan)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cause := fmt.Errorf("the user went away")
		ctx, stop := context.WithCancelCause(t.Context())
		stop(cause)
		_, _, err = lab.SearchContext(ctx, d.Open(0), lab.Ask{Queries: origin(8), K: 3}.Question(t, d), scan)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("slow store", func(t *testing.T) {
		store := s3.Start(t, "KEYAAAAAAAA")
		options := store.Options("KEYAAAAAAAA", secret)
		d := lab.InStore(t, store.URI("t.lance"), options, lab.Random(rng, binding.Float32, 4000, 16), lab.Rows(500))
		groups := make([][]int, 8)
		for i := range groups {
			groups[i] = []int{i}
		}
		d.Index(index("IVF_FLAT", oracle.L2, groups...))
		for _, way := range lab.FewWays() {
			ds := lab.Open(t, d.URI, binding.OpenOptions{StorageOptions: options})
			plain := lab.Ask{Queries: origin(16), K: 10}
			filtered := plain
			filtered.Filter = "category = 3"
			refined := plain
			refined.Query.RefineFactor = 3
			for _, a := range []lab.Ask{plain, filtered, refined} { // segments to open, a filter's rows to find, vectors to read
				store.Delay(700 * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				start := time.Now()
				_, _, err := lab.SearchContext(ctx, ds, a.Question(t, d), way.Apply(distributed.Options{}))
				require.ErrorIs(t, err, context.Canceled, way)
				require.Less(t, time.Since(start), 600*time.Millisecond, "%v: it waited for an answer", way)
				require.Eventually(t, func() bool { return store.InFlight() == 0 }, 2*time.Second, time.Millisecond, "%v", way)
				quiet := store.Requests()
				time.Sleep(800 * time.Millisecond)
				require.Equal(t, quiet, store.Requests(), "%v: requests after the call was cancelled", way)
				store.Delay(0)
				_, _, err = lab.Search(ds, plain.Question(t, d), way.Apply(distributed.Options{}))
				require.NoError(t, err, way)
				require.NoError(t, ds.Prewarm(t.Context(), binding.PrewarmOptions{Column: d.Table.Column()}), way)
			}
		}
	})
}
