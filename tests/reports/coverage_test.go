package reports

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/topk"
)

func origin(n int) [][]float64 { return [][]float64{make([]float64, n)} }

func even(r oracle.Row) bool { return r.ID%2 == 0 }

// lines is a fragment of 50 rows on a line for each of n.
func lines(n int64) []lab.Table {
	var tables []lab.Table
	for i := range n {
		tables = append(tables, lab.Line(50*i, 50*i+50))
	}
	return tables
}

func TestReport02_FilterBeforeNeighbours(t *testing.T) {
	var tables []lab.Table
	for i := range int64(4) {
		table := lab.Table{Dim: 4}
		for id := 64 * i; id < 64*i+64; id++ {
			x := float64(id)
			table.IDs = append(table.IDs, id)
			table.Vectors = append(table.Vectors, []float64{x, x, x, x})
		}
		tables = append(tables, table)
	}
	layouts := map[string][][]int{"none": nil, "all": {{0}, {1}, {2}, {3}}, "half": {{0}, {1}}, "apart": {{0, 2}}}
	for _, scalar := range []string{"", "BTREE"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_PQ"} {
				for name, groups := range layouts {
					t.Run(fmt.Sprintf("%s/%s/%s/scalar=%s", metric, kind, name, scalar), func(t *testing.T) {
						d := lab.Fragments(t, tables...)
						if groups != nil {
							d.Index(index(kind, metric, groups...))
						}
						if scalar != "" {
							d.Do("scalar_index", map[string]any{"column": "id", "type": scalar})
						}
						a := lab.Ask{Metric: metric, Queries: origin(4), K: 5, Filter: "id % 2 = 0", Keep: even, Options: scan}
						a.Query.RefineFactor = 52 // all rows: the quantised kinds too must be exact
						if scalar != "" {
							a.Filter, a.Keep = "id >= 64 and id < 200", func(r oracle.Row) bool { return r.ID >= 64 && r.ID < 200 }
						}
						if metric == oracle.Dot {
							a.Queries = [][]float64{{1, 0, 0, 0}}
						} else if scalar == "" {
							known(t, a, d, 0, []int64{0, 2, 4, 6, 8}, nil)
						}
						a.Exact(t, d, d.Open(0), d.Live(0))
					})
				}
			}
		}
	}
}

func TestReport06_Duplicates(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ"} {
		d := lab.Fragments(t, lines(4)...)
		d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}))
		ds := d.Open(0)
		t.Run(kind+"/search", func(t *testing.T) {
			a := lab.Ask{Queries: origin(4), K: 10, Options: scan, Ways: lab.Ways()}
			a.Query.RefineFactor = 20
			known(t, a, d, 0, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil)
			a.Queries, a.K = [][]float64{{100, 0, 0, 0}, {199, 0, 0, 0}}, 200
			a.Exact(t, d, ds, d.Live(0))
		})
		t.Run(kind+"/same unit twice", func(t *testing.T) {
			description, err := ds.Describe(t.Context())
			require.NoError(t, err)
			segments := description.Indexes[0].Segments
			request := binding.SearchRequest{Column: "vec", K: 10, Vectors: vectors(d, origin(4)...)}
			var lists [][]topk.Candidate
			for _, chosen := range [][]binding.SegmentID{{segments[0].ID}, {segments[0].ID, segments[0].ID}, {segments[1].ID, segments[0].ID}} {
				for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
					request.Segments, request.Path = chosen, path
					found, err := ds.Search(t.Context(), request)
					require.NoError(t, err)
					distinct(t, found.RowID)
					lists = append(lists, candidates(found))
				}
			}
			flat := binding.SearchRequest{Column: "vec", K: 10, Vectors: request.Vectors, NoIndex: true, Fragments: []uint32{0}}
			found, err := ds.Search(t.Context(), flat) // covered by a segment too
			require.NoError(t, err)
			lists = append(lists, candidates(found))
			merged := topk.Merge(10, lists...)
			require.Len(t, merged, 10)
			var rowIDs []uint64
			for _, c := range merged {
				rowIDs = append(rowIDs, c.RowID)
			}
			distinct(t, rowIDs)
			if kind != "IVF_SQ" {
				require.Equal(t, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, rowIDs)
			}
		})
	}
}

func candidates(found *binding.Candidates) []topk.Candidate {
	out := make([]topk.Candidate, len(found.RowID))
	for i := range out {
		out[i] = topk.Candidate{Query: found.Query[i], Distance: found.Distance[i], RowID: found.RowID[i]}
	}
	return out
}

func distinct(t *testing.T, rowIDs []uint64) {
	t.Helper()
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(rowIDs))), len(rowIDs), "row ids %v", rowIDs)
}

func TestReport07_TiesAreStable(t *testing.T) {
	same := func(from int64) lab.Table {
		table := lab.Table{Dim: 4}
		for i := range int64(20) {
			table.IDs = append(table.IDs, from+i)
			table.Vectors = append(table.Vectors, []float64{1, 1, 1, 1})
		}
		return table
	}
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ", ""} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			d := lab.Fragments(t, same(0), same(20), same(40), same(60))
			if kind != "" {
				d.Index(index(kind, metric, []int{0}, []int{1, 2}))
			}
			ds, rows := d.Open(0), d.Live(0)
			for _, threads := range []int{1, 2, 8} {
				t.Run(fmt.Sprintf("%s/%s/threads=%d", kind, metric, threads), func(t *testing.T) {
					a := lab.Ask{Metric: metric, Queries: [][]float64{{1, 1, 1, 1}, {1, 1, 1, 1}}, K: 25, Options: scan}
					a.Options.Threads = threads
					a.Exact(t, d, ds, rows)
					for _, way := range lab.FewWays() {
						first, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
						require.NoError(t, err)
						if kind == "" || way.Strategy == distributed.Single && kind == "IVF_FLAT" {
							require.Equal(t, int64(24), lab.IDs(first[0])[24], "Lance orders ties by row id: %v", first[0])
						}
						for range 25 {
							again, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
							require.NoError(t, err)
							require.Equal(t, first, again, way)
						}
					}
				})
			}
		}
	}
}

func TestReport17_Fragments(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", ""} {
		for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
			d := lab.Fragments(t, lines(5)...)
			if kind != "" {
				d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}))
			}
			ds := d.Open(0)
			rowIDs := map[uint64]int64{}
			for _, r := range d.Live(0) {
				rowIDs[r.RowID] = r.ID
			}
			search := func(t *testing.T, filter string, fragments ...uint32) []topk.Candidate {
				found, err := ds.Search(t.Context(), binding.SearchRequest{Column: "vec", K: 3, Vectors: vectors(d, origin(4)...), Fragments: fragments, Filter: filter, Path: path})
				require.NoError(t, err)
				return candidates(found)
			}
			for _, c := range []struct {
				fragments []uint32
				first     int64
			}{{[]uint32{3, 4}, 150}, {[]uint32{2, 3}, 100}, {[]uint32{0}, 0}, {[]uint32{4}, 200}, {[]uint32{1, 2}, 50}} {
				t.Run(fmt.Sprintf("%s/%v/%v", kind, path, c.fragments), func(t *testing.T) {
					for _, filter := range []string{"", "id >= 0"} {
						var got []int64
						for _, n := range search(t, filter, c.fragments...) {
							got = append(got, rowIDs[n.RowID])
						}
						require.Equal(t, []int64{c.first, c.first + 1, c.first + 2}, got, "filter %q", filter)
					}
				})
			}
			t.Run(fmt.Sprintf("%s/%v/partitions", kind, path), func(t *testing.T) {
				whole := search(t, "")
				for _, partition := range [][][]uint32{{{0}, {1}, {2}, {3}, {4}}, {{0, 3}, {1, 2, 4}}, {{4, 0}, {2}, {1, 3}}} {
					var lists [][]topk.Candidate
					for _, part := range partition {
						lists = append(lists, search(t, "", part...))
					}
					require.Equal(t, whole, topk.Merge(3, lists...), partition)
				}
			})
		}
	}
}

func TestReport18_UnindexedRows(t *testing.T) {
	t.Run("no index", func(t *testing.T) {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine} {
			d := lab.Fragments(t, lines(2)...)
			ds, rows := d.Open(0), d.Live(0)
			a := lab.Ask{Metric: metric, Queries: [][]float64{{0.25, 1, 0, 0}, {20, 3, 0, 0}}, K: 3}
			a.Options = scan
			a.Exact(t, d, ds, rows)
			a.Options = skip
			for _, way := range lab.FewWays() { // nothing is indexed: nothing is found, and the result says so
				got, stats, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
				require.NoError(t, err, way)
				require.Equal(t, lab.Answers{nil, nil}, got, way)
				covered(t, stats, 0, 100)
			}
		}
	})
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Fragments(t, lines(2)...)
			d.Index(index(kind, oracle.L2, []int{1}))
			ds, rows := d.Open(0), d.Live(0)
			a := lab.Ask{Queries: [][]float64{{0, 0, 0, 0}, {70, 0, 0, 0}}, K: 3}
			a.Query.RefineFactor = 20

			a.Options = skip
			known(t, lab.Ask{Queries: origin(4), K: 3, Keep: func(r oracle.Row) bool { return r.ID >= 50 }, Options: skip, Query: a.Query}, d, 0, []int64{50, 51, 52}, nil)
			b := a
			b.Keep = func(r oracle.Row) bool { return r.ID >= 50 }
			b.Exact(t, d, ds, rows)
			_, stats, err := lab.Search(ds, a.Question(t, d), a.Options)
			require.NoError(t, err)
			covered(t, stats, 50, 100)

			a.Options = scan
			a.Exact(t, d, ds, rows)
			_, stats, err = lab.Search(ds, a.Question(t, d), a.Options)
			require.NoError(t, err)
			covered(t, stats, 100, 100)

			a.Options = distributed.Options{}
			lab.EachFails(t, ds, a.Question(t, d), a.Options, lab.FewWays(), func(t *testing.T, err error) {
				var coverage *distributed.CoverageError
				require.ErrorAs(t, err, &coverage)
				require.ErrorContains(t, err, "vectors")
				require.ErrorContains(t, err, "50")
			})
		})
	}
}

func TestReport28_EmptySegments(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Fragments(t, lines(3)...)
			d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}))
			before := d.Open(0)
			a := lab.Ask{Queries: origin(4), K: 3}
			a.Query.RefineFactor = 20
			plan, err := distributed.NewPlan(t.Context(), before, a.Question(t, d), distributed.Options{Strategy: distributed.Segments})
			require.NoError(t, err)

			d.Delete("id < 50")
			known(t, a, d, 0, []int64{50, 51, 52}, nil)
			require.NotContains(t, scheduled(t, a, d, d.Open(0)), uint32(0), "a segment without a live row has no task")

			// The plan made before keeps its version.
			result, err := plan.Execute(t.Context())
			require.NoError(t, err)
			require.Equal(t, []uint64{0, 1, 2}, rowIDs(result))
			result.Release()

			d.Do("update", map[string]any{"set": map[string]string{"category": "category + 1"}, "where": "id >= 50 and id < 100"})
			a.Options = scan
			known(t, a, d, 0, []int64{50, 51, 52}, nil)
			a.Options = skip
			a.Keep = func(r oracle.Row) bool { return r.ID >= 100 }
			known(t, a, d, 0, []int64{100, 101, 102}, nil)
			lab.EachFails(t, d.Open(0), a.Question(t, d), distributed.Options{}, lab.FewWays(), func(t *testing.T, err error) {
				var coverage *distributed.CoverageError
				require.ErrorAs(t, err, &coverage)
			})
		})
	}
}

func TestReport29_UnitsShorterThanK(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ", "IVF_PQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			d := lab.Fragments(t, lines(4)...)
			d.Index(index(kind, metric, []int{0}, []int{1}))
			ds, rows := d.Open(0), d.Live(0)
			t.Run(fmt.Sprintf("%s/%s", kind, metric), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: [][]float64{{60, 0, 0, 0}, {-1, 0, 0, 0}}, K: 1000, Options: scan, Ways: lab.Ways()}
				a.Query.RefineFactor = 2
				a.Exact(t, d, ds, rows)
				a.K, a.Filter, a.Keep = 5, "id in (3, 17, 20, 49, 150, 151)", only(3, 17, 20, 49, 150, 151)
				a.Exact(t, d, ds, rows)
				a.K, a.Filter, a.Keep = 5, "id < 0", only()
				a.Exact(t, d, ds, rows)
			})
		}
	}
}
