package distributed

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
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
		outcomes[0] = p.runTask(ctx, &p.tasks[0])
	} else {
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(p.concurrency())
		for i := range p.tasks {
			if groupCtx.Err() != nil {
				break
			}
			group.Go(func() error {
				outcomes[i] = p.runTask(groupCtx, &p.tasks[i])
				if failed := outcomes[i].failed; failed != nil && !p.options.AllowPartial {
					return failed
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil && ctx.Err() == nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ended(ctx, "search")
	}
	return outcomes, p.tolerate(outcomes)
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

func (p *Plan) runTask(ctx context.Context, t *Task) (o outcome) {
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
	result, err := p.executor.Execute(taskCtx, *t)
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
