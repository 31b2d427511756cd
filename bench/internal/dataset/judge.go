package dataset

import (
	"fmt"
	"math"
)

// Verdict is the judgement of one answer.
type Verdict struct {
	Recall float64 // NaN when no row matches
	// Fault says what is wrong with the answer whatever its recall: too many or repeated rows, wrong order, wrong distances.
	Fault string
}

// Judge compares an answer with the ground truth. Rows as near as the k-th neighbour count as neighbours, so a tie is nobody's miss.
// exact says that the distances claim to be exact and must agree with the true ones.
func (t *Truth) Judge(query, k int, ids []uint64, distances []float64, exact bool) Verdict {
	if len(ids) != len(distances) {
		return Verdict{Fault: fmt.Sprintf("%d rows and %d distances", len(ids), len(distances))}
	}
	if len(ids) > k {
		return Verdict{Fault: fmt.Sprintf("%d rows for k = %d", len(ids), k)}
	}
	wanted := min(k, t.Matching)
	row := t.ids[query*t.Depth : (query+1)*t.Depth]
	near := t.distances[query*t.Depth : (query+1)*t.Depth]
	if wanted == 0 {
		return Verdict{Recall: math.NaN()}
	}
	if wanted > t.Depth {
		return Verdict{Fault: fmt.Sprintf("k = %d exceeds the ground truth's depth %d", k, t.Depth)}
	}
	limit := near[wanted-1]
	limit += 1e-9 * math.Max(1, math.Abs(limit))
	known := make(map[uint64]float64, t.Depth)
	for i, id := range row {
		if near[i] <= limit || i < wanted {
			known[id] = near[i]
		}
	}
	hits := 0
	seen := make(map[uint64]bool, len(ids))
	for i, id := range ids {
		if seen[id] {
			return Verdict{Fault: fmt.Sprintf("row %d twice", id)}
		}
		seen[id] = true
		if math.IsNaN(distances[i]) || (i > 0 && distances[i] < distances[i-1]) {
			return Verdict{Fault: fmt.Sprintf("distances out of order at %d", i)}
		}
		distance, ok := known[id]
		if !ok {
			continue
		}
		hits++
		if exact && math.Abs(distances[i]-distance) > 1e-4+1e-3*math.Abs(distance) {
			return Verdict{Fault: fmt.Sprintf("distance %g of row %d should be %g", distances[i], id, distance)}
		}
	}
	return Verdict{Recall: float64(min(hits, wanted)) / float64(wanted)}
}
