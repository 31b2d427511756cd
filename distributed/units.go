package distributed

import (
	"slices"

	"github.com/lanceknn/lanceknn/binding"
)

// unit is a set of segments that have to be searched by one task, because their live fragments overlap: after a compaction with deferred
// remapping each contributing segment is credited with the destination fragment and holds part of its rows, and two tasks would both return
// that fragment.
type unit struct {
	segments  []binding.SegmentID
	fragments []uint32 // live, distinct, ascending
	rows      uint64   // live rows in fragments
}

// formUnits gives the connected components of segments over live fragments, in the order of their first segment. rows holds the live rows of
// each live fragment; fragments it does not know are dead and connect nothing.
func formUnits(segments []binding.Segment, rows map[uint32]uint64) []unit {
	parent := make([]int, len(segments))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	owner := make(map[uint32]int, len(rows)) // fragment to the first segment that covers it
	for i, s := range segments {
		for _, id := range s.Fragments {
			if rows[id] == 0 {
				continue
			}
			if first, taken := owner[id]; taken {
				// The smaller root wins, so that a component is found at its first segment.
				a, b := root(first), root(i)
				parent[max(a, b)] = min(a, b)
			} else {
				owner[id] = i
			}
		}
	}
	var units []unit
	at := make(map[int]int) // root to unit
	for i, s := range segments {
		r := root(i)
		u, ok := at[r]
		if !ok {
			u = len(units)
			at[r] = u
			units = append(units, unit{})
		}
		if !slices.Contains(units[u].segments, s.ID) {
			units[u].segments = append(units[u].segments, s.ID)
		}
	}
	for id, i := range owner {
		u := &units[at[root(i)]]
		u.fragments = append(u.fragments, id)
		u.rows += rows[id]
	}
	for i := range units {
		slices.Sort(units[i].fragments)
	}
	return units
}
