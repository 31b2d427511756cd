package distributed

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func loads(weights []uint64, groups [][]int) []uint64 {
	out := make([]uint64, len(groups))
	for g, group := range groups {
		for _, i := range group {
			out[g] += weights[i]
		}
	}
	return out
}

func TestBalance_LargestFirstIntoTheLightest(t *testing.T) {
	// One large and many small: round robin in any order of arrival would put 1003 or more into one group.
	weights := []uint64{1000, 1, 1, 1, 1, 1, 1, 1, 500, 500}
	groups := balance(weights, 2)
	require.Equal(t, []uint64{1004, 1003}, loads(weights, groups))

	// The textbook case: largest first gives 11 and 11 for 22; round robin gives 13 and 9.
	weights = []uint64{5, 3, 4, 3, 4, 3}
	require.Equal(t, []uint64{11, 11}, loads(weights, balance(weights, 2)))
}

func TestBalance_Deterministic(t *testing.T) {
	weights := []uint64{3, 3, 3, 3, 3, 3}
	require.Equal(t, [][]int{{0, 3}, {1, 4}, {2, 5}}, balance(weights, 3))
}

func TestBalance_EdgeCases(t *testing.T) {
	require.Equal(t, [][]int{{0}}, balance([]uint64{9}, 5))
	require.Equal(t, [][]int{{0, 1, 2}}, balance([]uint64{1, 2, 3}, 0))
	require.Equal(t, [][]int{{0}, {1}, {2}}, balance([]uint64{0, 0, 0}, 3), "items without weight still fill every group")
}

func TestBalance_BoundHoldsForRandomWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		weights := make([]uint64, 1+rng.IntN(40))
		var total, largest uint64
		for i := range weights {
			weights[i] = 1 + uint64(rng.ExpFloat64()*1000)
			total += weights[i]
			largest = max(largest, weights[i])
		}
		n := 1 + rng.IntN(12)
		groups := balance(weights, n)
		var seen []int
		for _, g := range groups {
			require.NotEmpty(t, g)
			seen = append(seen, g...)
		}
		slices.Sort(seen)
		for i, item := range seen {
			require.Equal(t, i, item)
		}
		require.Len(t, seen, len(weights))
		load := loads(weights, groups)
		require.True(t, slices.IsSortedFunc(load, func(a, b uint64) int { return int(int64(b) - int64(a)) }), "heaviest first: %v", load)
		m := uint64(len(groups))
		require.LessOrEqual(t, load[0]*m, total+largest*(m-1), "heaviest group above the bound of greedy balancing")
	}
}

func TestBlocks(t *testing.T) {
	require.Equal(t, []int{0, 3, 6, 8}, blocks(8, 3))
	require.Equal(t, []int{0, 1}, blocks(1, 7))
	require.Equal(t, []int{0, 5}, blocks(5, 0))
	for n := 1; n < 50; n++ {
		for m := 1; m < 20; m++ {
			b := blocks(n, m)
			require.Len(t, b, min(n, m)+1)
			require.Equal(t, n, b[len(b)-1])
			for i := 1; i < len(b); i++ {
				size := b[i] - b[i-1]
				require.True(t, size == n/min(n, m) || size == n/min(n, m)+1, "%v", b)
			}
		}
	}
}
