package distributed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStrategy_Shapes(t *testing.T) {
	for _, c := range []struct {
		name     string
		d        demand
		asked    Strategy
		strategy Strategy
		groups   int
		flats    int
		scan     bool
		blocks   int
	}{
		{"single", demand{queries: 64, units: 8, workers: 4}, Single, Single, 1, 0, false, 1},
		{"single with rows outside", demand{queries: 64, units: 8, flat: 2, workers: 4}, Single, Single, 0, 0, true, 1},
		{"single, flat", demand{queries: 64, flat: 9, workers: 4}, Single, Single, 0, 1, false, 1},
		{"segments", demand{queries: 1, units: 8, workers: 4}, Segments, Segments, 4, 0, false, 1},
		{"segments, few units", demand{queries: 1, units: 3, workers: 4}, Segments, Segments, 3, 0, false, 1},
		{"segments, more tasks than workers", demand{queries: 1, units: 8, workers: 2, maxTasks: 6}, Segments, Segments, 6, 0, false, 1},
		{"segments with rows outside", demand{queries: 1, units: 8, flat: 5, workers: 4}, Segments, Segments, 2, 2, false, 1},
		{"segments with few rows outside", demand{queries: 1, units: 8, flat: 1, workers: 4}, Segments, Segments, 3, 1, false, 1},
		{"segments in one task", demand{queries: 1, units: 8, flat: 5, workers: 4, maxTasks: 1}, Segments, Segments, 0, 0, true, 1},
		{"queries", demand{queries: 64, units: 8, workers: 4}, Queries, Queries, 1, 0, false, 4},
		{"queries, fewer than workers", demand{queries: 3, units: 8, workers: 4}, Queries, Queries, 1, 0, false, 3},
		{"queries with rows outside", demand{queries: 3, units: 8, flat: 2, workers: 4}, Queries, Queries, 0, 0, true, 3},
		{"grid", demand{queries: 64, units: 8, workers: 4}, Grid, Grid, 4, 0, false, 4},
		{"grid, bounded", demand{queries: 64, units: 8, workers: 4, maxTasks: 6}, Grid, Grid, 3, 0, false, 2},
		{"grid of one task", demand{queries: 64, units: 8, flat: 3, workers: 4, maxTasks: 1}, Grid, Grid, 0, 0, true, 1},
		{"whole: segments become single", demand{queries: 64, units: 8, workers: 4, whole: "why"}, Segments, Single, 0, 0, true, 1},
		{"whole: grid becomes queries", demand{queries: 64, units: 8, workers: 4, whole: "why"}, Grid, Queries, 0, 0, true, 4},

		{"auto: whole", demand{queries: 64, units: 8, workers: 4, local: true, whole: "why"}, Auto, Single, 0, 0, true, 1},
		{"auto: one worker", demand{queries: 64, units: 8, workers: 1, local: true}, Auto, Single, 1, 0, false, 1},
		{"auto: one task", demand{queries: 64, units: 8, flat: 2, workers: 9, maxTasks: 1, local: true}, Auto, Single, 0, 0, true, 1},
		{"auto: direct", demand{queries: 64, units: 8, workers: 4, local: true, direct: true}, Auto, Single, 1, 0, false, 1},
		{"auto: direct with rows outside", demand{queries: 1, units: 8, flat: 9, workers: 4, local: true, direct: true}, Auto, Segments, 1, 3, false, 1},
		{"auto: flat", demand{queries: 64, flat: 9, workers: 4, local: true}, Auto, Segments, 0, 4, false, 1},
		{"auto: scanner, one query", demand{queries: 1, units: 8, workers: 4, local: true}, Auto, Segments, 4, 0, false, 1},
		{"auto: scanner, one unit", demand{queries: 1, units: 1, workers: 4, local: true}, Auto, Segments, 1, 0, false, 1},
		{"auto: scanner, matrix", demand{queries: 64, units: 8, workers: 4, local: true}, Auto, Queries, 1, 0, false, 4},
		{"auto: scanner, few queries and units", demand{queries: 3, units: 2, workers: 4, local: true}, Auto, Grid, 2, 0, false, 3},
		{"auto: remote matrix", demand{queries: 64, units: 8, workers: 4}, Auto, Segments, 4, 0, false, 1},
		{"auto: remote, few units", demand{queries: 64, units: 2, workers: 4}, Auto, Grid, 2, 0, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.d.split(c.asked)
			require.Equal(t, c.strategy, s.strategy)
			require.Equal(t, []int{c.groups, c.flats, c.blocks}, []int{s.groups, s.flats, s.blocks})
			require.Equal(t, c.scan, s.scan)
			require.NotEmpty(t, s.reasons)
		})
	}
}

func TestStrategy_NeverMoreTasksThanAllowed(t *testing.T) {
	for _, asked := range []Strategy{Auto, Single, Segments, Queries, Grid} {
		for _, queries := range []int{1, 2, 5, 64} {
			for _, units := range []int{0, 1, 3, 32} {
				for _, flat := range []int{0, 1, 7} {
					for _, maxTasks := range []int{0, 1, 2, 3, 10} {
						for _, workers := range []int{1, 2, 8} {
							for _, direct := range []bool{false, true} {
								if units+flat == 0 {
									continue
								}
								d := demand{queries: queries, units: units, flat: flat, maxTasks: maxTasks, workers: workers, direct: direct, local: true}
								s := d.split(asked)
								most := maxTasks
								if most == 0 {
									most = workers
									if asked == Grid || asked == Auto {
										most *= gridTasksPerWorker
									}
								}
								require.LessOrEqual(t, s.parts()*s.blocks, max(1, most), "%+v %s: %+v", d, asked, s)
								require.LessOrEqual(t, s.groups, units)
								require.LessOrEqual(t, s.flats, flat)
								require.LessOrEqual(t, s.blocks, queries)
								require.Equal(t, units > 0, s.scan || s.groups > 0, "%+v %s: %+v", d, asked, s)
								require.Equal(t, flat > 0, s.scan && flat > 0 || s.flats > 0, "%+v %s: %+v", d, asked, s)
							}
						}
					}
				}
			}
		}
	}
}

func TestAuto_AsksForThePathOnceAndOnlyWhereItMatters(t *testing.T) {
	tab := fourSegments()
	tab.direct = true
	o := Options{Threads: 4}
	for range 3 {
		p := tab.plan(t, oneQuery, o)
		require.Len(t, p.Tasks(), 1)
		require.Equal(t, Single, p.shape.strategy)
		require.Contains(t, p.Explain(), "path:     direct")
	}
	require.Equal(t, 1, tab.eligibilities)
	q := oneQuery
	q.Filter = "category = 1"
	tab.plan(t, q, o)
	require.Equal(t, 2, tab.eligibilities, "another filter is another question")
	for _, asked := range []Options{{Strategy: Single, Threads: 4}, {Strategy: Segments, Threads: 4}, {MaxTasks: 1, Threads: 4}, {Threads: 1}} {
		tab.plan(t, oneQuery, asked)
	}
	require.Equal(t, 2, tab.eligibilities)

	tab = fourSegments()
	p := tab.plan(t, oneQuery, o)
	require.Len(t, p.Tasks(), 4)
	require.Contains(t, p.Explain(), "path:     scanner: the fake says no")
}

func TestEligibility_IsRememberedWithinBounds(t *testing.T) {
	tab := fourSegments()
	for k := 1; k <= 40; k++ {
		for offset := range 10 {
			tab.plan(t, Query{Column: "vec", Vectors: at(0), K: k, Offset: offset, NProbes: 1 + offset}, Options{Threads: 2})
		}
	}
	d, err := tab.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, len(catalogOf(d).eligibility), remembered)
}

func TestStrategyNames(t *testing.T) {
	for s := Auto; s <= Grid; s++ {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var back Strategy
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, s, back)
	}
	for u := Require; u <= Skip; u++ {
		back, err := ParseUnindexed(u.String())
		require.NoError(t, err)
		require.Equal(t, u, back)
	}
	_, err := ParseStrategy("fastest")
	require.ErrorContains(t, err, `unknown strategy "fastest"; use auto, single, segments, queries, grid`)
	require.Equal(t, "strategy(77)", Strategy(77).String())
}
