package parity

import (
	"fmt"
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// TestQuantised_SplitEqualsSingleScan: with the same probes and with refinement, a split search returns what Lance's
// own scan over all segments returns, for every kind of index; without refinement too where nothing depends on the
// heap of a graph search.
func TestQuantised_SplitEqualsSingleScan(t *testing.T) {
	for _, kind := range []string{"IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
			d := lab.Create(t, clustered(20, 3000, 16), lab.Rows(500))
			i := lab.Index{Type: kind, Metric: metric, Partitions: 6, Groups: [][]int{{0}, {1}, {2, 3}, {4}, {5}}}
			if kind == "IVF_PQ" || kind == "IVF_HNSW_PQ" {
				i.SubVectors = 8
			}
			d.Index(i)
			ds, rows := d.Open(0), d.Live(0)
			for _, nprobes := range []int{1, 3, 6} {
				for _, refine := range []int{0, 1, 5, 20} {
					t.Run(fmt.Sprintf("%s/%s/nprobes=%d/refine=%d", kind, metric, nprobes, refine), func(t *testing.T) {
						a := lab.Ask{Metric: metric, Queries: clustered(21, 4, 16).Vectors, K: 10}
						a.Query.NProbes, a.Query.RefineFactor = nprobes, refine
						a.Same(t, d, ds)
						if nprobes == 6 && refine == 20 {
							a.Recall(t, d, ds, rows, 0.9)
						}
						a.Filter = "category < 30"
						a.Same(t, d, ds)
					})
				}
			}
			t.Run(fmt.Sprintf("%s/%s/probe bounds", kind, metric), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: clustered(22, 4, 16).Vectors, K: 10}
				a.Query.RefineFactor = 5
				a.Query.MinNProbes, a.Query.MaxNProbes = 2, 2
				a.Same(t, d, ds)
			})
		}
	}
}

// TestQuantised_UnindexedRows: beside a flat scan the indexed rows too are judged by their exact distance, once.
func TestQuantised_UnindexedRows(t *testing.T) {
	for _, kind := range []string{"IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ", "IVF_FLAT"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
			for _, typ := range []binding.ValueType{binding.Float32, binding.Float16} {
				t.Run(fmt.Sprintf("%s/%s/%v", kind, metric, typ), func(t *testing.T) {
					d := lab.Fragments(t, apart(23, typ, 16, 300, 300, 40, 60)...)
					i := lab.Index{Type: kind, Metric: metric, Partitions: 2, Groups: [][]int{{0}, {1}}}
					if kind == "IVF_PQ" {
						i.SubVectors = 8
						i.Bits = 4
					}
					d.Index(i)
					ds := d.Open(0)
					a := lab.Ask{Metric: metric, Queries: queries(24, typ, 3, 16), K: 15, Options: scan}
					a.Query.NProbes = 2
					for _, refine := range []int{0, 1, 4} {
						a.Query.RefineFactor = refine
						a.Same(t, d, ds)
					}
					a.Query.RefineFactor = 50
					if kind != "IVF_HNSW_SQ" {
						a.Exact(t, d, ds, d.Live(0))
					}
				})
			}
		}
	}
}

// TestQuantised_ProbingPerSegment: asked to probe by Lance's own rule, segment by segment, a search that says nothing
// about probes returns what Lance's single scan returns. It holds as long as the first partitions give k rows: where they
// do not, Lance reads on by a budget for the whole scan, which is another one for each task.
func TestQuantised_ProbingPerSegment(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_SQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
			t.Run(kind+"/"+string(metric), func(t *testing.T) {
				d := lab.Create(t, clustered(25, 4000, 16), lab.Rows(1000))
				i := lab.Index{Type: kind, Metric: metric, Partitions: 20, Groups: [][]int{{0}, {1}, {2}, {3}}}
				if kind == "IVF_PQ" {
					i.SubVectors = 8
				}
				d.Index(i)
				ds := d.Open(0)
				for _, k := range []int{1, 10, 20} {
					a := lab.Ask{Metric: metric, Queries: clustered(26, 5, 16).Vectors, K: k}
					a.Options.Probing = binding.ProbingPerSegment
					a.Same(t, d, ds)
					a.Query.SearchEffort = lab.Ptr(0.2)
					a.Same(t, d, ds)
				}
			})
		}
	}
}

// TestQuantised_WidthOfGraphSearch: EF is bounded by the rows there are, but never below the candidates asked for.
func TestQuantised_WidthOfGraphSearch(t *testing.T) {
	rng := lab.Rand(27)
	multi := lab.Table{Dim: 16, Name: "parts"}
	plain := lab.Random(rng, binding.Float32, 560, 16)
	for range 560 {
		multi.Multi = append(multi.Multi, [][]float64{lab.RandomVector(rng, binding.Float32, 16), lab.RandomVector(rng, binding.Float32, 16)})
	}
	for name, table := range map[string]lab.Table{"plain": plain, "multivector": multi} {
		d := lab.Create(t, table, lab.Rows(280))
		d.Index(lab.Index{Type: "IVF_HNSW_SQ", Metric: oracle.Cosine, Partitions: 2, Groups: [][]int{{0}, {1}}})
		ds := d.Open(0)
		for _, c := range []struct{ k, refine, ef int }{{100, 10, 1022}, {10, 2, 60}, {50, 5, 5000}, {3, 100, 300}} {
			t.Run(fmt.Sprintf("%s/%v", name, c), func(t *testing.T) {
				a := lab.Ask{Metric: oracle.Cosine, K: c.k}
				if name == "plain" {
					a.Queries = queries(28, binding.Float32, 2, 16)
				} else {
					a.Multi = [][][]float64{queries(28, binding.Float32, 2, 16), queries(29, binding.Float32, 2, 16)}
				}
				a.Query.NProbes, a.Query.RefineFactor, a.Query.EF = 2, c.refine, c.ef
				for _, filter := range []string{"", "id in (8, 24, 56)"} {
					a.Filter = filter
					if want, err := a.Pylance(d, ds.Version()); err != nil { // a multivector search fetches more than k x refine
						a.Fails(t, d, ds, nil, "ef")
					} else {
						a.SameAs(t, d, ds, want)
					}
				}
			})
		}
	}
}
