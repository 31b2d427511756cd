package distributed

import (
	"context"
	"fmt"

	"github.com/lanceknn/lanceknn/binding"
)

// Executor runs tasks, in this process or elsewhere.
//
// Execute is called from several goroutines at once. It returns when the task has been answered, has failed, or can no longer do anything
// because ctx has ended; it does not return earlier, since the plan waits for every task it started. An implementation for another process
// opens Task.URI with Task.Open, and keeps the handle: a worker that has the dataset and its index warm answers in a fraction of the time. It
// then calls [RunTask], and sends the result back. Its errors should keep [errors.Is] working where they can, above all for
// [binding.ErrVersionGone]. A panic becomes a [TaskError]. Retrying is its own business; a plan never retries.
//
// An implementation may have a method Workers() int that says how many tasks it can run at once; plans are cut to that number.
type Executor interface {
	Execute(ctx context.Context, t Task) (TaskResult, error)
}

// localExecutor runs tasks on a handle of this process, so that they share its caches.
type localExecutor struct{ ds native }

func (e localExecutor) Execute(ctx context.Context, t Task) (TaskResult, error) {
	return runTask(ctx, e.ds, &t)
}

// RunTask runs a task on an open dataset: what a worker does. The dataset must be the task's version; another one is refused with
// [binding.ErrVersionGone].
func RunTask(ctx context.Context, ds *binding.Dataset, t Task) (TaskResult, error) {
	if ds == nil {
		return TaskResult{}, &ArgumentError{Name: "dataset", Reason: "it is nil; open the task's URI and version"}
	}
	return runTask(ctx, ds, &t)
}

func runTask(ctx context.Context, ds native, t *Task) (TaskResult, error) {
	if v := ds.Version(); v != t.Version {
		return TaskResult{}, fmt.Errorf("task is for version %d, the dataset handle is version %d: %w", t.Version, v, binding.ErrVersionGone)
	}
	found, err := ds.Search(ctx, t.request())
	if err != nil {
		return TaskResult{}, err
	}
	for i := range found.Query {
		found.Query[i] += uint32(t.FirstQuery)
	}
	return TaskResult{Query: found.Query, Distance: found.Distance, RowID: found.RowID, Stats: found.Stats}, nil
}
