package distributed

import (
	"slices"
	"sync"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/topk"
)

// bounds are the k-th distances that the finished tasks of one execution have found, for the tasks that start later: rows farther than k that
// are already found are not in the answer, whichever task has them. A nil *bounds knows nothing and learns nothing.
type bounds struct {
	lock    sync.Mutex
	best    *topk.Merger
	learned bool
	exact   bool      // kind of the distances in best
	mixed   bool      // both kinds have come
	space   Distances // for what is handed out: an index task takes its share once
}

// newBounds gives nil where no task starts late enough to be told anything, or none would listen.
func (p *Plan) newBounds() *bounds {
	if p.shape.groups < 2 || p.concurrency() >= len(p.tasks) || !p.tasks[0].usesBounds() || p.choice.layout.mixesTypes() {
		return nil
	}
	// Index tasks of a split search all want this many.
	return &bounds{best: topk.NewMerger(p.sizes.candidates), space: make(Distances, p.shape.groups*p.vectors.Queries)}
}

// mixesTypes says whether tasks may measure by indexes of different types, whose distances can be on different scales.
func (x *indexLayout) mixesTypes() bool {
	return slices.ContainsFunc(x.index.Segments, func(s binding.Segment) bool { return s.Type != "" && s.Type != x.index.Type })
}

// learn takes in the candidates of a task that succeeded, unless no task is left to be told: those of the same queries follow each other, and
// next is the first that has not started. A distance range does not matter: every task applies it, so what it found are candidates for the answer.
func (b *bounds) learn(t *Task, r *TaskResult, next *Task) {
	if b == nil || !t.usesBounds() || !next.usesBounds() || next.FirstQuery != t.FirstQuery {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	// Of two kinds, neither says anything about a task that may yet give either.
	b.mixed = b.mixed || b.learned && b.exact != r.Stats.Exact
	b.learned, b.exact = true, r.Stats.Exact
	if b.mixed {
		return
	}
	for i, query := range r.Query {
		// A placeholder is at +Inf: it may stand for a near row, but makes no bound.
		b.best.Push(topk.Candidate{Query: query, Distance: r.Distance[i], RowID: r.RowID[i]})
	}
}

// of gives Task.Bounds for a task that is about to start.
func (b *bounds) of(t *Task) Distances {
	if b == nil || !t.usesBounds() {
		return nil
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.mixed {
		return nil
	}
	n, some := t.Vectors.Queries, false
	for i := range n {
		b.space[i] = b.best.Kth(uint32(t.FirstQuery + i))
		some = some || !isInf(b.space[i])
	}
	if !some {
		return nil
	}
	known := b.space[:n:n]
	b.space = b.space[n:]
	return known
}

func (b *bounds) release() {
	if b != nil {
		b.best.Release()
	}
}
