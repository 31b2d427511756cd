package main

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExactNeighbors_AgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const dim, rows, queries, k = 3, 400, 9, 10
	data, query := make([]float32, rows*dim), make([]float32, queries*dim)
	for i := range data {
		data[i] = float32(r.IntN(6)) // many ties
	}
	for i := range query {
		query[i] = float32(r.IntN(6))
	}
	got := exactNeighbors(data, query, dim, k, 2)
	for q := range queries {
		all := make([]int, rows)
		for i := range all {
			all[i] = i
		}
		distance := func(i int) float64 {
			return squaredDistance(data[i*dim:(i+1)*dim], query[q*dim:(q+1)*dim])
		}
		sort.SliceStable(all, func(i, j int) bool { return distance(all[i]) < distance(all[j]) })
		require.Equal(t, all[:k], got[q])
	}
	require.Len(t, exactNeighbors(data[:2*dim], query[:dim], dim, k, 1)[0], 2)
}

func TestRecall(t *testing.T) {
	row := func(id uint64) int { return int(id) - 100 }
	truth := [][]int{{1, 2, 3, 4}, {5, 6, 7, 8}}
	found := [][]neighbor{{{rowID: 101}, {rowID: 102}, {rowID: 109}}, {{rowID: 108}, {rowID: 107}, {rowID: 106}, {rowID: 105}}}
	require.InDelta(t, 6.0/8, recall(found, truth, row), 1e-12)
}

func TestSameNeighbors(t *testing.T) {
	a := []neighbor{{1, 0.5}, {2, 1}, {3, 2}}
	require.True(t, sameNeighbors(a, []neighbor{{1, 0.5}, {2, 1}, {3, 2}}))
	require.True(t, sameNeighbors(a, []neighbor{{1, 0.5}, {2, 1.000001}, {3, 2}}), "rounding")
	require.True(t, sameNeighbors(a, []neighbor{{1, 0.5}, {2, 1}, {9, 2}}), "a tie at the last distance")
	require.False(t, sameNeighbors(a, []neighbor{{1, 0.5}, {9, 1}, {3, 2}}), "another row")
	require.False(t, sameNeighbors(a, []neighbor{{1, 0.5}, {2, 1.1}, {3, 2}}), "another distance")
	require.False(t, sameNeighbors(a, a[:2]))
	require.True(t, sameNeighbors(nil, nil))
	inf := float32(math.Inf(1))
	require.True(t, sameNeighbors([]neighbor{{1, inf}}, []neighbor{{1, inf}}))
	require.Equal(t, 1, sameAnswers([][]neighbor{a, a}, [][]neighbor{a, a[:1]}))
}
