package distributed

import (
	"context"
	"fmt"

	"github.com/lanceknn/lanceknn/binding"
)

// eligibilityKey is everything of a request that can decide about its path: all but the vectors' values.
type eligibilityKey struct {
	index, column, filter           string
	queries, k, refine              int
	nprobes, minNProbes, maxNProbes int
	effort                          float64
	effortSet, lowerSet, upperSet   bool
	lower, upper                    float32
	ef, parallelism                 int
	metric                          binding.Metric
	approx                          binding.ApproxMode
	path                            binding.Path
	probing                         binding.Probing
}

// askDirect asks the native core, once for each kind of query, whether one call takes the direct path over the whole index.
func (p *Plan) askDirect(ctx context.Context) error {
	q, x := &p.query, p.choice.layout
	key := eligibilityKey{
		index: x.index.Name, column: q.Column, filter: q.Filter, queries: p.vectors.Queries, k: p.sizes.want, refine: p.sizes.refine,
		nprobes: q.NProbes, minNProbes: q.MinNProbes, maxNProbes: q.MaxNProbes, ef: q.EF, parallelism: q.QueryParallelism,
		metric: p.metric, approx: q.ApproxMode, path: p.options.Path, probing: p.options.Probing,
		effortSet: q.SearchEffort != nil, lowerSet: q.DistanceMin != nil, upperSet: q.DistanceMax != nil,
	}
	if q.SearchEffort != nil {
		key.effort = *q.SearchEffort
	}
	if q.DistanceMin != nil {
		key.lower = *q.DistanceMin
	}
	if q.DistanceMax != nil {
		key.upper = *q.DistanceMax
	}
	p.catalog.lock.Lock()
	known, ok := p.catalog.eligibility[key]
	p.catalog.lock.Unlock()
	if ok {
		p.eligible = known
		return nil
	}
	t := p.baseTask()
	t.Kind, t.Segments, t.RefineFactor, t.Vectors = IndexTask, x.segments, p.sizes.refine, p.vectors
	t.Vectors.Data = nil // only their shape matters
	answer, err := p.ds.Eligibility(ctx, t.request())
	if err != nil {
		return fmt.Errorf("distributed: eligibility: %w", err)
	}
	p.eligible = &answer
	p.catalog.lock.Lock()
	defer p.catalog.lock.Unlock()
	if len(p.catalog.eligibility) >= remembered {
		clear(p.catalog.eligibility)
	}
	p.catalog.eligibility[key] = p.eligible
	return nil
}
