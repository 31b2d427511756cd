package distributed

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// FuzzPlan makes a dataset, an index and a search from the input and checks what holds for every plan: each live segment is searched exactly once for
// each query, and so is each live fragment; overlapping segments stay together; the groups are balanced; and the answer is that of brute force.
func FuzzPlan(f *testing.F) {
	f.Add([]byte{9, 3, 0, 4, 1, 7}, []byte{0, 1, 2, 1, 3, 255}, uint8(1), uint8(2), uint8(3), uint8(1))
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1}, []byte{0, 0, 1, 2, 2, 3, 4, 5, 6, 7}, uint8(4), uint8(0), uint8(200), uint8(2))
	f.Add([]byte{20}, []byte{}, uint8(0), uint8(1), uint8(1), uint8(0))
	f.Fuzz(func(t *testing.T, sizes, cover []byte, strategy, maxTasks, queries, policy uint8) {
		if len(sizes) == 0 || len(sizes) > 40 || len(cover) > 80 {
			t.Skip()
		}
		var rows []int
		for _, n := range sizes {
			rows = append(rows, int(n%32))
		}
		tab := line(rows...)
		tab.column.Dim = 4
		// Two bytes of cover add a fragment, perhaps a dead one, to a segment.
		segments := make([][]uint32, 6)
		for i := 0; i+1 < len(cover); i += 2 {
			s := int(cover[i]) % len(segments)
			segments[s] = append(segments[s], uint32(cover[i+1])%uint32(len(sizes)+2))
		}
		if len(cover) > 1 {
			tab.index("x", segments...).quantised()
		}
		n := int(queries%20) + 1
		var x []float32
		for i := range n {
			x = append(x, float32(i*7))
		}
		o := Options{Strategy: Strategy(strategy % 5), MaxTasks: int(maxTasks % 12), Threads: 3, Unindexed: []Unindexed{Scan, Skip}[policy%2]}
		p, err := newPlan(t.Context(), tab, Query{Column: "vec", Vectors: at(x...), K: 3, RefineFactor: 1000}, o)
		require.NoError(t, err)
		checkCover(t, tab, p, n, o)

		r, err := p.Execute(t.Context())
		require.NoError(t, err)
		defer r.Release()
		searched := map[uint32]bool{}
		for _, task := range p.Tasks() {
			for _, f := range task.Fragments {
				searched[f] = true
			}
		}
		for q := range n {
			want := tab.bruteForce(binding.L2, []float64{float64(x[q]), 0, 0, 0}, func(w row) bool { return searched[w.fragment] })
			require.True(t, slices.Equal(want[:min(3, len(want))], r.Neighbors(q)))
		}
	})
}

func checkCover(t *testing.T, tab *table, p *Plan, queries int, o Options) {
	t.Helper()
	live, indexed := map[uint32]bool{}, map[uint32]bool{}
	for _, w := range tab.rows {
		live[w.fragment] = true
	}
	liveSegments := map[binding.SegmentID]bool{}
	for _, x := range tab.description.Indexes {
		for _, s := range x.Segments {
			for _, f := range s.Fragments {
				if live[f] {
					indexed[f], liveSegments[s.ID] = true, true
				}
			}
		}
	}
	for q := range queries {
		segments, fragments := map[binding.SegmentID]int{}, map[uint32]int{}
		unitOf := map[uint32]int{}
		var weights []uint64
		for _, task := range p.Tasks() {
			if q < task.FirstQuery || q >= task.FirstQuery+task.Vectors.Queries {
				continue
			}
			require.True(t, slices.IsSorted(task.Fragments))
			for _, id := range task.Segments {
				segments[id]++
				for _, f := range tab.segment(id).Fragments {
					if live[f] {
						if owner, taken := unitOf[f]; taken {
							require.Equal(t, owner, task.ID, "segments of one unit in two tasks")
						}
						unitOf[f] = task.ID
					}
				}
			}
			var rows uint64
			for _, f := range task.Fragments {
				fragments[f]++
				rows += tab.description.Fragments[f].LiveRows()
			}
			require.Equal(t, rows, task.Rows)
			if task.Kind == IndexTask {
				weights = append(weights, rows)
			}
		}
		for id := range liveSegments {
			require.Equal(t, 1, segments[id], "query %d, segment %s", q, id)
		}
		require.Len(t, segments, len(liveSegments))
		skipAll := o.Unindexed == Skip
		for f := range live {
			want := 1
			if skipAll && !indexed[f] {
				want = 0
			}
			require.Equal(t, want, fragments[f], "query %d, fragment %d", q, f)
		}
		for f := range fragments {
			require.True(t, live[f])
		}
		if x := p.choice.layout; x != nil && len(weights) > 1 {
			var total, largest uint64
			for _, u := range x.units {
				total += u.rows
				largest = max(largest, u.rows)
			}
			m := uint64(len(weights))
			require.LessOrEqual(t, slices.Max(weights)*m, total+largest*(m-1), "groups are out of balance: %v", weights)
		}
	}
}
