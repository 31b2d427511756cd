package distributed

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func segmentsOver(fragments ...[]uint32) []binding.Segment {
	var out []binding.Segment
	for i, f := range fragments {
		out = append(out, binding.Segment{ID: segmentID(i), Fragments: f})
	}
	return out
}

func rowsOf(rows ...uint64) map[uint32]uint64 {
	out := map[uint32]uint64{}
	for i, n := range rows {
		if n > 0 {
			out[uint32(i)] = n
		}
	}
	return out
}

func TestFormUnits(t *testing.T) {
	for _, c := range []struct {
		name     string
		segments []binding.Segment
		rows     map[uint32]uint64
		want     []unit
	}{
		{"none", nil, rowsOf(5), nil},
		{"apart", segmentsOver([]uint32{1, 0}, []uint32{2}), rowsOf(5, 6, 7), []unit{
			{[]binding.SegmentID{segmentID(0)}, []uint32{0, 1}, 11}, {[]binding.SegmentID{segmentID(1)}, []uint32{2}, 7},
		}},
		{"shared fragment counts once", segmentsOver([]uint32{0, 1}, []uint32{1, 2}), rowsOf(5, 6, 7), []unit{
			{[]binding.SegmentID{segmentID(0), segmentID(1)}, []uint32{0, 1, 2}, 18},
		}},
		{"shared only through a dead fragment", segmentsOver([]uint32{0, 9}, []uint32{1, 9}), rowsOf(5, 6), []unit{
			{[]binding.SegmentID{segmentID(0)}, []uint32{0}, 5}, {[]binding.SegmentID{segmentID(1)}, []uint32{1}, 6},
		}},
		{"a chain, joined by its last", segmentsOver([]uint32{0}, []uint32{3}, []uint32{2}, []uint32{3, 2, 0}), rowsOf(1, 1, 1, 1), []unit{
			{[]binding.SegmentID{segmentID(0), segmentID(1), segmentID(2), segmentID(3)}, []uint32{0, 2, 3}, 3},
		}},
		{"the same segment twice", append(segmentsOver([]uint32{0}), segmentsOver([]uint32{0})...), rowsOf(4), []unit{
			{[]binding.SegmentID{segmentID(0)}, []uint32{0}, 4},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, formUnits(c.segments, c.rows)) })
	}
}

// Components found by following fragments from segment to segment until nothing is added: slow and obvious.
func TestFormUnits_EqualsReachability(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		rows := map[uint32]uint64{}
		for f := range uint32(12) {
			if rng.IntN(5) > 0 {
				rows[f] = uint64(1 + rng.IntN(9))
			}
		}
		segments := make([]binding.Segment, 1+rng.IntN(8))
		for i := range segments {
			segments[i] = binding.Segment{ID: segmentID(i)}
			for range 1 + rng.IntN(3) {
				segments[i].Fragments = append(segments[i].Fragments, uint32(rng.IntN(12)))
			}
		}
		units := formUnits(segments, rows)
		of := map[binding.SegmentID]int{}
		for u, x := range units {
			for _, id := range x.segments {
				_, twice := of[id]
				require.False(t, twice)
				of[id] = u
			}
		}
		for i := range segments {
			reached := map[int]bool{i: true}
			for grown := true; grown; {
				grown = false
				for a := range segments {
					for b := range segments {
						if reached[a] && !reached[b] && slices.ContainsFunc(segments[a].Fragments, func(f uint32) bool {
							return rows[f] > 0 && slices.Contains(segments[b].Fragments, f)
						}) {
							reached[b], grown = true, true
						}
					}
				}
			}
			for j := range segments {
				require.Equal(t, reached[j], of[segments[i].ID] == of[segments[j].ID], "segments %d and %d", i, j)
			}
		}
	}
}

func TestOverlappingSegmentsAreOneUnit(t *testing.T) {
	tab := line(10, 10, 10).index("x", []uint32{0, 1}, []uint32{1}, []uint32{2})
	p := tab.plan(t, Query{Column: "vec", Vectors: at(0), K: 30}, Options{Strategy: Segments, Threads: 8})
	require.Len(t, p.Tasks(), 2)
	require.Equal(t, []binding.SegmentID{segmentID(0), segmentID(1)}, p.Tasks()[0].Segments)
	require.Equal(t, uint64(20), p.Tasks()[0].Rows)
	require.Contains(t, p.Explain(), "2, of 10 to 20 live rows, from 3 segments: those whose live fragments overlap share a unit")

	r, err := p.Execute(t.Context())
	require.NoError(t, err)
	defer r.Release()
	require.Equal(t, tab.bruteForce(binding.L2, []float64{0, 0, 0, 0}, nil), r.Neighbors(0))
}

func TestSegmentsWithoutLiveRowsAreDropped(t *testing.T) {
	tab := line(10, 10, 10).index("x", []uint32{0}, []uint32{1}, []uint32{2, 77}, []uint32{99}).delete(1)
	every(t, func(t *testing.T, o Options) {
		p := tab.plan(t, Query{Column: "vec", Vectors: at(12), K: 3}, o)
		var searched []binding.SegmentID
		for _, task := range p.Tasks() {
			searched = append(searched, task.Segments...)
			require.NotContains(t, task.Fragments, uint32(1))
			require.NotContains(t, task.Fragments, uint32(77))
		}
		require.ElementsMatch(t, []binding.SegmentID{segmentID(0), segmentID(2)}, searched)
		require.Contains(t, p.Explain(), "2 segments without live rows dropped")
		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, []Neighbor{{tab.rows[9].id, 9}, {tab.rows[8].id, 16}, {tab.rows[7].id, 25}}, r.Neighbors(0))
	})
}

func TestMissingBitmapMakesThePlanMonolithic(t *testing.T) {
	tab := line(10, 10, 10).index("x", []uint32{0}, nil, []uint32{2})
	tab.description.Indexes[0].Segments[1].NoBitmap = true
	every(t, func(t *testing.T, o Options) {
		p := tab.plan(t, Query{Column: "vec", Vectors: at(12), K: 3}, o)
		require.Len(t, p.Tasks(), 1)
		task := p.Tasks()[0]
		require.Equal(t, ScanTask, task.Kind)
		require.Empty(t, task.Segments)
		require.Equal(t, []uint32{0, 1, 2}, task.Fragments)
		request := task.request()
		require.Nil(t, request.Segments)
		require.Nil(t, request.Fragments)
		require.Contains(t, p.Explain(), "a segment does not say which fragments it covers")
		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, tab.ids(12, 11, 13), rowIDs(r.Neighbors(0)))
		require.Equal(t, uint64(30), r.Stats.CoveredRows)
	})

	// Lance would choose the first index on the column by itself, so with two of them the segments are named.
	tab.index("y", []uint32{0}, []uint32{1}, []uint32{2}).reopened()
	p := tab.plan(t, Query{Column: "vec", Vectors: at(12), K: 3}, Options{IndexName: "x"})
	require.Len(t, p.Tasks(), 1)
	require.Equal(t, []binding.SegmentID{segmentID(0), segmentID(1), segmentID(2)}, p.Tasks()[0].request().Segments)
	require.Nil(t, p.Tasks()[0].request().Fragments, "lance drops a segment without bitmap from a search of given fragments")
}

func TestMonolithicDatasetIsOneScan(t *testing.T) {
	tab := line(10, 10, 10).index("x", []uint32{0}, []uint32{1})
	tab.description.Monolithic = []string{"rows were moved"}
	every(t, func(t *testing.T, o Options) {
		require.ErrorIs(t, tab.planError(t, Query{Column: "vec", Vectors: at(25), K: 2}, o), ErrCoverage)

		o.Unindexed = Scan
		p := tab.plan(t, Query{Column: "vec", Vectors: at(25), K: 2}, o)
		require.Len(t, p.Tasks(), 1)
		require.Nil(t, p.Tasks()[0].request().Segments)
		require.Contains(t, p.Explain(), "rows were moved")
		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		require.Equal(t, tab.ids(25, 24), rowIDs(r.Neighbors(0)))

		o.Unindexed = Skip
		p = tab.plan(t, Query{Column: "vec", Vectors: at(25), K: 2}, o)
		require.Len(t, p.Tasks(), 1)
		require.Len(t, p.Tasks()[0].request().Segments, 2, "an unrestricted scan would search the rest as well")
		r2, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r2.Release()
		require.Equal(t, tab.ids(19, 18), rowIDs(r2.Neighbors(0)))
	})
}
