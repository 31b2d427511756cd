package oracle

import (
	"fmt"
	"math"
)

// Tolerance bounds how far two computations of one distance may lie apart.
type Tolerance struct{ Rel, Abs float64 }

// Single is the tolerance for distances computed in float32 against float64.
var Single = Tolerance{Rel: 1e-4, Abs: 2e-5}

// Half is the tolerance for vectors stored in half precision, which Lance may also compute in half precision.
var Half = Tolerance{Rel: 5e-3, Abs: 5e-3}

func (t Tolerance) of(d float64) float64 {
	if math.IsInf(d, 0) {
		return 0
	}
	return t.Rel*math.Abs(d) + t.Abs
}

// Equal tells whether two distances may be the same.
func (t Tolerance) Equal(a, b float64) bool {
	return a == b || math.Abs(a-b) <= t.of(a)
}

// CheckOrder reports the first place where hits are not in the order (distance, row id), where a row comes twice, or
// where a distance is NaN.
func CheckOrder(hits []Hit) error {
	seen := make(map[uint64]int, len(hits))
	for i, h := range hits {
		if math.IsNaN(h.Distance) {
			return fmt.Errorf("place %d: row %d has distance NaN", i, h.RowID)
		}
		if j, ok := seen[h.RowID]; ok {
			return fmt.Errorf("row %d comes at place %d and again at %d", h.RowID, j, i)
		}
		seen[h.RowID] = i
		if i == 0 {
			continue
		}
		before := hits[i-1]
		if h.Distance < before.Distance || h.Distance == before.Distance && h.RowID < before.RowID {
			return fmt.Errorf("place %d: (%v, row %d) after (%v, row %d)", i, h.Distance, h.RowID, before.Distance, before.RowID)
		}
	}
	return nil
}

// CheckExact reports how got differs from the k nearest of ranked, which holds every row with a distance in order.
// Rows within the tolerance of the k-th distance may stand for one another.
func CheckExact(got, ranked []Hit, k int, tol Tolerance) error {
	if err := CheckOrder(got); err != nil {
		return err
	}
	n := min(k, len(ranked))
	if len(got) != n {
		return fmt.Errorf("%d rows instead of %d%s", len(got), n, firstMissing(got, ranked[:n]))
	}
	if n == 0 {
		return nil
	}
	distances := make(map[uint64]float64, len(ranked))
	for _, h := range ranked {
		distances[h.RowID] = h.Distance
	}
	limit := ranked[n-1].Distance
	for i, h := range got {
		d, ok := distances[h.RowID]
		switch {
		case !ok:
			return fmt.Errorf("place %d: row %d (id %d) at %v is no candidate", i, h.RowID, h.ID, h.Distance)
		case !tol.Equal(d, h.Distance):
			return fmt.Errorf("place %d: row %d (id %d) has distance %v, not %v", i, h.RowID, h.ID, d, h.Distance)
		case d > limit+tol.of(limit):
			return fmt.Errorf("place %d: row %d (id %d) at %v is beyond the k-th distance %v%s", i, h.RowID, h.ID, d, limit, firstMissing(got, ranked[:n]))
		}
	}
	have := rowSet(got)
	for _, h := range ranked[:n] {
		if !have[h.RowID] && h.Distance < limit-tol.of(limit) {
			return fmt.Errorf("row %d (id %d) at %v is missing; the k-th distance is %v", h.RowID, h.ID, h.Distance, limit)
		}
	}
	return nil
}

// CheckSame reports how got differs from want, another answer to the same question for the k nearest. Where both are
// full, rows within the tolerance of the last distance may stand for one another.
func CheckSame(got, want []Hit, k int, tol Tolerance) error {
	if err := CheckOrder(got); err != nil {
		return err
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d rows instead of %d%s", len(got), len(want), firstMissing(got, want))
	}
	for i := range got {
		if !tol.Equal(want[i].Distance, got[i].Distance) {
			return fmt.Errorf("place %d: row %d at %v instead of row %d at %v%s",
				i, got[i].RowID, got[i].Distance, want[i].RowID, want[i].Distance, firstMissing(got, want))
		}
	}
	limit := math.Inf(1)
	if len(want) == k && k > 0 {
		limit = want[k-1].Distance
		limit -= tol.of(limit)
	}
	for _, pair := range [...]struct {
		verb  string
		these []Hit
		but   map[uint64]bool
	}{{"missing", want, rowSet(got)}, {"one too many", got, rowSet(want)}} {
		for i, h := range pair.these {
			if !pair.but[h.RowID] && (h.Distance < limit || math.IsInf(limit, 1)) {
				return fmt.Errorf("place %d: row %d (id %d) at %v is %s", i, h.RowID, h.ID, h.Distance, pair.verb)
			}
		}
	}
	return nil
}

func rowSet(hits []Hit) map[uint64]bool {
	set := make(map[uint64]bool, len(hits))
	for _, h := range hits {
		set[h.RowID] = true
	}
	return set
}

func firstMissing(got, want []Hit) string {
	have := rowSet(got)
	for i, h := range want {
		if !have[h.RowID] {
			return fmt.Sprintf("; the first missing, place %d, is row %d (id %d) at %v", i, h.RowID, h.ID, h.Distance)
		}
	}
	return ""
}
