package differential

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// question makes a random search that fits the history.
func (h *history) question(rng *rand.Rand, rows []oracle.Row) lab.Ask {
	a := lab.Ask{Metric: pick(rng, h.metrics()...), K: pick(rng, 1, 3, 10, 10, 25, 100, 3000)}
	if h.index != nil && rng.IntN(4) > 0 {
		a.Metric = h.index.Metric
	}
	for range 1 + rng.IntN(4) {
		if h.schema.multi {
			continue
		}
		q := h.schema.vector(rng)
		if rng.IntN(4) == 0 { // a stored vector, as users often ask with one
			if r := rows[min(rng.IntN(len(rows)+1), len(rows)-1)]; r.Vector != nil && finite(r.Vector) {
				q = r.Vector
			}
		}
		a.Queries = append(a.Queries, q)
	}
	if h.schema.multi {
		per := 1 + rng.IntN(3)
		for range 1 + rng.IntN(3) {
			var q [][]float64
			for range per {
				q = append(q, h.schema.vector(rng))
			}
			a.Multi = append(a.Multi, q)
		}
	}
	switch {
	case h.index == nil: // the metric left out would be L2, or hamming
	case a.Metric == h.index.Metric:
		a.Omit = rng.IntN(3) == 0
	}
	a.Options.Unindexed = pick(rng, distributed.Scan, distributed.Scan, distributed.Scan, distributed.Skip)
	a.Query.NoIndex = rng.IntN(8) == 0
	if a.Query.NoIndex {
		a.Options.Unindexed = distributed.Scan
		a.Omit = false
	}
	h.filter(rng, &a)
	h.probes(rng, &a)
	if rng.IntN(2) == 0 {
		a.Query.RefineFactor = pick(rng, 1, 2, 5, 10)
	}
	if rng.IntN(6) == 0 {
		a.Offset = pick(rng, 1, 5, 50)
	}
	if h.index != nil && strings.Contains(h.index.Type, "HNSW") && rng.IntN(3) == 0 && !(h.schema.multi && a.K > 100) {
		a.Query.EF = (a.K+a.Offset)*max(1, a.Query.RefineFactor) + rng.IntN(100)
	}
	if h.index != nil && h.index.Type == "IVF_RQ" {
		a.Query.ApproxMode = pick(rng, binding.ApproxNormal, binding.ApproxNormal, binding.ApproxFast, binding.ApproxAccurate)
	}
	a.Query.QueryParallelism = pick(rng, 0, 0, 0, -1, 2)
	if rng.IntN(6) == 0 {
		h.distances(rng, &a, rows)
	}
	return a
}

func finite(v []float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

func (h *history) filter(rng *rand.Rand, a *lab.Ask) {
	if rng.IntN(2) == 0 {
		return
	}
	c := int32(rng.IntN(20))
	n := int64(2 + rng.IntN(30))
	switch rng.IntN(5) {
	case 0:
		a.Filter, a.Keep = fmt.Sprintf("category = %d", c), func(r oracle.Row) bool { return r.Category == c }
	case 1:
		a.Filter, a.Keep = fmt.Sprintf("category < %d", c), func(r oracle.Row) bool { return r.Category < c }
	case 2:
		a.Filter, a.Keep = fmt.Sprintf("id %% %d = 1", n), func(r oracle.Row) bool { return r.ID%n == 1 }
	case 3:
		a.Filter, a.Keep = fmt.Sprintf("category >= %d and id %% 2 = 0", c), func(r oracle.Row) bool { return r.Category >= c && r.ID%2 == 0 }
	case 4:
		a.Filter, a.Keep = fmt.Sprintf("id in (%d, %d, %d)", n, 3*n, 7*n), func(r oracle.Row) bool { return r.ID == n || r.ID == 3*n || r.ID == 7*n }
	}
}

// probes says which partitions are read: mostly all or a fixed number, so that the answer does not depend on a rule.
func (h *history) probes(rng *rand.Rand, a *lab.Ask) {
	partitions := max(1, h.partitions)
	switch rng.IntN(8) {
	case 0: // the default rule, or Lance's for each segment
		if rng.IntN(2) == 0 {
			a.Options.Probing = binding.ProbingPerSegment
		}
	case 1:
		a.Query.NProbes = 1
	case 2:
		n := 1 + rng.IntN(partitions)
		a.Query.MinNProbes, a.Query.MaxNProbes = n, n
	case 3:
		a.Query.NProbes = 1 + rng.IntN(partitions)
	case 4:
		a.Query.SearchEffort = lab.Ptr(1.0)
	default:
		a.Query.NProbes = partitions
	}
}

// distances bounds the distance between two that occur, halfway between neighbours so that rounding decides nothing.
func (h *history) distances(rng *rand.Rand, a *lab.Ask, rows []oracle.Row) {
	ranked := a.Ranked(h.data, rows)[0]
	between := func(i int) *float64 {
		for ; i+1 < len(ranked); i++ {
			low, high := ranked[i].Distance, ranked[i+1].Distance
			x := float64(float32((low + high) / 2))
			if finite([]float64{x}) && !h.tolerance().Equal(low, x) && !h.tolerance().Equal(high, x) {
				return &x
			}
		}
		return nil
	}
	n := min(len(ranked), 2*a.K+2)
	if n < 4 {
		return
	}
	from := rng.IntN(n - 2)
	to := from + 1 + rng.IntN(n-from)
	switch rng.IntN(3) {
	case 0:
		a.Lower = between(from)
	case 1:
		a.Upper = between(to)
	default:
		a.Lower, a.Upper = between(from), between(to)
		if a.Lower != nil && a.Upper != nil && *a.Lower >= *a.Upper {
			a.Lower = nil
		}
	}
}

// chosenProbes tells whether the library or Lance chooses what to read.
func chosenProbes(a lab.Ask) bool {
	q := a.Query
	if a.Options.Probing == binding.ProbingPerSegment && q.RefineFactor == 0 && a.Filter == "" && a.K+a.Offset <= 10 && a.Lower == nil {
		return false // Lance's own rule; where it finds fewer than k rows it reads on, by a budget for the whole scan
	}
	return !q.NoIndex && q.NProbes == 0 && q.MinNProbes == 0 && q.SearchEffort == nil
}

func (h *history) tolerance() oracle.Tolerance {
	if h.schema.Type == binding.Float16 {
		return oracle.Half
	}
	return oracle.Single
}

func describe(a lab.Ask) string {
	q := a.Query
	s := fmt.Sprintf("%d queries (%d multivector), %s, metric omitted %v, k %d, offset %d, filter %q, refine %d, ef %d, probes %d (%d-%d)",
		len(a.Queries), len(a.Multi), a.Metric, a.Omit, a.K, a.Offset, a.Filter, q.RefineFactor, q.EF, q.NProbes, q.MinNProbes, q.MaxNProbes)
	if q.SearchEffort != nil {
		s += fmt.Sprintf(", effort %v", *q.SearchEffort)
	}
	if a.Lower != nil {
		s += fmt.Sprintf(", from %v", *a.Lower)
	}
	if a.Upper != nil {
		s += fmt.Sprintf(", below %v", *a.Upper)
	}
	return s + fmt.Sprintf(", unindexed %v, no index %v, approx %v, parallelism %d", a.Options.Unindexed, q.NoIndex, q.ApproxMode, q.QueryParallelism)
}
