package reports

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

func TestReport11_OrderBeyondOneBatch(t *testing.T) {
	rng := lab.Rand(11)
	updated := lab.Table{Dim: 4}
	for i := range int64(3000) {
		updated.IDs = append(updated.IDs, i*8)
		updated.Vectors = append(updated.Vectors, lab.RandomVector(rng, binding.Float32, 4))
	}
	d := lab.Create(t, lab.Random(rng, binding.Float32, 24_000, 4), lab.Rows(8000))
	unindexed := d.MergeInsert(updated)
	d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}))
	half := d.Describe(0).Version
	hnsw := index("IVF_SQ", oracle.Cosine, []int{0}, []int{1}, []int{2})
	hnsw.Name = "cosine"
	d.Index(hnsw)
	for name, c := range map[string]struct {
		version uint64
		metric  oracle.Metric
	}{"no index": {unindexed, oracle.L2}, "no index, dot": {unindexed, oracle.Dot}, "2 of 3 indexed": {half, oracle.L2}, "3 of 4 indexed, quantised": {0, oracle.Cosine}} {
		t.Run(name, func(t *testing.T) {
			ds, rows := d.Open(c.version), d.Live(c.version)
			for _, k := range []int{9336, 12_000} {
				a := lab.Ask{Metric: c.metric, Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 4)}, K: k, Options: scan, Filter: "id >= 0"}
				a.Options.Threads = 8
				a.Query.RefineFactor = 3
				ranked := a.Ranked(d, rows)
				for range 4 {
					for _, way := range lab.FewWays() {
						got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
						require.NoError(t, err)
						require.NoError(t, oracle.CheckExact(got[0], ranked[0], oracle.Page{K: k}, oracle.Single), "k %d %v", k, way)
					}
				}
			}
		})
	}
}

func TestReport16_Matrices(t *testing.T) {
	queries := [][]float64{{0, 0, 0, 0}, {199, 0, 0, 0}, {75.2, 0, 0, 0}}
	want := map[int][]int64{0: {0, 1, 2, 3, 4}, 1: {199, 198, 197, 196, 195}, 2: {75, 76, 74, 77, 73}}
	for _, kind := range []string{"", "IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			d := lab.Fragments(t, lines(4)...)
			if kind != "" {
				d.Index(index(kind, metric, []int{0}, []int{1}, []int{2}))
			}
			ds, rows := d.Open(0), d.Live(0)
			name := fmt.Sprintf("%s/%s", kind, metric)
			for refine := range 3 {
				if kind == "IVF_SQ" && refine == 0 {
					continue // approximate by design
				}
				t.Run(fmt.Sprintf("%s/refine=%d", name, refine), func(t *testing.T) {
					a := lab.Ask{Metric: metric, Queries: queries, K: 5, Options: scan, Ways: lab.Ways()}
					a.Query.RefineFactor = 10 * refine
					ranked := a.Ranked(d, rows)
					if metric == oracle.L2 {
						for i, ids := range want {
							require.Equal(t, ids, lab.IDs(ranked[i][:5]), "the oracle itself")
						}
					}
					a.Exact(t, d, ds, rows)
					a.Filter, a.Keep = "id % 2 = 0", even
					a.Exact(t, d, ds, rows)
					a.Filter, a.Keep = "id < 60", func(r oracle.Row) bool { return r.ID < 60 } // a unit without a row
					a.Exact(t, d, ds, rows)
				})
			}
			t.Run(name+"/range", func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: queries, K: 5, Options: scan, Lower: lab.Ptr(0.0), Upper: lab.Ptr(2.0)}
				if metric == oracle.L2 {
					for i, n := range []int{2, 2, 3} {
						require.Len(t, a.Ranked(d, rows)[i], n, "the oracle itself")
					}
				}
				a.Query.RefineFactor = 20
				a.Exact(t, d, ds, rows)
			})
			t.Run(name+"/one", func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: queries[2:], K: 5, Options: scan}
				a.Query.RefineFactor = 20
				a.Exact(t, d, ds, rows)
			})
			t.Run(name+"/none", func(t *testing.T) {
				q := lab.Ask{Metric: metric, Queries: queries, K: 5}.Question(t, d)
				q.Vectors = distributed.Float32(nil, 4)
				lab.EachFails(t, ds, q, scan, lab.FewWays(), func(t *testing.T, err error) {
					require.ErrorIs(t, err, binding.ErrInvalidArgument)
				})
			})
			t.Run(name+"/NaN", func(t *testing.T) {
				nan := []float64{lab.NaN, lab.NaN, lab.NaN, lab.NaN}
				alone := lab.Ask{Metric: metric, Queries: [][]float64{nan}, K: 5, Options: scan}
				alone.Fails(t, d, ds, binding.ErrInvalidArgument, "query 0")
				first := lab.Ask{Metric: metric, Queries: [][]float64{nan, queries[0]}, K: 5, Options: scan}
				first.Fails(t, d, ds, binding.ErrInvalidArgument, "query 0")
			})
		}
	}
}

func TestReport20_FilterColumns(t *testing.T) {
	table := lab.Line(0, 8)
	table.Extra = []lab.Extra{
		{Name: "PartyAbbrev", Strings: []string{"D", "R", "R", "D", "D", "R", "R", "D"}},
		{Name: "partyabbrev", Strings: []string{"X", "X", "X", "X", "X", "X", "X", "X"}},
		{Name: "my col", Ints: []int64{0, 1, 0, 1, 0, 1, 0, 1}},
	}
	for _, layout := range []string{"flat", "segments", "half"} {
		d := lab.Create(t, table, lab.Rows(4))
		switch layout {
		case "segments":
			d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}))
		case "half":
			d.Index(index("IVF_FLAT", oracle.L2, []int{0}))
		}
		ds := d.Open(0)
		for filter, ids := range map[string][]int64{
			"PartyAbbrev = 'D'":                  {0, 3, 4, 7},
			"`PartyAbbrev` = 'D'":                {0, 3, 4, 7},
			"partyabbrev = 'X'":                  {0, 1, 2, 3, 4, 5, 6, 7},
			"`my col` = 1":                       {1, 3, 5, 7},
			"`my col` = 1 and PartyAbbrev = 'D'": {3, 7},
		} {
			t.Run(layout+"/"+filter, func(t *testing.T) {
				a := lab.Ask{Queries: origin(4), K: 8, Filter: filter, Keep: only(ids...), Options: scan}
				known(t, a, d, 0, ids, nil)
			})
		}
		// In Lance's SQL double quotes make a text, so this compares two texts; the library answers as the engine does.
		t.Run(layout+"/double quotes", func(t *testing.T) {
			a := lab.Ask{Queries: origin(4), K: 8, Filter: `"PartyAbbrev" = 'D'`, Options: scan}
			a.Same(t, d, ds)
		})
		for _, filter := range []string{"NoSuch = 1", "my col = 1", "id = ", "_distance < 3"} {
			t.Run(layout+"/"+filter, func(t *testing.T) {
				a := lab.Ask{Queries: origin(4), K: 8, Filter: filter, Options: scan}
				lab.EachFails(t, ds, a.Question(t, d), scan, lab.FewWays(), func(t *testing.T, err error) {
					require.True(t, errors.Is(err, binding.ErrInvalidArgument) || errors.Is(err, binding.ErrNotFound), "%v", err)
				})
			})
		}
		t.Run(layout+"/named", func(t *testing.T) {
			a := lab.Ask{Queries: origin(4), K: 8, Filter: "NoSuch = 1", Options: scan}
			a.Fails(t, d, ds, nil, "NoSuch")
		})
	}
}

func TestReport37_Offset(t *testing.T) {
	for _, kind := range []string{"", "IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			d := lab.Fragments(t, lines(4)...)
			if kind != "" {
				d.Index(index(kind, metric, []int{0}, []int{1}))
			}
			ds, rows := d.Open(0), d.Live(0)
			for _, c := range []struct{ k, offset int }{{2, 0}, {2, 2}, {1, 4}, {2, 3}, {5, 0}, {20, 0}, {5, 198}, {5, 200}, {5, 1 << 40}} {
				t.Run(fmt.Sprintf("%s/%s/k=%d/offset=%d", kind, metric, c.k, c.offset), func(t *testing.T) {
					a := lab.Ask{Metric: metric, Queries: [][]float64{{0, 0, 0, 0}, {120.4, 0, 0, 0}}, K: c.k, Offset: c.offset, Options: scan}
					a.Query.RefineFactor = 20
					if metric == oracle.Dot {
						a.Queries = [][]float64{{-1, 0, 0, 0}, {1, 0, 0, 0}}
					}
					a.Exact(t, d, ds, rows)
				})
			}
		}
	}
	// Pages over ties are disjoint and complete as long as the grouping stays.
	t.Run("ties", func(t *testing.T) {
		table := lab.Table{Dim: 4}
		for i := range 200 {
			table.Vectors = append(table.Vectors, []float64{float64(i / 40), 0, 0, 0})
		}
		d := lab.Create(t, table, lab.Rows(50))
		d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}, []int{2}, []int{3}))
		ds := d.Open(0)
		for _, way := range lab.Ways() {
			seen := map[int64]bool{}
			for offset := 0; offset < 200; offset += 15 {
				a := lab.Ask{Queries: origin(4), K: 15, Offset: offset}
				got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
				require.NoError(t, err)
				require.Len(t, got[0], min(15, 200-offset), way)
				for _, h := range got[0] {
					require.False(t, seen[h.ID], "%v: id %d is on two pages", way, h.ID)
					seen[h.ID] = true
				}
			}
			require.Len(t, seen, 200, way)
		}
	})
}

// TestReport39_ResultIsOneRecord: the library has no batch size; a result is one record of any length.
func TestReport39_ResultIsOneRecord(t *testing.T) {
	rng := lab.Rand(39)
	d := lab.Create(t, lab.Random(rng, binding.Float32, 10_000, 4), lab.Rows(2500))
	d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}, []int{2}))
	ds, rows := d.Open(0), d.Live(0)
	for _, columns := range [][]string{{"id"}, {"id", "category", "vec"}} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine} {
			t.Run(fmt.Sprintf("%v/%s", columns, metric), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 4)}, K: 10_000, Options: scan}
				a.Query.Columns = columns
				a.Exact(t, d, ds, rows)
			})
		}
	}
}
