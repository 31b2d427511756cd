package reports

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

func constant(x float64, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = x
	}
	return v
}

func encoded(t lab.Table) string {
	record := t.Record()
	defer record.Release()
	return pylance.IPC(record)
}

// TestReport12_OverwrittenVector changes the vector of one row in place, in each way Lance can.
func TestReport12_OverwrittenVector(t *testing.T) {
	changes := map[string]func(d *lab.Dataset){
		"update columns": func(d *lab.Dataset) {
			d.Do("update_columns", pylance.Args{"fragments": []int{1}, "on": "id", "ipc": encoded(lab.Points(constant(1.8, 8)).WithIDs(10000)), "only": []string{"id", "vec"}})
		},
		"replacement": func(d *lab.Dataset) {
			d.Do("data_replacement", pylance.Args{"fragment": 1, "ipc": encoded(lab.Points(constant(1.8, 8), constant(2, 8)).WithIDs(10000, 10001)), "only": []string{"vec"}})
		},
		"overlay": func(d *lab.Dataset) {
			d.Do("overlay", pylance.Args{"fragment": 1, "offsets": []int{0}, "ipc": encoded(lab.Points(constant(1.8, 8))), "only": []string{"vec"}})
		},
	}
	rng := lab.Rand(12)
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			for change, apply := range changes {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, metric, change), func(t *testing.T) {
					d := lab.Fragments(t, lab.Random(rng, binding.Float32, 300, 8), lab.Points(constant(2, 8), constant(2, 8)).WithIDs(10000, 10001))
					d.Index(index(kind, metric))
					apply(d)
					a := lab.Ask{Metric: metric, Queries: [][]float64{constant(2, 8)}, K: 302, Options: scan}
					a.Query.RefineFactor = 1
					if kind == "IVF_HNSW_SQ" {
						a.Query.EF = 604
					}
					check := func(stage string) {
						ds, rows := d.Open(0), d.Live(0)
						for _, r := range rows {
							if r.ID == 10000 {
								require.InDelta(t, 1.8, r.Vector[0], 1e-6)
							}
						}
						a.Exact(t, d, ds, rows)
						a.Same(t, d, ds)
						oneByOne(t, stage, d, ds, rows, a)
					}
					check("changed")
					d.Optimize(0)
					check("optimized into a segment of its own")
					d.Optimize(1)
					check("optimized into one segment")
				})
			}
		}
	}
}

// oneByOne searches each segment alone: no row twice over all of them, and each at its present distance.
func oneByOne(t *testing.T, stage string, d *lab.Dataset, ds *binding.Dataset, rows []oracle.Row, a lab.Ask) {
	t.Helper()
	ranked := map[uint64]float64{}
	for _, h := range a.Ranked(d, rows)[0] {
		ranked[h.RowID] = h.Distance
	}
	description, err := ds.Describe(t.Context())
	require.NoError(t, err)
	for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
		var all []uint64
		for _, segment := range description.Indexes[0].Segments {
			found, err := ds.Search(t.Context(), binding.SearchRequest{
				Column: "vec", K: a.K, RefineFactor: 1, EF: a.Query.EF, Vectors: vectors(d, a.Queries...), Path: path,
				Segments: []binding.SegmentID{segment.ID},
			})
			require.NoError(t, err, stage)
			for i, id := range found.RowID {
				require.Contains(t, ranked, id, stage)
				require.InDelta(t, ranked[id], found.Distance[i], 1e-3, "%s: row %d of segment %v", stage, id, segment.ID)
			}
			all = append(all, found.RowID...)
		}
		distinct(t, all)
	}
}

func TestReport13_OptimizeWithoutNewRows(t *testing.T) {
	rng := lab.Rand(13)
	for _, kind := range []string{"IVF_PQ", "IVF_FLAT", "IVF_HNSW_SQ"} {
		for _, groups := range [][][]int{nil, {{0}, {1}}} {
			t.Run(fmt.Sprintf("%s/segments=%d", kind, max(1, len(groups))), func(t *testing.T) {
				d := lab.Create(t, lab.Random(rng, binding.Float32, 1000, 16), lab.Rows(500))
				i := index(kind, oracle.L2)
				i.Partitions, i.Groups = 2, groups
				d.Index(i)
				d.Optimize(0)
				d.Optimize(1)
				seen := map[int]bool{}
				for _, segment := range d.Describe(0).Indexes[0].Segments {
					for _, fragment := range segment.Fragments {
						require.False(t, seen[fragment], "fragment %d is covered twice", fragment)
						seen[fragment] = true
					}
				}
				require.Equal(t, map[int]bool{0: true, 1: true}, seen)
				a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 16)}, K: 20}
				a.Query.NProbes, a.Query.RefineFactor = 2, 50
				a.Exact(t, d, d.Open(0), d.Live(0))
				a.Query.RefineFactor = 0
				a.Same(t, d, d.Open(0))
			})
		}
	}
}

func TestReport14_DeferredRemap(t *testing.T) {
	rng := lab.Rand(14)
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ"} {
		for _, groups := range [][][]int{nil, {{0, 1}, {2, 3}, {4, 5}}} {
			for _, deletes := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/segments=%d/deletes=%v", kind, max(1, len(groups)), deletes), func(t *testing.T) {
					d := lab.Create(t, lab.Random(rng, binding.Float32, 1200, 16), lab.Rows(200))
					i := index(kind, oracle.L2)
					i.Groups = groups
					d.Index(i)
					if deletes {
						d.Delete("id % 7 = 0")
					}
					a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 16), lab.RandomVector(rng, binding.Float32, 16)}, K: 20}
					a.Query.RefineFactor = 60 // every row of the table
					a.Query.NProbes = 1
					before := d.Open(0)
					a.Exact(t, d, before, d.Live(0))
					d.Compact(true)
					ds := d.Open(0)
					if deletes && (kind == "IVF_HNSW_FLAT" || kind == "IVF_HNSW_SQ") {
						a.RightOrError(t, d, ds, d.Live(0))
					} else {
						a.Exact(t, d, ds, d.Live(0))
						a.Exact(t, d, ds, d.Live(0)) // from the caches
						b := a
						b.Query.RefineFactor = 0
						b.Same(t, d, ds)
					}
					a.Exact(t, d, before, d.Live(before.Version()))
					if !(deletes && (kind == "IVF_HNSW_FLAT" || kind == "IVF_HNSW_SQ")) {
						d.Optimize(1)
						a.Exact(t, d, d.Open(0), d.Live(0))
					}
				})
			}
		}
	}
}

func TestReport19_ColumnNamesInUpperCase(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT"} {
		t.Run(kind, func(t *testing.T) {
			table := lab.Table{Name: "VECTOR", Dim: 4, Extra: []lab.Extra{{Name: "vector"}}}
			for id := range 60 {
				table.Vectors = append(table.Vectors, []float64{float64(59 - id), 0, 0, 0})
				table.Extra[0].Vectors = append(table.Extra[0].Vectors, []float64{float64(id), 0, 0, 0})
			}
			d := lab.Create(t, table)
			d.Index(index(kind, oracle.L2))
			appended := lab.Table{
				Name: "VECTOR", Dim: 4, IDs: []int64{100, 101, 102}, Vectors: [][]float64{nil, {5.25, 0, 0, 0}, nil},
				Extra: []lab.Extra{{Name: "vector", Vectors: [][]float64{nil, nil, nil}}},
			}
			d.Append(appended)
			upper := lab.Ask{Queries: [][]float64{{5.2, 0, 0, 0}}, K: 3, Options: scan}
			known(t, upper, d, 0, []int64{101, 54, 53}, nil)
			d.Optimize(0)
			known(t, upper, d, 0, []int64{101, 54, 53}, nil)
			d.Optimize(5)
			known(t, upper, d, 0, []int64{101, 54, 53}, nil)

			a := lab.Ask{Queries: [][]float64{{5, 0, 0, 0}}, K: 2, Options: scan, Ways: lab.Ways()}
			ds := d.Open(0)
			for column, want := range map[string][]int64{"VECTOR": {54, 101}, "vector": {5, 4}} {
				a.Query.Column = column
				for _, way := range lab.Ways() {
					got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(scan))
					require.NoError(t, err)
					require.Equal(t, want, lab.IDs(got[0]), "%s %v", column, way)
				}
			}
			a.Query.Column = "Vector"
			a.Fails(t, d, ds, binding.ErrNotFound, "Vector")
		})
	}
}

func TestReport21_NullsInVectors(t *testing.T) {
	rows := func(ids []int64, vectors ...[]float64) lab.Table {
		return lab.Points(vectors...).WithIDs(ids...)
	}
	first := rows([]int64{0, 1, 2, 3}, []float64{1, 0, 0, 0}, []float64{0, 1, 0, 0}, nil, []float64{5, 0, 0, 0})
	for i := range int64(30) {
		first.IDs = append(first.IDs, 4+i)
		first.Vectors = append(first.Vectors, []float64{float64(10 + i), 0, 0, 0})
	}
	first.Nulls = map[[2]int]bool{{1, 0}: true}
	second := rows([]int64{100, 101, 102}, []float64{0, 1, 0, 0}, nil, []float64{0, 1, 0, 0})
	second.Nulls = map[[2]int]bool{{0, 0}: true}
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Dot} {
			t.Run(fmt.Sprintf("%s/%s", kind, metric), func(t *testing.T) {
				d := lab.Create(t, first)
				a := lab.Ask{Metric: metric, Queries: [][]float64{{0, 1, 0, 0}}, K: 40, Options: scan}
				a.Query.RefineFactor = 1
				// Flat: the null coordinate is read as zero, as the engine does; a null vector is no neighbour.
				a.Exact(t, d, d.Open(0), d.Live(0))
				a.Same(t, d, d.Open(0))
				d.Index(index(kind, metric))
				// Indexed: the row is left out, as the engine does.
				a.Keep = func(r oracle.Row) bool { return r.ID != 1 }
				a.Exact(t, d, d.Open(0), d.Live(0))
				a.Same(t, d, d.Open(0))
				d.Append(second)
				a.Exact(t, d, d.Open(0), d.Live(0))
				a.Same(t, d, d.Open(0))
			})
		}
	}
}

func TestReport23_SegmentWithoutUsableVector(t *testing.T) {
	rng := lab.Rand(23)
	for _, kind := range []string{"IVF_PQ", "IVF_FLAT", "IVF_SQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Create(t, lab.Random(rng, binding.Float32, 600, 16))
			d.Index(index(kind, oracle.L2))
			bad := lab.Table{Dim: 16}
			for i := range int64(100) {
				bad.IDs = append(bad.IDs, 1000+i)
				bad.Vectors = append(bad.Vectors, constant(lab.NaN, 16))
			}
			d.Append(bad)
			a := lab.Ask{Queries: [][]float64{constant(0.5, 16)}, K: 700, Options: scan}
			a.Query.RefineFactor = 1
			a.Exact(t, d, d.Open(0), d.Live(0))
			d.Optimize(0)
			a.Options = distributed.Options{}
			ds, rows := d.Open(0), d.Live(0)
			a.Exact(t, d, ds, rows)
			oneByOne(t, "empty segment", d, ds, rows, a)
			d.Append(ids(lab.Random(rng, binding.Float32, 20, 16), 2000))
			d.Optimize(0)
			a.Exact(t, d, d.Open(0), d.Live(0)) // the empty segment in the middle
			d.Optimize(3)
			a.Exact(t, d, d.Open(0), d.Live(0))
		})
	}
}

func TestReport24_StableRowIDs(t *testing.T) {
	for _, stable := range []bool{true, false} {
		for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
			for _, groups := range [][][]int{nil, {{0}, {1, 2}}} {
				t.Run(fmt.Sprintf("stable=%v/%s/segments=%d", stable, kind, max(1, len(groups))), func(t *testing.T) {
					table := lab.Table{Dim: 16}
					for id := range 1500 {
						v := make([]float64, 16)
						for j := range v {
							v[j] = math.Sin(0.1*float64(id) + 0.3*float64(j))
						}
						table.Vectors = append(table.Vectors, v)
						table.Category = append(table.Category, int32(id%3))
					}
					d := lab.Create(t, table, lab.Rows(500), lab.StableRowIDs(stable))
					i := index(kind, oracle.L2)
					i.Partitions, i.Groups = 4, groups
					d.Index(i)
					a := lab.Ask{Queries: [][]float64{table.Vectors[0], table.Vectors[700]}, K: 50}
					a.Query.NProbes, a.Query.RefineFactor = 4, 30
					if kind == "IVF_HNSW_FLAT" {
						a.Query.EF = 1500
					}
					check := func() {
						rows := d.Live(0)
						for _, r := range rows {
							require.NotZero(t, r.ID%3)
						}
						a.Exact(t, d, d.Open(0), rows)
					}
					d.Delete("category = 0")
					check()
					d.Optimize(0)
					check()
					d.Optimize(1)
					check()
					d.Compact(false)
					check()
				})
			}
		}
	}
}

// TestReport24_DeletedThenCompacted: the engine itself brings deleted rows back here, which take the places of others: after
// the compaction no deletion is left to mask, while the index still holds the row ids.
func TestReport24_DeletedThenCompacted(t *testing.T) {
	for _, stable := range []bool{true, false} {
		for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
			for _, groups := range [][][]int{nil, {{0, 1}}, {{0}, {1}}} {
				t.Run(fmt.Sprintf("stable=%v/%s/%v", stable, kind, groups), func(t *testing.T) {
					d := lab.Create(t, lab.Line(0, 100), lab.Rows(50), lab.StableRowIDs(stable))
					i := index(kind, oracle.L2)
					i.Groups = groups
					d.Index(i)
					d.Delete("id % 10 = 0")
					d.Compact(false)
					a := lab.Ask{Queries: [][]float64{{50, 0, 0, 0}, {20.2, 0, 0, 0}}, K: 5}
					a.Query.RefineFactor = 10
					a.Exact(t, d, d.Open(0), d.Live(0))
					a.K = 90
					a.Exact(t, d, d.Open(0), d.Live(0))
					a.K, a.Query.Columns = 5, []string{} // nothing to fetch, where a row that is gone would show
					a.Exact(t, d, d.Open(0), d.Live(0))
					a.Query.RefineFactor = 0
					a.Recall(t, d, d.Open(0), d.Live(0), 0.7)
					a.Filter, a.Keep, a.Query.RefineFactor = "id > 30", func(r oracle.Row) bool { return r.ID > 30 }, 10
					a.Exact(t, d, d.Open(0), d.Live(0))
				})
			}
		}
	}
}

func TestReport25_AllRowsDeleted(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_HNSW_FLAT"} {
		for _, stable := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stable=%v", kind, stable), func(t *testing.T) {
				d := lab.Create(t, lab.Line(0, 300), lab.Rows(100), lab.StableRowIDs(stable))
				d.Index(index(kind, oracle.L2, []int{0}, []int{1, 2}))
				d.Delete("true")
				a := lab.Ask{Queries: [][]float64{{5, 0, 0, 0}}, K: 30}
				a.Query.RefineFactor = 10
				for _, options := range []distributed.Options{{}, scan, skip} {
					a.Options = options
					a.Exact(t, d, d.Open(0), nil)
				}
				d.Append(lab.Line(1000, 1020))
				a.Options, a.Queries = scan, [][]float64{{1005, 0, 0, 0}}
				a.Exact(t, d, d.Open(0), d.Live(0))
				d.Optimize(0)
				a.Exact(t, d, d.Open(0), d.Live(0))
				known(t, lab.Ask{Queries: [][]float64{{1005, 0, 0, 0}}, K: 3, Options: scan, Query: a.Query}, d, 0, []int64{1005, 1004, 1006}, nil)
			})
		}
	}
}

func TestReport27_ConcurrentFirstSearches(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ"} {
		t.Run(kind, func(t *testing.T) {
			rng := lab.Rand(27)
			table := lab.Random(rng, binding.Float32, 900, 8)
			d := lab.Create(t, table, lab.Rows(300))
			d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}))
			d.Do("scalar_index", pylance.Args{"column": "category", "type": "BTREE"})
			d.Compact(true)
			a := lab.Ask{Queries: [][]float64{table.Vectors[0]}, K: 5, Filter: "category = 0", Keep: func(r oracle.Row) bool { return r.Category == 0 }}
			a.Query.RefineFactor = 10
			ranked := a.Ranked(d, d.Live(0))
			q := a.Question(t, d)
			for _, n := range []int{8, 64} {
				for _, cancelled := range []bool{false, true} {
					ds, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
					require.NoError(t, err)
					deadline, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					var wg sync.WaitGroup
					errs := make([]error, n)
					for i := range n {
						wg.Go(func() {
							ctx := deadline
							if cancelled && i%2 == 0 {
								c, stop := context.WithCancel(deadline)
								time.AfterFunc(time.Duration(i)*50*time.Microsecond, stop)
								ctx = c
							}
							got, _, err := lab.SearchContext(ctx, ds, q, lab.FewWays()[i%len(lab.FewWays())].Apply(distributed.Options{}))
							switch {
							case err == nil:
								err = oracle.CheckExact(got[0], ranked[0], oracle.Page{K: 5}, oracle.Single)
							case cancelled && i%2 == 0 && errors.Is(err, context.Canceled):
								err = nil
							}
							errs[i] = err
						})
					}
					wg.Wait()
					cancel()
					require.NoError(t, errors.Join(errs...), "%d goroutines, cancelled %v", n, cancelled)
					a.Exact(t, d, ds, d.Live(0)) // the handle still works
					require.NoError(t, ds.Close())
				}
			}
		})
	}
}

func TestReport38_HandlesKeepTheirVersion(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_HNSW_FLAT", "IVF_SQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Create(t, lab.Line(0, 300), lab.Rows(150))
			first := d.Index(index(kind, oracle.L2, []int{0}, []int{1}))
			old := d.Open(0)
			unused := d.Open(first) // its index is not loaded before the clean-up
			oldRows := d.Live(first)
			d.Delete("id < 10")
			added := ids(lab.Line(0, 10), 1000)
			d.Append(added)
			d.Optimize(0)
			d.Compact(false)
			a := lab.Ask{Queries: origin(4), K: 5}
			a.Query.RefineFactor = 20
			known(t, a, d, first, []int64{0, 1, 2, 3, 4}, nil)
			a.Exact(t, d, old, oldRows)
			a.Options = scan
			known(t, a, d, 0, []int64{1000, 1001, 1002, 1003, 1004}, nil)
			require.Equal(t, first, old.Version())

			d.Do("cleanup", nil)
			known(t, a, d, 0, []int64{1000, 1001, 1002, 1003, 1004}, nil)
			for name, ds := range map[string]*binding.Dataset{"loaded": old, "not loaded": unused} {
				for _, way := range lab.FewWays() {
					ranked := a.Ranked(d, oldRows)
					got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
					if err != nil {
						require.ErrorIs(t, err, binding.ErrVersionGone, "%s %v", name, way)
						continue
					}
					require.NoError(t, oracle.CheckExact(got[0], ranked[0], oracle.Page{K: 5}, oracle.Single), "%s %v", name, way)
				}
			}
			_, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{Version: first})
			require.ErrorIs(t, err, binding.ErrVersionGone)
		})
	}
}
