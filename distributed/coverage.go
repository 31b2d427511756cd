package distributed

import (
	"cmp"
	"slices"
	"sync"

	"github.com/lanceknn/lanceknn/binding"
)

// liveFragments gives the fragments that hold live rows, ascending by id. A fragment whose rows are all deleted needs no search and no index.
func liveFragments(fragments []binding.Fragment) []binding.Fragment {
	var live []binding.Fragment
	for _, f := range fragments {
		if f.DeletedRows < f.PhysicalRows {
			live = append(live, f)
		}
	}
	slices.SortFunc(live, func(a, b binding.Fragment) int { return cmp.Compare(a.ID, b.ID) })
	return live
}

// indexLayout is one index as the live rows see it.
type indexLayout struct {
	index  binding.VectorIndex
	metric binding.Metric // of the live segments; unset where the index does not say
	broken *SegmentError  // why the live segments cannot be searched together; usually nil

	segments  []binding.SegmentID // live segments, in the order of the index
	units     []unit
	dropped   int  // segments that cover no live fragment
	noBitmap  bool // a segment does not say what it covers, so the index counts as covering everything
	fragments []uint32
	covered   uint64             // live rows in fragments
	uncovered []binding.Fragment // live fragments no segment covers, ascending

	lock   sync.Mutex
	groups map[int][]unit // by their number: the same few numbers are asked for again and again
}

func newIndexLayout(index binding.VectorIndex, live []binding.Fragment, rows map[uint32]uint64) *indexLayout {
	x := &indexLayout{index: index, groups: make(map[int][]unit)}
	alive := make([]binding.Segment, 0, len(index.Segments))
	for _, s := range index.Segments {
		if s.NoBitmap || slices.ContainsFunc(s.Fragments, func(id uint32) bool { return rows[id] > 0 }) {
			alive = append(alive, s)
			x.noBitmap = x.noBitmap || s.NoBitmap
		} else {
			x.dropped++
		}
	}
	if len(live) == 0 {
		alive, x.noBitmap = nil, false
	}
	x.units = formUnits(alive, rows)
	covers := make(map[uint32]bool, len(live))
	for _, u := range x.units {
		for _, id := range u.fragments {
			covers[id] = true
		}
		x.covered += u.rows
	}
	for _, s := range alive {
		if !slices.Contains(x.segments, s.ID) {
			x.segments = append(x.segments, s.ID)
		}
	}
	for _, f := range live {
		switch {
		case covers[f.ID]:
			x.fragments = append(x.fragments, f.ID)
		case x.noBitmap:
			x.fragments = append(x.fragments, f.ID)
			x.covered += f.LiveRows()
		default:
			x.uncovered = append(x.uncovered, f)
		}
	}
	x.metric, x.broken = commonMetric(index, alive)
	return x
}

func (x *indexLayout) uncoveredRows() uint64 { return liveRows(x.uncovered) }

func liveRows(fragments []binding.Fragment) uint64 {
	var n uint64
	for _, f := range fragments {
		n += f.LiveRows()
	}
	return n
}

func fragmentIDs(fragments []binding.Fragment) []uint32 {
	ids := make([]uint32, len(fragments))
	for i, f := range fragments {
		ids[i] = f.ID
	}
	return ids
}

// requireCoverage is the policy Require.
func (x *indexLayout) requireCoverage(column string, liveRows uint64) error {
	if len(x.uncovered) == 0 {
		return nil
	}
	return &CoverageError{Index: x.index.Name, Column: column, Fragments: fragmentIDs(x.uncovered), Rows: x.uncoveredRows(), LiveRows: liveRows}
}
