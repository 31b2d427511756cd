package distributed

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// outcome is a task that has ended.
type outcome struct {
	result TaskResult
	failed *TaskError // nil: answered
}

// run runs every task and returns when all have ended. The first failure cancels the others and is returned, unless failures are to be kept
// as part of the outcome. The end of ctx is always an error.
func (p *Plan) run(ctx context.Context) ([]outcome, error) {
	outcomes := make([]outcome, len(p.tasks))
	if len(p.tasks) == 1 { // nothing to wait for beside it: stay on the caller's goroutine
		outcomes[0] = p.runTask(ctx, &p.tasks[0], nil)
	} else if err := p.runAll(ctx, outcomes); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, "search")
	}
	return outcomes, p.tolerate(outcomes)
}

// runAll has as many workers as tasks may run at once, the caller's goroutine among them, so that tasks start in their order and each with what
// is known by then.
func (p *Plan) runAll(ctx context.Context, outcomes []outcome) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	known := p.newBounds()
	defer known.release()
	var started atomic.Int64
	work := func() {
		for ctx.Err() == nil {
			i := int(started.Add(1)) - 1
			if i >= len(p.tasks) {
				return
			}
			t := &p.tasks[i]
			outcomes[i] = p.runTask(ctx, t, known.of(t))
			switch failed := outcomes[i].failed; {
			case failed == nil:
				if next := int(started.Load()); next < len(p.tasks) {
					known.learn(t, &outcomes[i].result, &p.tasks[next])
				}
			case !p.options.AllowPartial:
				cancel(failed)
			}
		}
	}
	var others sync.WaitGroup
	for range p.concurrency() - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	return context.Cause(ctx)
}

// tolerate applies AllowPartial: some failures are part of the answer, nothing but failures is an error.
func (p *Plan) tolerate(outcomes []outcome) error {
	var failures []error
	for i := range outcomes {
		if failed := outcomes[i].failed; failed != nil {
			failures = append(failures, failed)
		}
	}
	switch {
	case len(failures) == 0:
		return nil
	case len(failures) == 1 && len(outcomes) == 1:
		return failures[0]
	case len(failures) == len(outcomes):
		return fmt.Errorf("distributed: all %d tasks failed: %w", len(failures), errors.Join(failures...))
	case !p.options.AllowPartial:
		return failures[0]
	}
	if log := p.options.Logger; log != nil {
		log.Warn("vector search is incomplete", "failed", len(failures), "tasks", len(outcomes), "error", errors.Join(failures...))
	}
	return nil
}

func (p *Plan) runTask(ctx context.Context, t *Task, known Distances) (o outcome) {
	taskCtx := ctx
	if timeout := p.options.TaskTimeout; timeout > 0 {
		var cancel context.CancelFunc
		taskCtx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	defer func() {
		if v := recover(); v != nil {
			o = outcome{failed: p.failed(t, &PanicError{Value: v, Stack: debug.Stack()})}
		}
	}()
	if ctx.Err() != nil {
		return outcome{failed: p.failed(t, context.Cause(ctx))}
	}
	task := *t // the plan's own may be running in another execution
	task.Bounds = known
	result, err := p.executor.Execute(taskCtx, task)
	if err == nil {
		err = result.check(t)
	} else if taskCtx.Err() != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v: %w (%w)", p.options.TaskTimeout, context.DeadlineExceeded, err)
	}
	if err != nil {
		return outcome{failed: p.failed(t, err)}
	}
	return outcome{result: result}
}

// failed describes the failure of a task, its queries by their position in the caller's matrix.
func (p *Plan) failed(t *Task, err error) *TaskError {
	first := p.callersQuery(uint32(t.FirstQuery))
	last := p.callersQuery(uint32(t.FirstQuery + t.Vectors.Queries - 1))
	return &TaskError{Task: t.ID, Segments: t.Segments, Fragments: t.Fragments, Rows: t.Rows, FirstQuery: first, Queries: last - first + 1, Err: err}
}

// concurrency is the number of tasks given to the executor at once. Another executor has a queue of its own, and is given all.
func (p *Plan) concurrency() int {
	if p.options.local() {
		return min(len(p.tasks), p.options.workers())
	}
	return len(p.tasks)
}

// ended describes a context that is over. It matches the context's error and its cause.
func ended(ctx context.Context, doing string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("distributed: %s: %w", doing, cause)
	}
	return fmt.Errorf("distributed: %s: %w: %w", doing, err, cause)
}
