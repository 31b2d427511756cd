package distributed

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/topk"
)

// combine turns the results of all tasks into the nearest candidates of each query, at most offset + k, in order.
//
// Distances of two kinds come in: exact ones, from flat searches and from tasks that refined, and index distances, which a quantised index only
// approximates. They are never compared with each other: where both kinds meet, or where the query asks for refinement and several tasks
// answer it, the index candidates are merged by themselves, re-scored exactly in one call, and merged with the rest then. Lance's own plan
// over indexed and unindexed rows does the same.
func (p *Plan) combine(ctx context.Context, outcomes []outcome, stats *Stats) ([]topk.Candidate, error) {
	start := time.Now()
	defer func() { stats.Merge = time.Since(start) - stats.Refine }()
	exact, approximate := p.byKind(outcomes)
	split := p.shape.parts() > 1
	rescore := split && len(approximate) > 0 && (len(exact) > 0 || p.sizes.refine > 0)

	best := topk.NewMerger(p.sizes.want)
	defer best.Release()
	if len(approximate) > 0 {
		limit := p.sizes.want
		if rescore {
			limit = p.sizes.candidates
		}
		candidates, placeholders := withPlaceholders(mergeResults(limit, approximate), approximate)
		if !rescore && len(placeholders) == 0 && len(exact) == 0 {
			stats.Exact = allExact(approximate)
			return candidates, nil
		}
		stats.Exact = rescore || allExact(approximate)
		if err := p.rescore(ctx, best, candidates, func(query uint32) bool { return rescore || placeholders[query] }, stats); err != nil {
			return nil, err
		}
	} else {
		stats.Exact = true
	}
	for _, r := range exact {
		p.pushAll(best, r)
	}
	return best.Append(nil), nil
}

// byKind parts the results by the kind of their distances. Index tasks of one search may differ: where a segment has rows made stale by a data
// overlay, Lance re-scores everything that task finds.
func (p *Plan) byKind(outcomes []outcome) (exact, approximate []*TaskResult) {
	approximate = make([]*TaskResult, 0, len(outcomes))
	differ := false
	for i := range outcomes {
		switch r := &outcomes[i].result; {
		case outcomes[i].failed != nil:
		case p.givesExact(&p.tasks[i]):
			exact = append(exact, r)
		default:
			approximate = append(approximate, r)
			differ = differ || r.Stats.Exact != approximate[0].Stats.Exact
		}
	}
	if differ {
		for _, r := range approximate {
			if r.Stats.Exact {
				exact = append(exact, r)
			}
		}
		approximate = slices.DeleteFunc(approximate, func(r *TaskResult) bool { return r.Stats.Exact })
	}
	return exact, approximate
}

// givesExact says whether the task computes the distances of all it finds from the vectors themselves: a flat search, one that refines, and a
// scan of Lance that has to mix the index with rows outside it.
func (p *Plan) givesExact(t *Task) bool {
	switch {
	case t.Kind == FlatTask, t.RefineFactor > 0:
		return true
	case t.Kind == ScanTask:
		return len(p.choice.layout.uncovered) > 0
	}
	return false
}

func allExact(results []*TaskResult) bool {
	for _, r := range results {
		if !r.Stats.Exact {
			return false
		}
	}
	return true
}

func mergeResults(k int, results []*TaskResult) []topk.Candidate {
	m := topk.NewMerger(k)
	defer m.Release()
	for _, r := range results {
		for i, query := range r.Query {
			m.Push(topk.Candidate{Query: query, Distance: r.Distance[i], RowID: r.RowID[i]})
		}
	}
	return m.Append(nil)
}

// withPlaceholders finds the queries whose candidates contain a row at distance +Inf. No index holds a row that far away: Lance emits such a
// row where a filter leaves no more than k of them, in place of reading the partition that has it, and the test is made by each task for
// itself, so splitting makes it more often. The distance of these rows is unknown, so all candidates of such a query are kept, to be re-scored.
func withPlaceholders(candidates []topk.Candidate, results []*TaskResult) ([]topk.Candidate, map[uint32]bool) {
	var queries map[uint32]bool
	for _, c := range candidates {
		if isInf(c.Distance) {
			if queries == nil {
				queries = make(map[uint32]bool)
			}
			queries[c.Query] = true
		}
	}
	if queries == nil {
		return candidates, nil
	}
	all := topk.NewMerger(math.MaxInt)
	defer all.Release()
	for _, c := range candidates {
		if !queries[c.Query] {
			all.Push(c)
		}
	}
	for _, r := range results {
		for i, query := range r.Query {
			if queries[query] {
				all.Push(topk.Candidate{Query: query, Distance: r.Distance[i], RowID: r.RowID[i]})
			}
		}
	}
	return all.Append(nil), queries
}

// rescore pushes the candidates, those of the queries chosen with their exact distance.
func (p *Plan) rescore(ctx context.Context, best *topk.Merger, candidates []topk.Candidate, chosen func(query uint32) bool, stats *Stats) error {
	request := binding.RefineRequest{
		Column: p.query.Column, Metric: p.metric, Vectors: p.vectors,
		Query: make([]uint32, 0, len(candidates)), RowID: make([]uint64, 0, len(candidates)),
	}
	for _, c := range candidates {
		if chosen(c.Query) {
			request.Query, request.RowID = append(request.Query, c.Query), append(request.RowID, c.RowID)
		} else {
			p.push(best, c)
		}
	}
	if len(request.RowID) == 0 {
		return nil
	}
	start := time.Now()
	distances, err := p.ds.Refine(ctx, request)
	stats.Refine, stats.Rescored = time.Since(start), len(request.RowID)
	switch {
	case ctx.Err() != nil:
		return ended(ctx, "refine")
	case err != nil:
		return fmt.Errorf("distributed: refine %d candidates: %w", len(request.RowID), err)
	case len(distances) != len(request.RowID):
		return fmt.Errorf("distributed: refine gave %d distances for %d candidates: %w", len(distances), len(request.RowID), binding.ErrInternal)
	}
	for i, distance := range distances {
		p.push(best, topk.Candidate{Query: request.Query[i], Distance: distance, RowID: request.RowID[i]})
	}
	return nil
}

func (p *Plan) pushAll(best *topk.Merger, r *TaskResult) {
	for i, query := range r.Query {
		p.push(best, topk.Candidate{Query: query, Distance: r.Distance[i], RowID: r.RowID[i]})
	}
}

// push applies the distance range to final distances. Tasks have applied it to theirs, so this decides about re-scored ones.
func (p *Plan) push(best *topk.Merger, c topk.Candidate) {
	if p.query.inRange(c.Distance) {
		best.Push(c)
	}
}

func isInf(distance float32) bool { return math.IsInf(float64(distance), 1) }
