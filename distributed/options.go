package distributed

import (
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/binding"
)

// Options say how a search is carried out. The zero value is the default of each.
type Options struct {
	// IndexName chooses the index. Empty: of the indexes on the column with a fitting metric, the one that covers most live rows, then the
	// first by name.
	IndexName string
	Strategy  Strategy  // default Auto
	Unindexed Unindexed // default Require

	// MaxTasks bounds the number of tasks. 0: as many as can run at once, or four times that for Grid.
	MaxTasks int
	// Threads bounds the threads of this search: with the local executor those of all its tasks together, with another those of each task.
	// 0: all cores.
	Threads int

	// Executor runs the tasks. nil: this process, on the dataset handle of the plan.
	Executor Executor
	// TaskCredentials puts the storage options and namespace properties of the dataset handle into every task, for an executor whose workers
	// have no credentials of their own. Off by default, because a task is a value that is sent and may be logged. The URI of a task is as it
	// was given to binding.Open in either case.
	TaskCredentials bool

	Probing binding.Probing // which partitions of the segments are read; default: the library's rule unless the query sets probes
	Path    binding.Path    // through the native core; default: the direct one where the query can take it

	// AllowPartial gives the answer of the tasks that succeeded where others failed; Stats.Missing names what is missing. The whole query
	// still fails when every task fails, or when its context ends. Off by default: one failed task fails the query.
	AllowPartial bool
	// TaskTimeout bounds each task. 0: none but the context's.
	TaskTimeout time.Duration

	Allocator memory.Allocator // of the result's record; nil: memory.DefaultAllocator
	Logger    *slog.Logger     // warnings, and details at debug level; nil: none
}

func (o *Options) validate() error {
	refuse := func(name, format string, args ...any) error {
		return &ArgumentError{Name: "Options." + name, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case int(o.Strategy) >= len(strategyNames):
		return refuse("Strategy", "unknown strategy %d", o.Strategy)
	case int(o.Unindexed) >= len(unindexedNames):
		return refuse("Unindexed", "unknown policy %d", o.Unindexed)
	case o.MaxTasks < 0:
		return refuse("MaxTasks", "%d is negative; use 0 for the default", o.MaxTasks)
	case o.Threads < 0 || o.Threads > math.MaxInt32:
		return refuse("Threads", "%d is not a number of threads; use 0 for all cores", o.Threads)
	case o.Probing > binding.ProbingShared:
		return refuse("Probing", "unknown probing %d", o.Probing)
	case o.Path > binding.PathDirect:
		return refuse("Path", "unknown path %d", o.Path)
	case o.TaskTimeout < 0:
		return refuse("TaskTimeout", "%v is negative; use 0 for none", o.TaskTimeout)
	}
	return nil
}

func (o *Options) local() bool { return o.Executor == nil }

// cores is the number of threads the local executor may use.
func (o *Options) cores() int {
	if o.Threads > 0 {
		return o.Threads
	}
	return runtime.GOMAXPROCS(0)
}

// workers is the number of tasks that can run at once.
func (o *Options) workers() int {
	if o.local() {
		return o.cores()
	}
	if sized, ok := o.Executor.(interface{ Workers() int }); ok {
		if n := sized.Workers(); n > 0 {
			return n
		}
	}
	return runtime.GOMAXPROCS(0)
}

func (o *Options) allocator() memory.Allocator {
	if o.Allocator != nil {
		return o.Allocator
	}
	return memory.DefaultAllocator
}
