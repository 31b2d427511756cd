package parity

import (
	"fmt"
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// TestExact_EveryStrategyAndGrouping: on IVF_FLAT with all partitions read, a search in any split is exact, and Lance's
// single scan says the same.
func TestExact_EveryStrategyAndGrouping(t *testing.T) {
	const partitions = 5
	for _, c := range []struct {
		typ     binding.ValueType
		metrics []oracle.Metric
	}{
		{binding.Float32, []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot}},
		{binding.Float16, []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot}},
		{binding.Float64, []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot}},
		{binding.Uint8, []oracle.Metric{oracle.Hamming}},
	} {
		d := lab.Fragments(t, apart(1, c.typ, 12, 300, 120, 80, 200, 40)...)
		for _, metric := range c.metrics {
			d.Index(lab.Index{Name: string(metric), Metric: metric, Partitions: partitions, Groups: [][]int{{0}, {1}, {2, 4}, {3}}})
		}
		ds, rows := d.Open(0), d.Live(0)
		for _, metric := range c.metrics {
			t.Run(fmt.Sprintf("%v/%s", c.typ, metric), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: queries(2, c.typ, 6, 12), K: 10, Ways: lab.Ways()}
				a.Query.NProbes = partitions
				a.Exact(t, d, ds, rows)
				a.Same(t, d, ds)
				one := a
				one.Queries = a.Queries[:1]
				one.K = 137
				one.Exact(t, d, ds, rows)
				one.Same(t, d, ds)
				one.Query.RefineFactor = 2
				one.Exact(t, d, ds, rows)
			})
			t.Run(fmt.Sprintf("%v/%s/flat", c.typ, metric), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: queries(3, c.typ, 3, 12), K: 10}
				a.Query.NoIndex = true
				a.Exact(t, d, ds, rows)
				a.Same(t, d, ds)
			})
		}
	}
}

// TestExact_Filter: the filter comes before the choice of neighbours, with and without a scalar index.
func TestExact_Filter(t *testing.T) {
	for _, scalar := range []string{"", "BTREE", "BITMAP"} {
		for _, indexed := range []bool{true, false} {
			d := lab.Fragments(t, apart(4, binding.Float32, 8, 300, 200, 100)...)
			options := scan
			if indexed {
				d.Index(lab.Index{Partitions: 3, Groups: [][]int{{0}, {1}, {2}}})
			}
			if scalar != "" {
				d.Do("scalar_index", map[string]any{"column": "category", "type": scalar})
				d.Append(appended(600, 60)) // rows that neither index knows
			}
			ds, rows := d.Open(0), d.Live(0)
			for filter, keep := range map[string]func(oracle.Row) bool{
				"category = 7":                     func(r oracle.Row) bool { return r.Category == 7 },
				"category < 50":                    func(r oracle.Row) bool { return r.Category < 50 },
				"category in (1, 2) or id = 99":    func(r oracle.Row) bool { return r.Category == 1 || r.Category == 2 || r.ID == 99 },
				"id % 3 = 0":                       third,
				"category >= 90 and id % 3 = 0":    func(r oracle.Row) bool { return r.Category >= 90 && third(r) },
				"category = 1000":                  func(oracle.Row) bool { return false },
				"category is not null":             nil,
				"not (category = 7) and id < 1000": func(r oracle.Row) bool { return r.Category != 7 && r.ID < 1000 },
			} {
				t.Run(fmt.Sprintf("scalar=%s/indexed=%v/%s", scalar, indexed, filter), func(t *testing.T) {
					a := lab.Ask{Queries: queries(5, binding.Float32, 3, 8), K: 10, Filter: filter, Keep: keep, Options: options}
					a.Query.NProbes = 3
					a.Exact(t, d, ds, rows)
				})
			}
		}
	}
}

func appended(from int64, n int) lab.Table {
	t := lab.Random(lab.Rand(6), binding.Float32, n, 8)
	for i := range int64(n) {
		t.IDs = append(t.IDs, from+i)
	}
	return t
}

// TestExact_DefaultProbes: where nothing is said about probes the library chooses them, and finds nearly everything.
func TestExact_DefaultProbes(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ"} {
		for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
			t.Run(kind+"/"+string(metric), func(t *testing.T) {
				d := lab.Create(t, clustered(7, 8000, 16), lab.Rows(2000))
				i := lab.Index{Type: kind, Metric: metric, Partitions: 16, Groups: [][]int{{0}, {1}, {2}, {3}}}
				if kind == "IVF_PQ" {
					i.SubVectors = 8
				}
				d.Index(i)
				a := lab.Ask{Metric: metric, K: 10, Ways: lab.FewWays(), Queries: clustered(8, 30, 16).Vectors}
				a.Query.RefineFactor = 10
				a.Recall(t, d, d.Open(0), d.Live(0), 0.9)
			})
		}
	}
}

// TestExact_DefaultProbesOfFewPartitions: with next to nothing to choose from there is nothing to save.
func TestExact_DefaultProbesOfFewPartitions(t *testing.T) {
	for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
		for _, partitions := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s/%d", metric, partitions), func(t *testing.T) {
				d := lab.Fragments(t, apart(52, binding.Float32, 8, 200, 200, 50)...)
				d.Index(lab.Index{Metric: metric, Partitions: partitions, Groups: [][]int{{0}, {1}}})
				a := lab.Ask{Metric: metric, Queries: queries(53, binding.Float32, 20, 8), K: 10, Options: scan}
				a.Recall(t, d, d.Open(0), d.Live(0), 0.95)
			})
		}
	}
}

// clustered rows have neighbours in their own cluster, so that probing means something.
func clustered(seed uint64, rows, dim int) lab.Table {
	shared := lab.Rand(99)
	var centres [][]float64
	for range 40 {
		centres = append(centres, lab.RandomVector(shared, binding.Float32, dim))
	}
	rng := lab.Rand(seed)
	t := lab.Table{Dim: dim}
	for range rows {
		centre := centres[rng.IntN(len(centres))]
		v := make([]float64, dim)
		for i := range v {
			v[i] = centre[i] + 0.25*rng.NormFloat64()
		}
		t.Vectors = append(t.Vectors, lab.Round(binding.Float32, v))
	}
	return t
}

func TestExact_DistanceRange(t *testing.T) {
	d := lab.Fragments(t, apart(9, binding.Float32, 8, 300, 200, 100)...)
	for _, metric := range []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot} {
		d.Index(lab.Index{Name: string(metric), Metric: metric, Partitions: 3, Groups: [][]int{{0}, {1}}})
	}
	ds, rows := d.Open(0), d.Live(0)
	for metric, borders := range map[oracle.Metric][2]float64{oracle.L2: {1.5, 3}, oracle.Cosine: {0.4, 0.7}, oracle.Dot: {-0.5, 0.2}} {
		for _, c := range []struct{ lower, upper *float64 }{
			{lab.Ptr(borders[0]), nil}, {nil, lab.Ptr(borders[1])}, {lab.Ptr(borders[0]), lab.Ptr(borders[1])}, {lab.Ptr(1e6), nil},
		} {
			t.Run(fmt.Sprintf("%s/%v-%v", metric, c.lower != nil, c.upper != nil), func(t *testing.T) {
				a := lab.Ask{Metric: metric, Queries: queries(10, binding.Float32, 3, 8), K: 12, Lower: c.lower, Upper: c.upper, Options: scan}
				a.Query.NProbes = 3
				a.Exact(t, d, ds, rows)
				a.Query.RefineFactor = 5
				a.Exact(t, d, ds, rows)
				a.Filter, a.Keep = "id % 3 = 0", third
				a.Exact(t, d, ds, rows)
			})
		}
	}
}

func TestExact_Multivector(t *testing.T) {
	rng := lab.Rand(11)
	table := func(from int64, n int) lab.Table {
		t := lab.Table{Dim: 6, Name: "parts"}
		for i := range int64(n) {
			var row [][]float64
			for range 1 + rng.IntN(4) {
				row = append(row, lab.RandomVector(rng, binding.Float32, 6))
			}
			if i%17 == 5 {
				row = nil
			}
			t.IDs = append(t.IDs, from+i)
			t.Multi = append(t.Multi, row)
		}
		return t
	}
	for _, kind := range []string{"", "IVF_FLAT", "IVF_SQ"} {
		d := lab.Fragments(t, table(0, 150), table(150, 100), table(250, 60))
		if kind != "" {
			d.Index(lab.Index{Type: kind, Metric: oracle.Cosine, Partitions: 2, Groups: [][]int{{0}, {1}}})
		}
		ds, rows := d.Open(0), d.Live(0)
		for _, perQuery := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s/%d", kind, perQuery), func(t *testing.T) {
				a := lab.Ask{Metric: oracle.Cosine, K: 8, Options: scan}
				for range 3 {
					var q [][]float64
					for range perQuery {
						q = append(q, lab.RandomVector(rng, binding.Float32, 6))
					}
					a.Multi = append(a.Multi, q)
				}
				if kind != "" {
					a.Query.NProbes, a.Query.RefineFactor = 2, 50
				}
				a.Exact(t, d, ds, rows)
				a.Same(t, d, ds)
				a.Query.RefineFactor = 0
				a.Same(t, d, ds)
				a.Filter, a.Keep = "id % 3 = 0", third
				a.Same(t, d, ds)
			})
		}
	}
}

func TestExact_StableRowIDs(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_PQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Create(t, lab.Random(lab.Rand(12), binding.Float32, 900, 8), lab.Rows(300), lab.StableRowIDs(true))
			i := lab.Index{Type: kind, Partitions: 2, Groups: [][]int{{0}, {1}, {2}}}
			if kind == "IVF_PQ" {
				i.SubVectors, i.Bits = 4, 4
			}
			d.Index(i)
			a := lab.Ask{Queries: queries(13, binding.Float32, 3, 8), K: 20, Options: scan}
			a.Query.NProbes, a.Query.RefineFactor = 2, 50
			check := func() {
				t.Helper()
				ds := d.Open(0)
				a.Exact(t, d, ds, d.Live(0))
				b := a
				b.Query.RefineFactor = 0
				b.Same(t, d, ds)
			}
			check()
			d.Delete("id % 5 = 0")
			check()
			d.Do("update", map[string]any{"set": map[string]string{"category": "category + 1"}, "where": "id % 7 = 1"})
			check()
			d.MergeInsert(appended(880, 40))
			check()
			d.Compact(false)
			check()
			d.Optimize(0)
			check()
		})
	}
}
