package dataset

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// ladder has one query with neighbours 10, 11, 12... at distances 1, 2, 2, 3, 4.
func ladder() *Truth {
	return &Truth{Depth: 5, Matching: 100, ids: []uint64{10, 11, 12, 13, 14}, distances: []float64{1, 2, 2, 3, 4}}
}

func TestJudge_Recall(t *testing.T) {
	cases := map[string]struct {
		k    int
		ids  []uint64
		dist []float64
		want float64
	}{
		"all":                {3, []uint64{10, 11, 12}, []float64{1, 2, 2}, 1},
		"tie at the end":     {2, []uint64{10, 12}, []float64{1, 2}, 1},
		"one missed":         {4, []uint64{10, 11, 12, 14}, []float64{1, 2, 2, 4}, 0.75},
		"a stranger":         {2, []uint64{10, 99}, []float64{1, 2}, 0.5},
		"too few":            {2, []uint64{10}, []float64{1}, 0.5},
		"nothing":            {2, nil, nil, 0},
		"farther than a tie": {2, []uint64{10, 13}, []float64{1, 3}, 0.5},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ladder().Judge(0, c.k, c.ids, c.dist, true)
			require.Empty(t, got.Fault)
			require.InDelta(t, c.want, got.Recall, 1e-12)
		})
	}
}

func TestJudge_Faults(t *testing.T) {
	truth := ladder()
	require.Contains(t, truth.Judge(0, 2, []uint64{10, 11, 12}, []float64{1, 2, 2}, true).Fault, "3 rows for k = 2")
	require.Contains(t, truth.Judge(0, 2, []uint64{10, 10}, []float64{1, 1}, true).Fault, "row 10 twice")
	require.Contains(t, truth.Judge(0, 2, []uint64{11, 10}, []float64{2, 1}, true).Fault, "out of order at 1")
	require.Contains(t, truth.Judge(0, 2, []uint64{10, 11}, []float64{1, math.NaN()}, true).Fault, "out of order at 1")
	require.Contains(t, truth.Judge(0, 2, []uint64{10, 11}, []float64{1.5, 2}, true).Fault, "should be 1")
	require.Empty(t, truth.Judge(0, 2, []uint64{10, 11}, []float64{1.5, 2}, false).Fault, "an index distance may be approximate")
	require.Contains(t, truth.Judge(0, 9, []uint64{10}, []float64{1}, true).Fault, "depth 5")
}

func TestJudge_FewerRowsMatchThanWanted(t *testing.T) {
	truth := ladder()
	truth.Matching = 2
	require.InDelta(t, 1, truth.Judge(0, 5, []uint64{10, 11}, []float64{1, 2}, true).Recall, 1e-12)
	truth.Matching = 0
	got := truth.Judge(0, 5, nil, nil, true)
	require.True(t, math.IsNaN(got.Recall), "a query without neighbours says nothing about recall")
}
