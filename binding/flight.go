package binding

import (
	"context"
	"sync"
	"sync/atomic"
)

// flight computes a value once for everyone who asks. A caller whose context ends leaves; the computation is cancelled only when nobody waits for it any
// more. A failure is given to those who waited, and the next caller tries again.
type flight[T any] struct {
	value atomic.Pointer[T]
	lock  sync.Mutex
	run   *run[T]
}

type run[T any] struct {
	waiting  int
	cancel   context.CancelFunc
	finished chan struct{}
	value    *T
	err      error
}

func (f *flight[T]) get(ctx context.Context, op string, compute func(context.Context) (*T, error)) (*T, error) {
	if v := f.value.Load(); v != nil {
		return v, nil
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, op)
	}
	r, value := f.join(compute)
	if value != nil {
		return value, nil
	}
	select {
	case <-r.finished:
		return r.value, r.err
	case <-ctx.Done():
		f.leave(r)
		return nil, ended(ctx, op)
	}
}

func (f *flight[T]) join(compute func(context.Context) (*T, error)) (*run[T], *T) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if v := f.value.Load(); v != nil {
		return nil, v
	}
	if f.run == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f.run = &run[T]{cancel: cancel, finished: make(chan struct{})}
		go f.compute(ctx, f.run, compute)
	}
	f.run.waiting++
	return f.run, nil
}

func (f *flight[T]) compute(ctx context.Context, r *run[T], compute func(context.Context) (*T, error)) {
	defer r.cancel()
	r.value, r.err = compute(ctx)
	f.lock.Lock()
	defer f.lock.Unlock()
	if r.err == nil {
		f.value.Store(r.value)
	}
	if f.run == r {
		f.run = nil
	}
	close(r.finished)
}

// leave waits for the native work to stop when it was the last that kept it going.
func (f *flight[T]) leave(r *run[T]) {
	f.lock.Lock()
	r.waiting--
	last := r.waiting == 0
	if last && f.run == r {
		f.run = nil
	}
	f.lock.Unlock()
	if last {
		r.cancel()
		<-r.finished
	}
}
