package topk

import "cmp"

// Candidate is one row found for one query.
type Candidate struct {
	Query    uint32  // position of the query in its matrix
	Distance float32 // smaller is nearer
	RowID    uint64
}

// Compare orders candidates by query, distance and row id: the order of every list this package returns. It is total over candidates whose
// distance is not NaN.
func Compare(a, b Candidate) int {
	if c := cmp.Compare(a.Query, b.Query); c != 0 {
		return c
	}
	switch {
	case a.Distance < b.Distance:
		return -1
	case a.Distance > b.Distance:
		return 1
	}
	return cmp.Compare(a.RowID, b.RowID)
}
