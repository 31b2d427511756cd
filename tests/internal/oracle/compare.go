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

// Page says which of the nearest rows are asked for: K of them, after the first Offset.
type Page struct{ Offset, K int }

func (p Page) of(ranked []Hit) []Hit {
	from := min(p.Offset, len(ranked))
	return ranked[from : from+min(p.K, len(ranked)-from)]
}

// border is the range of distances strictly inside a page. Rows at its borders may stand for others at the same
// distance; where the page begins or ends with all the rows there are, no row may.
func (p Page) border(page []Hit, more bool, tol Tolerance) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if p.Offset > 0 {
		low = page[0].Distance + tol.of(page[0].Distance)
	}
	if more {
		last := page[len(page)-1].Distance
		high = last - tol.of(last)
	}
	return low, high
}

func inside(d, low, high float64) bool {
	return (d > low || math.IsInf(low, -1)) && (d < high || math.IsInf(high, 1))
}

// CheckExact reports how got differs from a page of ranked, which holds every row with a distance in order. Rows within
// the tolerance of the first or the last distance of the page may stand for others.
func CheckExact(got, ranked []Hit, p Page, tol Tolerance) error {
	if err := CheckOrder(got); err != nil {
		return err
	}
	want := p.of(ranked)
	if len(got) != len(want) {
		return fmt.Errorf("%d rows instead of %d%s", len(got), len(want), firstMissing(got, want))
	}
	if len(want) == 0 {
		return nil
	}
	low, high := p.border(want, p.Offset+len(want) < len(ranked), tol)
	distances := make(map[uint64]float64, len(ranked))
	for _, h := range ranked {
		distances[h.RowID] = h.Distance
	}
	first, last := want[0].Distance, want[len(want)-1].Distance
	for i, h := range got {
		d, ok := distances[h.RowID]
		switch {
		case !ok:
			return fmt.Errorf("place %d: row %d (id %d) at %v is no candidate", i, h.RowID, h.ID, h.Distance)
		case !tol.Equal(d, h.Distance):
			return fmt.Errorf("place %d: row %d (id %d) has distance %v, not %v", i, h.RowID, h.ID, d, h.Distance)
		case d > last+tol.of(last), d < first-tol.of(first):
			return fmt.Errorf("place %d: row %d (id %d) at %v is outside the distances %v to %v%s", i, h.RowID, h.ID, d, first, last, firstMissing(got, want))
		}
	}
	have := rowSet(got)
	for _, h := range want {
		if !have[h.RowID] && inside(h.Distance, low, high) {
			return fmt.Errorf("row %d (id %d) at %v is missing; the last distance is %v", h.RowID, h.ID, h.Distance, last)
		}
	}
	return nil
}

// CheckSame reports how got differs from want, another answer to the same question. Where there may be rows before and
// after the page, rows within the tolerance of its first or last distance may stand for others.
func CheckSame(got, want []Hit, p Page, tol Tolerance) error {
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
	if len(want) == 0 {
		return nil
	}
	low, high := p.border(want, len(want) == p.K, tol)
	for _, pair := range [...]struct {
		verb  string
		these []Hit
		but   map[uint64]bool
	}{{"missing", want, rowSet(got)}, {"one too many", got, rowSet(want)}} {
		for i, h := range pair.these {
			if !pair.but[h.RowID] && inside(h.Distance, low, high) {
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
