package topk

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	nan    = float32(math.NaN())
	inf    = float32(math.Inf(1))
	negInf = float32(math.Inf(-1))
)

// sortOracle is the definition of a merge, written without a heap: keep the best of every (query, row id), sort, cut.
func sortOracle(k int, lists ...[]Candidate) []Candidate {
	type key struct {
		query uint32
		rowID uint64
	}
	best := map[key]float32{}
	for _, list := range lists {
		for _, c := range list {
			if math.IsNaN(float64(c.Distance)) {
				continue
			}
			at := key{c.Query, c.RowID}
			if d, ok := best[at]; !ok || c.Distance < d {
				best[at] = c.Distance
			}
		}
	}
	var all []Candidate
	for at, d := range best {
		all = append(all, Candidate{Query: at.query, Distance: d, RowID: at.rowID})
	}
	slices.SortFunc(all, Compare)
	var out []Candidate
	taken := map[uint32]int{}
	for _, c := range all {
		if taken[c.Query] < k {
			taken[c.Query]++
			out = append(out, c)
		}
	}
	return out
}

func TestMerge_Rules(t *testing.T) {
	cases := []struct {
		name  string
		k     int
		lists [][]Candidate
		want  []Candidate
	}{
		{name: "no lists", k: 3},
		{
			name: "empty lists in every position", k: 2,
			lists: [][]Candidate{{}, {{0, 1, 7}}, nil},
			want:  []Candidate{{0, 1, 7}},
		},
		{name: "k of zero", k: 0, lists: [][]Candidate{{{0, 1, 1}}}},
		{name: "negative k", k: -4, lists: [][]Candidate{{{0, 1, 1}}}},
		{
			name: "k beyond every candidate", k: math.MaxInt, lists: [][]Candidate{{{0, 2, 1}}, {{0, 1, 2}}},
			want: []Candidate{{0, 1, 2}, {0, 2, 1}},
		},
		{
			name: "bounded, ties at the boundary go to the lower row id", k: 2,
			lists: [][]Candidate{{{0, 1, 9}, {0, 1, 4}}, {{0, 1, 6}, {0, 1, 1}}},
			want:  []Candidate{{0, 1, 1}, {0, 1, 4}},
		},
		{
			name: "negative distances are nearer", k: 4,
			lists: [][]Candidate{{{0, 0, 2}, {0, 1, 1}}, {{0, -9, 3}, {0, 6, 4}}},
			want:  []Candidate{{0, -9, 3}, {0, 0, 2}, {0, 1, 1}, {0, 6, 4}},
		},
		{
			name: "unsorted lists", k: 3,
			lists: [][]Candidate{{{1, 5, 5}, {0, 3, 1}, {1, 2, 2}, {0, 1, 3}}, {{0, 2, 2}, {1, 9, 9}}},
			want:  []Candidate{{0, 1, 3}, {0, 2, 2}, {0, 3, 1}, {1, 2, 2}, {1, 5, 5}, {1, 9, 9}},
		},
		{
			name: "each query has its own k", k: 2,
			lists: [][]Candidate{{{0, 1, 1}, {0, 2, 2}, {0, 3, 3}, {7, 50, 1}, {7, 60, 2}, {7, 70, 3}}},
			want:  []Candidate{{0, 1, 1}, {0, 2, 2}, {7, 50, 1}, {7, 60, 2}},
		},
		{
			name: "query ids of any size", k: 1,
			lists: [][]Candidate{{{math.MaxUint32, 1, 1}, {0, 1, 1}}},
			want:  []Candidate{{0, 1, 1}, {math.MaxUint32, 1, 1}},
		},
		{
			name: "a row counts once, at its best distance, better one first", k: 3,
			lists: [][]Candidate{{{0, 1, 5}}, {{0, 2, 5}, {0, 3, 6}}},
			want:  []Candidate{{0, 1, 5}, {0, 3, 6}},
		},
		{
			name: "a row counts once, at its best distance, better one last", k: 2,
			lists: [][]Candidate{{{0, 4, 5}, {0, 3, 6}}, {{0, 1, 5}}},
			want:  []Candidate{{0, 1, 5}, {0, 3, 6}},
		},
		{
			name: "a row pushed out comes back with a better distance", k: 1,
			lists: [][]Candidate{{{0, 4, 5}}, {{0, 3, 6}}, {{0, 1, 5}}},
			want:  []Candidate{{0, 1, 5}},
		},
		{
			name: "the same row in other queries is another candidate", k: 1,
			lists: [][]Candidate{{{0, 1, 5}, {1, 1, 5}}},
			want:  []Candidate{{0, 1, 5}, {1, 1, 5}},
		},
		{
			name: "NaN is dropped wherever it stands", k: 2,
			lists: [][]Candidate{{{0, nan, 1}, {0, 2, 2}}, {{0, 1, 3}, {0, nan, 4}}},
			want:  []Candidate{{0, 1, 3}, {0, 2, 2}},
		},
		{name: "nothing but NaN", k: 2, lists: [][]Candidate{{{0, nan, 1}}}},
		{
			name: "placeholders never displace a distance", k: 2,
			lists: [][]Candidate{{{0, inf, 1}, {0, inf, 2}}, {{0, math.MaxFloat32, 8}}, {{0, 3, 9}}},
			want:  []Candidate{{0, 3, 9}, {0, math.MaxFloat32, 8}},
		},
		{
			name: "placeholders fill what is left, by row id", k: 3,
			lists: [][]Candidate{{{0, inf, 2}, {0, inf, 1}}, {{0, 3, 9}}},
			want:  []Candidate{{0, 3, 9}, {0, inf, 1}, {0, inf, 2}},
		},
		{
			name: "a placeholder gives way to the row's own distance", k: 3,
			lists: [][]Candidate{{{0, inf, 2}}, {{0, 3, 2}}},
			want:  []Candidate{{0, 3, 2}},
		},
		{
			name: "-Inf is the nearest", k: 1,
			lists: [][]Candidate{{{0, -math.MaxFloat32, 1}}, {{0, negInf, 2}}},
			want:  []Candidate{{0, negInf, 2}},
		},
		{
			name: "-0 and 0 are one distance", k: 3,
			lists: [][]Candidate{{{0, 0, 1}, {0, float32(math.Copysign(0, -1)), 2}}, {{0, 0, 2}, {0, float32(math.Copysign(0, -1)), 0}}},
			want:  []Candidate{{0, 0, 0}, {0, 0, 1}, {0, 0, 2}},
		},
		{
			name: "extreme row ids", k: 3,
			lists: [][]Candidate{{{0, 1, math.MaxUint64}, {0, 1, 0}}, {{0, 1, math.MaxUint64}, {0, 1, 0}}},
			want:  []Candidate{{0, 1, 0}, {0, 1, math.MaxUint64}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Merge(c.k, c.lists...)
			require.Equal(t, c.want, got)
			for _, g := range got {
				require.False(t, g.Distance == 0 && math.Signbit(float64(g.Distance)), "-0 left in the answer")
			}
			slices.Reverse(c.lists)
			for _, list := range c.lists {
				slices.Reverse(list)
			}
			require.Equal(t, c.want, Merge(c.k, c.lists...), "the answer depends on the order of the lists")
		})
	}
}

func TestMerge_EqualsSortOracleAtEveryK(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, k := range []int{1, 2, scanRows - 1, scanRows, scanRows + 1, 100, 1000, 5000} {
		for round := range 20 {
			lists := make([][]Candidate, rng.IntN(9))
			for i := range lists {
				for range rng.IntN(1200) {
					lists[i] = append(lists[i], Candidate{
						Query:    uint32(rng.IntN(3)),
						Distance: float32(rng.IntN(50)) / 8, // many ties
						RowID:    uint64(rng.IntN(2000)),    // many rows more than once
					})
				}
			}
			require.Equal(t, sortOracle(k, lists...), Merge(k, lists...), "k=%d round=%d", k, round)
		}
	}
}

// Candidates that come from far to near push everything out again and again: the worst case for the set of row ids.
func TestMerge_DescendingDistances(t *testing.T) {
	var list []Candidate
	for i := range 20_000 {
		list = append(list, Candidate{Distance: float32(20_000 - i), RowID: uint64(i % 15_000)})
	}
	require.Equal(t, sortOracle(100, list), Merge(100, list))
}

func TestMerge_LeavesItsArgumentsAlone(t *testing.T) {
	a := []Candidate{{1, 3, 1}, {0, float32(math.Copysign(0, -1)), 2}, {0, nan, 3}}
	before := fmt.Sprint(a)
	Merge(2, a, a)
	require.Equal(t, before, fmt.Sprint(a))
}

func TestMerger_ReusedAfterResetAndAppend(t *testing.T) {
	m := NewMerger(2)
	defer m.Release()
	for round := range 3 {
		for i := range 40 {
			m.Push(Candidate{Query: uint32(i % 2), Distance: float32(40 - i), RowID: uint64(i)})
		}
		require.Equal(t, 4, m.Len())
		got := m.Append([]Candidate{{9, 9, 9}})
		require.Equal(t, []Candidate{{9, 9, 9}, {0, 2, 38}, {0, 4, 36}, {1, 1, 39}, {1, 3, 37}}, got, "round %d", round)
		require.Zero(t, m.Len())
	}
	m.Push(Candidate{Distance: 1, RowID: 1})
	m.Reset(5)
	require.Empty(t, m.Append(nil))
}

func TestMerger_AllocatesNothingWhenWarm(t *testing.T) {
	list := randomLists(1, 64, 100)[0]
	dst := make([]Candidate, 0, len(list))
	m := NewMerger(100)
	run := func() {
		for _, c := range list {
			m.Push(c)
		}
		dst = m.Append(dst[:0])
	}
	run()
	require.Zero(t, testing.AllocsPerRun(20, run))
}

// FuzzMerge reads k, a list count and candidates from the input and compares with the oracle.
func FuzzMerge(f *testing.F) {
	f.Add(uint16(3), uint8(2), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(uint16(1), uint8(1), binary.LittleEndian.AppendUint32([]byte{0, 0}, math.Float32bits(nan)))
	f.Add(uint16(200), uint8(5), make([]byte, 4096))
	f.Fuzz(func(t *testing.T, k uint16, groups uint8, data []byte) {
		lists := make([][]Candidate, int(groups%9)+1)
		const size = 6 // query, row id, distance bits
		for i := 0; len(data) >= size; i++ {
			c := Candidate{
				Query:    uint32(data[0] % 5),
				RowID:    uint64(data[1]),
				Distance: math.Float32frombits(binary.LittleEndian.Uint32(data[2:size])),
			}
			if data[0]&0x80 != 0 {
				c.RowID |= ^uint64(0xff)
			}
			if data[0]&0x40 != 0 { // ties
				c.Distance = float32(data[2]%4) - 1
			}
			lists[i%len(lists)] = append(lists[i%len(lists)], c)
			data = data[size:]
		}
		want := sortOracle(int(k), lists...)
		require.Equal(t, want, Merge(int(k), lists...))
		require.True(t, slices.IsSortedFunc(want, Compare))
	})
}

func TestMerger_Kth(t *testing.T) {
	m := NewMerger(2)
	defer m.Release()
	require.Equal(t, inf, m.Kth(5))
	m.Push(Candidate{5, 3, 1})
	m.Push(Candidate{5, 3, 1})
	m.Push(Candidate{5, nan, 2})
	require.Equal(t, inf, m.Kth(5), "one row, pushed twice")
	m.Push(Candidate{5, 7, 3})
	require.Equal(t, float32(7), m.Kth(5))
	m.Push(Candidate{6, 1, 4})
	m.Push(Candidate{5, 1, 4})
	require.Equal(t, float32(3), m.Kth(5))
	require.Equal(t, inf, m.Kth(6))
	m.Push(Candidate{6, inf, 5})
	require.Equal(t, inf, m.Kth(6))
	m.Reset(2)
	require.Equal(t, inf, m.Kth(5), "of before the reset")
	m.Reset(0)
	require.Equal(t, inf, m.Kth(5))
}

func randomLists(groups, queries, k int) [][]Candidate {
	rng := rand.New(rand.NewPCG(7, 7))
	lists := make([][]Candidate, groups)
	for g := range lists {
		for q := range queries {
			for i := range k {
				lists[g] = append(lists[g], Candidate{Query: uint32(q), Distance: rng.Float32(), RowID: uint64(g*k + i)})
			}
		}
		slices.SortFunc(lists[g], Compare)
	}
	return lists
}

func BenchmarkMerge(b *testing.B) {
	for _, groups := range []int{2, 8, 32} {
		for _, queries := range []int{1, 64} {
			for _, k := range []int{10, 100, 1000} {
				name := fmt.Sprintf("groups=%d/k=%d", groups, k)
				if queries > 1 {
					name += fmt.Sprintf("/queries=%d", queries)
				}
				b.Run(name, func(b *testing.B) {
					lists := randomLists(groups, queries, k)
					b.ReportAllocs()
					for b.Loop() {
						Merge(k, lists...)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(groups*queries*k), "ns/candidate")
				})
			}
		}
	}
}
