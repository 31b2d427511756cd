package oracle

import (
	"cmp"
	"math"
	"slices"
)

// Row is one live row.
type Row struct {
	ID       int64
	RowID    uint64
	Category int32
	Vector   []float64   // nil: null
	Multi    [][]float64 // of a multivector column
}

// Hit is a neighbour.
type Hit struct {
	RowID    uint64
	ID       int64
	Distance float64
}

// Query is one question to the oracle.
type Query struct {
	Metric Metric
	Vector []float64
	Multi  [][]float64
	Keep   func(Row) bool // nil: every row
	Lower  *float64       // inclusive
	Upper  *float64       // exclusive
}

// Rank returns every row that has a distance, nearest first, rows at the same distance by row id.
func Rank(rows []Row, q Query) []Hit {
	hits := make([]Hit, 0, len(rows))
	for _, r := range rows {
		if q.Keep != nil && !q.Keep(r) {
			continue
		}
		var d float64
		switch {
		case q.Multi != nil && len(r.Multi) > 0:
			d = MultiDistance(q.Metric, q.Multi, r.Multi)
		case q.Multi == nil && r.Vector != nil:
			d = Distance(q.Metric, q.Vector, r.Vector)
		default:
			continue
		}
		if math.IsNaN(d) || q.Lower != nil && d < *q.Lower || q.Upper != nil && d >= *q.Upper {
			continue
		}
		hits = append(hits, Hit{RowID: r.RowID, ID: r.ID, Distance: d})
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.RowID, b.RowID))
	})
	return hits
}

// Recall is the part of a page of ranked that got holds, counting any row whose distance lies in the page's; 1 when there
// is nothing to find.
func Recall(got, ranked []Hit, p Page, tol Tolerance) float64 {
	want := p.of(ranked)
	if len(want) == 0 {
		return 1
	}
	first, last := want[0].Distance, want[len(want)-1].Distance
	distances := make(map[uint64]float64, len(ranked))
	for _, h := range ranked {
		distances[h.RowID] = h.Distance
	}
	found := 0
	for _, h := range got {
		if d, ok := distances[h.RowID]; ok && d <= last+tol.of(last) && d >= first-tol.of(first) {
			found++
		}
	}
	return float64(min(found, len(want))) / float64(len(want))
}
