package distributed

import (
	"slices"

	"github.com/lanceknn/lanceknn/binding"
)

// Tasks gives the tasks, in the order they are started. They share the plan's vectors: do not modify them.
func (p *Plan) Tasks() []Task {
	if !p.made() {
		return nil
	}
	return slices.Clone(p.tasks)
}

// makeTasks lays out the tasks of the shape: every block of queries meets every part of the rows.
func (p *Plan) makeTasks(flat []binding.Fragment) {
	parts := p.rowParts(flat)
	borders := blocks(p.vectors.Queries, p.shape.blocks)
	p.tasks = make([]Task, 0, len(parts)*(len(borders)-1))
	for b := range len(borders) - 1 {
		vectors := p.vectors.Slice(borders[b], borders[b+1])
		for _, t := range parts {
			t.ID = len(p.tasks)
			t.FirstQuery, t.Vectors = borders[b], vectors
			p.tasks = append(p.tasks, t)
		}
	}
	p.shareThreads()
}

// shareThreads divides the cores of this process among the tasks that run at once. Another executor's tasks run elsewhere.
func (p *Plan) shareThreads() {
	n := p.concurrency()
	if !p.options.local() || n < 2 {
		return
	}
	cores := p.options.cores()
	for i := range p.tasks {
		share := cores / n
		if i%n < cores%n { // the first tasks are the largest
			share++
		}
		p.tasks[i].Threads = max(1, share)
	}
}

// rowParts gives a task for each part of the rows, complete but for its queries.
func (p *Plan) rowParts(flat []binding.Fragment) []Task {
	if p.shape.scan {
		return []Task{p.wholePart(flat)}
	}
	parts := make([]Task, 0, p.shape.parts())
	switch p.shape.groups {
	case 0:
	case 1:
		parts = append(parts, p.wholePart(nil))
	default:
		parts = append(parts, p.indexParts()...)
	}
	if p.shape.flats > 0 {
		parts = append(parts, p.flatParts(flat)...)
	}
	return parts
}

// wholePart searches the whole index, and the flat fragments with it, in one scan.
func (p *Plan) wholePart(flat []binding.Fragment) Task {
	x := p.choice.layout
	t := p.indexTask()
	t.Kind, t.Segments, t.Fragments, t.Rows = IndexTask, x.segments, x.fragments, x.covered
	switch {
	case p.shape.scan && p.monolithic(x) && p.skipped == 0 && p.catalog.only(x):
		// Lance chooses this index by itself, and knows best what belongs to it.
		t.Kind, t.Segments = ScanTask, nil
		t.Fragments, t.Rows = fragmentIDs(p.catalog.fragments), p.catalog.liveRows
	case len(flat) > 0:
		t.Kind = ScanTask
		t.Fragments, t.Rows = fragmentIDs(p.catalog.fragments), p.catalog.liveRows
	}
	return t
}

// indexParts is a part for each group of units.
func (p *Plan) indexParts() []Task {
	groups := p.choice.layout.grouped(p.shape.groups)
	parts := make([]Task, len(groups))
	for i, group := range groups {
		parts[i] = p.indexTask()
		parts[i].Kind, parts[i].Segments, parts[i].Fragments, parts[i].Rows = IndexTask, group.segments, group.fragments, group.rows
	}
	return parts
}

// flatParts groups fragments to be searched without an index.
func (p *Plan) flatParts(flat []binding.Fragment) []Task {
	weights := make([]uint64, len(flat))
	for i := range flat {
		weights[i] = flat[i].LiveRows()
	}
	groups := balance(weights, p.shape.flats)
	parts := make([]Task, len(groups))
	for g, group := range groups {
		t := p.baseTask()
		t.Kind = FlatTask
		for _, i := range group {
			t.Fragments = append(t.Fragments, flat[i].ID)
			t.Rows += flat[i].LiveRows()
		}
		parts[g] = t
	}
	return parts
}

// indexTask is a task on the index. A query that one task answers alone is refined by that task, as one scan does it; otherwise the candidates
// for refinement are asked for and refined after the merge.
func (p *Plan) indexTask() Task {
	t := p.baseTask()
	t.Index = p.choice.layout.index.Name
	if p.shape.parts() == 1 {
		t.RefineFactor = p.sizes.refine
	} else {
		t.K = p.sizes.candidates
	}
	return t
}

func (p *Plan) baseTask() Task {
	q := &p.query
	return Task{
		URI: p.uri, Version: p.version, Open: p.open,
		Column: q.Column, Filter: q.Filter, K: p.sizes.want, Metric: p.metric,
		NProbes: q.NProbes, MinNProbes: q.MinNProbes, MaxNProbes: q.MaxNProbes, SearchEffort: q.SearchEffort, EF: q.EF,
		DistanceMin: q.DistanceMin, DistanceMax: q.DistanceMax, ApproxMode: q.ApproxMode, QueryParallelism: q.QueryParallelism,
		Probing: p.options.Probing, Path: p.options.Path, Threads: p.options.Threads,
	}
}

// openOptions opens the plan's version elsewhere, without credentials unless they are to travel.
func (p *Plan) openOptions() binding.OpenOptions {
	o := p.ds.OpenOptions()
	if p.options.TaskCredentials {
		return o
	}
	o.StorageOptions = nil
	if o.Namespace != nil {
		public := *o.Namespace
		public.Properties = nil
		o.Namespace = &public
	}
	return o
}
