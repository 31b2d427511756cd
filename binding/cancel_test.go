package binding

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCancel_StopsTheNativeCall(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	reason := errors.New("the user left")
	for name, c := range map[string]struct {
		ctx    func() (context.Context, func())
		target error
		cause  error
	}{
		"cancel": {func() (context.Context, func()) { return context.WithCancel(t.Context()) }, context.Canceled, context.Canceled},
		"cause": {func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(t.Context())
			return ctx, func() { cancel(reason) }
		}, context.Canceled, reason},
		"deadline": {func() (context.Context, func()) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			t.Cleanup(cancel)
			return ctx, func() {}
		}, context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			f.block(1)
			defer f.block(0)
			ctx, end := c.ctx()
			result := make(chan error)
			go func() {
				_, err := d.Search(ctx, someSearch())
				result <- err
			}()
			f.awaitBlocked(t, 1)
			end()
			err := <-result
			require.Zero(t, f.blocked(), "the call returned before the work had stopped")
			require.ErrorIs(t, err, c.target)
			require.ErrorIs(t, err, c.cause)
			require.ErrorContains(t, err, c.cause.Error())
			var typed *Error
			require.ErrorAs(t, err, &typed)
			require.Equal(t, CodeCancelled, typed.Code)
		})
	}
}

func TestCancel_EndedContextDoesNotReachNativeCode(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := f.last()
	calls := map[string]func() error{
		"open":     func() error { _, err := f.open(ctx, "other", OpenOptions{}); return err },
		"search":   func() error { _, err := d.Search(ctx, someSearch()); return err },
		"describe": func() error { _, err := d.Describe(ctx); return err },
		"column":   func() error { _, err := d.Column(ctx, "vec"); return err },
		"take":     func() error { _, err := d.Take(ctx, []uint64{1}, []string{"id"}, nil); return err },
		"delete":   func() error { _, err := d.Delete(ctx, "true"); return err },
		"prewarm":  func() error { return d.Prewarm(ctx, PrewarmOptions{}) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
	require.Equal(t, before, f.last())
	require.Zero(t, f.describes())
}

func TestCancel_OtherErrorKeepsItsCode(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.cancelCode(int32(CodeNativePanic))
	f.block(1)
	defer f.block(0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := d.Search(ctx, someSearch())
	require.ErrorIs(t, err, ErrNativePanic)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "binding: search: stopped")
}

// Cancellation that races with the end of the call must neither hang nor touch a freed token, which the fake counts as misuse.
func TestCancel_RacesWithReturn(t *testing.T) {
	d := newFake(t).openDataset(t)
	var cancelled, done atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				go cancel()
				_, err := d.Search(ctx, someSearch())
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, context.Canceled):
					cancelled.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 2400, cancelled.Load()+done.Load())
}

func TestClose_WaitsForCallsInFlight(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.block(1)
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			_, err := d.Search(context.Background(), someSearch())
			if err != nil {
				t.Error(err)
			}
		})
	}
	f.awaitBlocked(t, 3)
	var returned atomic.Int64
	var closers sync.WaitGroup
	for range 4 {
		closers.Go(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			returned.Add(1)
		})
	}
	require.Eventually(t, d.isClosed, 10*time.Second, time.Millisecond)
	_, err := d.Search(context.Background(), someSearch())
	require.ErrorIs(t, err, ErrClosed, "no call may enter once Close has begun")
	time.Sleep(20 * time.Millisecond)
	require.Zero(t, returned.Load())
	f.block(0)
	calls.Wait()
	closers.Wait()
	require.Zero(t, f.liveHandles())
	require.NoError(t, d.Close())
}

func TestClose_ThenUse(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	_, err := d.Describe(t.Context())
	require.NoError(t, err)
	_, err = d.Column(t.Context(), "vec")
	require.NoError(t, err)
	_, err = d.Schema()
	require.NoError(t, err)
	require.NoError(t, d.Close())
	requireClosed(t, d)
	require.EqualValues(t, 7, d.Version())
	require.Equal(t, "mem://table", d.URI())
}

func TestDataset_ThatOpenDidNotMakeIsClosed(t *testing.T) {
	requireClosed(t, nil)
	requireClosed(t, &Dataset{})
	require.NoError(t, (*Dataset)(nil).Close())
	require.NoError(t, new(Dataset).Close())
}

func requireClosed(t *testing.T, d *Dataset) {
	t.Helper()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"search":       func() error { _, err := d.Search(ctx, someSearch()); return err },
		"eligibility":  func() error { _, err := d.Eligibility(ctx, someSearch()); return err },
		"check filter": func() error { return d.CheckFilter(ctx, "vec", "id < 1") },
		"describe":     func() error { _, err := d.Describe(ctx); return err },
		"column":       func() error { _, err := d.Column(ctx, "vec"); return err },
		"schema":       func() error { _, err := d.Schema(); return err },
		"refine": func() error {
			_, err := d.Refine(ctx, RefineRequest{Column: "vec", Metric: L2, Vectors: someSearch().Vectors})
			return err
		},
		"take":    func() error { _, err := d.Take(ctx, nil, []string{"id"}, nil); return err },
		"prewarm": func() error { return d.Prewarm(ctx, PrewarmOptions{}) },
		"delete":  func() error { _, err := d.Delete(ctx, "true"); return err },
		"compact": func() error { _, err := d.Compact(ctx, CompactOptions{}); return err },
		"create index": func() error {
			_, err := d.CreateIndex(ctx, IndexOptions{Column: "vec", Type: "IVF_PQ"})
			return err
		},
		"create index segment": func() error {
			_, err := d.CreateIndexSegment(ctx, IndexOptions{Column: "vec", Type: "IVF_PQ", Fragments: []uint32{0}})
			return err
		},
		"commit index segments": func() error {
			_, err := d.CommitIndexSegments(ctx, "n", "vec", []IndexSegment{{raw: []byte("{}")}})
			return err
		},
		"create scalar index": func() error {
			_, err := d.CreateScalarIndex(ctx, ScalarIndexOptions{Column: "c", Type: "BTREE"})
			return err
		},
		"tag": func() error { return d.Tag(ctx, "t", 1) },
	} {
		err := call()
		require.ErrorIs(t, err, ErrClosed, name)
		var typed *Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, name, typed.Op)
	}
}

func TestClose_RacesWithUse(t *testing.T) {
	f := newFake(t)
	for range 50 {
		d, err := f.open(t.Context(), "mem://table", OpenOptions{})
		require.NoError(t, err)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for {
					if _, err := d.Search(context.Background(), someSearch()); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for range 2 {
			group.Go(func() {
				time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
				_ = d.Close()
			})
		}
		group.Wait()
	}
}

func TestCleanup_FreesForgottenDatasets(t *testing.T) {
	f := newFake(t)
	for range 3 {
		_, err := f.open(t.Context(), "mem://table", OpenOptions{})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { collect(); return f.liveHandles() == 0 }, 10*time.Second, 10*time.Millisecond)
}
