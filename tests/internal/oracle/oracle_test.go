package oracle

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistance_FollowsLance(t *testing.T) {
	for _, c := range []struct {
		metric Metric
		q, v   []float64
		want   float64
	}{
		{L2, []float64{0, 0}, []float64{3, 4}, 25},
		{Cosine, []float64{1, 0}, []float64{0, 2}, 1},
		{Cosine, []float64{1, 0.5}, []float64{3, 0}, 1 - 1/math.Sqrt(1.25)},
		{Dot, []float64{1, 0.5}, []float64{3, 0}, -2},
		{Hamming, []float64{0, 0}, []float64{255, 1}, 9},
	} {
		require.InDelta(t, c.want, Distance(c.metric, c.q, c.v), 1e-12, c.metric)
	}
	require.True(t, math.IsNaN(Distance(Cosine, []float64{0, 0}, []float64{1, 1})))
}

func TestRank_LeavesOutWhatHasNoDistance(t *testing.T) {
	rows := []Row{{ID: 0, RowID: 5, Vector: []float64{1}}, {ID: 1, RowID: 4, Vector: []float64{-1}}, {ID: 2, RowID: 3}, {ID: 3, RowID: 2, Vector: []float64{math.NaN()}}, {ID: 4, RowID: 1, Vector: []float64{math.Inf(1)}}}
	got := Rank(rows, Query{Metric: L2, Vector: []float64{0}})
	require.Equal(t, []Hit{{4, 1, 1}, {5, 0, 1}, {1, 4, math.Inf(1)}}, got)
	lower, upper := 1.0, 2.0
	require.Len(t, Rank(rows, Query{Metric: L2, Vector: []float64{0}, Lower: &lower, Upper: &upper}), 2)
	require.Empty(t, Rank(rows, Query{Metric: L2, Vector: []float64{0}, Upper: &lower}))
}

func TestCheckExact_FindsEachFault(t *testing.T) {
	ranked := []Hit{{1, 1, 0}, {2, 2, 1}, {3, 3, 2}, {4, 4, 2}, {5, 5, 9}}
	require.NoError(t, CheckExact([]Hit{{1, 1, 0}, {2, 2, 1}, {4, 4, 2}}, ranked, Page{K: 3}, Single), "the other member of a tie")
	require.NoError(t, CheckExact(ranked, ranked, Page{K: 10}, Single), "fewer rows than k")
	for name, got := range map[string][]Hit{
		"short":          {{1, 1, 0}, {2, 2, 1}},
		"far":            {{1, 1, 0}, {2, 2, 1}, {5, 5, 9}},
		"nearest absent": {{2, 2, 1}, {3, 3, 2}, {4, 4, 2}},
		"wrong distance": {{1, 1, 0}, {2, 2, 1.5}, {3, 3, 2}},
		"unknown row":    {{1, 1, 0}, {2, 2, 1}, {7, 7, 2}},
		"twice":          {{1, 1, 0}, {1, 1, 0}, {2, 2, 1}},
		"order":          {{2, 2, 1}, {1, 1, 0}, {3, 3, 2}},
		"tie order":      {{1, 1, 0}, {4, 4, 2}, {3, 3, 2}},
		"NaN":            {{1, 1, 0}, {2, 2, math.NaN()}, {3, 3, 2}},
	} {
		require.Error(t, CheckExact(got, ranked, Page{K: 3}, Single), name)
	}
}

func TestCheckSame_FindsEachFault(t *testing.T) {
	want := []Hit{{1, 1, 0}, {2, 2, 1}, {3, 3, 2}}
	require.NoError(t, CheckSame([]Hit{{1, 1, 0}, {2, 2, 1}, {4, 4, 2}}, want, Page{K: 3}, Single), "a tie at the boundary")
	require.Error(t, CheckSame([]Hit{{1, 1, 0}, {2, 2, 1}, {4, 4, 2}}, want, Page{K: 4}, Single), "no boundary below k rows")
	require.Error(t, CheckSame([]Hit{{1, 1, 0}, {9, 9, 1}, {3, 3, 2}}, want, Page{K: 3}, Single))
	require.Error(t, CheckSame([]Hit{{1, 1, 0}, {2, 2, 1}, {3, 3, 3}}, want, Page{K: 3}, Single))
	require.Error(t, CheckSame(want[:2], want, Page{K: 3}, Single))
}

func TestCheck_PagesOverTies(t *testing.T) {
	ranked := []Hit{{1, 1, 0}, {2, 2, 1}, {3, 3, 1}, {4, 4, 2}, {5, 5, 3}}
	page := Page{Offset: 2, K: 2}
	for _, check := range []func(got []Hit) error{
		func(got []Hit) error { return CheckExact(got, ranked, page, Single) },
		func(got []Hit) error { return CheckSame(got, ranked[2:4], page, Single) },
	} {
		require.NoError(t, check([]Hit{{3, 3, 1}, {4, 4, 2}}))
		require.NoError(t, check([]Hit{{2, 2, 1}, {4, 4, 2}}), "the other member of a tie where the page begins")
		require.Error(t, check([]Hit{{1, 1, 0}, {4, 4, 2}}))
		require.Error(t, check([]Hit{{4, 4, 2}, {5, 5, 3}}))
	}
	require.NoError(t, CheckExact(nil, ranked, Page{Offset: 9, K: 2}, Single))
}

func TestRecall_CountsTiesAsFound(t *testing.T) {
	ranked := []Hit{{1, 1, 0}, {2, 2, 1}, {3, 3, 1}, {4, 4, 5}}
	require.InDelta(t, 1, Recall([]Hit{{1, 1, 0}, {3, 3, 1}}, ranked, Page{K: 2}, Single), 0)
	require.InDelta(t, 0.5, Recall([]Hit{{1, 1, 0}, {4, 4, 5}}, ranked, Page{K: 2}, Single), 0)
	require.InDelta(t, 1, Recall(nil, nil, Page{K: 2}, Single), 0)
}

func TestHalf_RoundTrips(t *testing.T) {
	for bits := range 1 << 16 {
		x := HalfFromBits(uint16(bits))
		if math.IsNaN(x) {
			require.True(t, math.IsNaN(HalfFromBits(HalfBits(x))))
			continue
		}
		require.Equal(t, uint16(bits), HalfBits(x), "%v", x)
	}
	require.Equal(t, uint16(0x3c00), HalfBits(1+math.Ldexp(1, -11)), "a tie goes to even")
	require.Equal(t, uint16(0x3c02), HalfBits(1+3*math.Ldexp(1, -11)), "a tie goes to even")
	require.Equal(t, uint16(0x7bff), HalfBits(65519))
	require.Equal(t, uint16(0x4000), HalfBits(1.9999), "rounds into the next power of two")
}
