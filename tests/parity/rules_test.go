package parity

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

// TestRules_OwnWrites: a dataset written, indexed and changed by the library alone reads the same through pylance.
func TestRules_OwnWrites(t *testing.T) {
	for _, typ := range []binding.ValueType{binding.Float16, binding.Float32, binding.Float64, binding.Uint8} {
		t.Run(typ.String(), func(t *testing.T) {
			ctx := t.Context()
			table := lab.Random(lab.Rand(30), typ, 600, 8)
			d := lab.Write(t, table, binding.WriteOptions{MaxRowsPerFile: 200})
			metric := binding.L2
			if typ == binding.Uint8 {
				metric = binding.Hamming
			}
			ds := d.Open(0)
			require.Equal(t, uint64(1), ds.Version())
			var segments []binding.IndexSegment
			for _, fragments := range [][]uint32{{0}, {1, 2}} {
				s, err := ds.CreateIndexSegment(ctx, binding.IndexOptions{Column: "vec", Type: "IVF_FLAT", Metric: metric, Partitions: 2, Fragments: fragments})
				require.NoError(t, err)
				segments = append(segments, s)
			}
			version, err := ds.CommitIndexSegments(ctx, "own", "vec", segments)
			require.NoError(t, err)
			require.Equal(t, uint64(2), version)
			version, err = d.Open(0).CreateScalarIndex(ctx, binding.ScalarIndexOptions{Column: "category", Type: "BTREE", Name: "by_category"})
			require.NoError(t, err)
			require.Equal(t, uint64(3), version)
			version, err = d.Open(0).Delete(ctx, "id >= 100 and id < 150")
			require.NoError(t, err)
			require.Equal(t, uint64(4), version)
			latest := d.Open(0)
			require.Equal(t, version, latest.Version())

			description, err := latest.Describe(ctx)
			require.NoError(t, err)
			require.Len(t, description.Indexes, 1)
			index := description.Indexes[0]
			require.Equal(t, "own", index.Name)
			require.Equal(t, "IVF_FLAT", index.Type)
			require.Equal(t, metric, index.Metric)
			theirs := d.Describe(0)
			require.Len(t, description.Fragments, len(theirs.Fragments))
			for i, f := range theirs.Fragments {
				require.Equal(t, binding.Fragment{ID: uint32(f.ID), PhysicalRows: uint64(f.PhysicalRows), DeletedRows: uint64(f.DeletedRows)}, description.Fragments[i])
			}
			covered := map[string][]int{}
			for _, i := range theirs.Indexes {
				for _, s := range i.Segments {
					covered[s.UUID] = s.Fragments
				}
			}
			for _, s := range index.Segments {
				var fragments []int
				for _, f := range s.Fragments {
					fragments = append(fragments, int(f))
				}
				require.ElementsMatch(t, covered[s.ID.String()], fragments)
				require.Equal(t, 2, s.Partitions)
			}
			require.Equal(t, []binding.ScalarIndex{{Name: "by_category", Column: "category", Type: description.OtherIndexes[0].Type}}, description.OtherIndexes)

			a := lab.Ask{Metric: oracle.Metric(metric.String()), Queries: queries(31, typ, 3, 8), K: 10}
			a.Query.NProbes = 2
			rows := d.Live(0)
			require.Len(t, rows, 550)
			a.Exact(t, d, latest, rows)
			a.Same(t, d, latest)
			compacted, err := latest.Compact(ctx, binding.CompactOptions{})
			require.NoError(t, err)
			require.Equal(t, 2, compacted.FragmentsAdded, "one for each segment")
			require.Equal(t, 3, compacted.FragmentsRemoved)
			a.Exact(t, d, d.Open(compacted.Version), d.Live(compacted.Version))
			version, err = d.Open(0).CreateIndex(ctx, binding.IndexOptions{Column: "vec", Type: "IVF_FLAT", Name: "own", Metric: metric, Partitions: 3, Replace: true})
			require.NoError(t, err)
			a.Query.NProbes = 3
			a.Exact(t, d, d.Open(version), d.Live(version))
		})
	}
}

// TestRules_PinnedVersion: what is committed after planning changes nothing for the plan, nor for the open handle.
func TestRules_PinnedVersion(t *testing.T) {
	d := lab.Fragments(t, apart(32, binding.Float32, 8, 200, 200, 200)...)
	d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}, {2}}})
	ds, rows := d.Open(0), d.Live(0)
	a := lab.Ask{Queries: queries(33, binding.Float32, 3, 8), K: 10}
	a.Query.NProbes = 2
	a.Query.Columns = []string{"id"}
	ranked := a.Ranked(d, rows)
	plans := map[string]*distributed.Plan{}
	for _, way := range lab.FewWays() {
		plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(distributed.Options{}))
		require.NoError(t, err)
		plans[way.String()] = plan
	}
	check := func(t *testing.T) {
		t.Helper()
		for name, plan := range plans {
			res, err := plan.Execute(t.Context())
			require.NoError(t, err, name)
			for i := range ranked {
				var got []oracle.Hit
				for _, n := range res.Neighbors(i) {
					got = append(got, oracle.Hit{RowID: n.RowID, Distance: float64(n.Distance)})
				}
				require.NoError(t, oracle.CheckExact(got, ranked[i], oracle.Page{K: 10}, oracle.Single), name)
			}
			res.Release()
		}
		a.Exact(t, d, ds, rows)
	}
	copies := lab.Table{Dim: 8, Vectors: a.Queries, IDs: []int64{9000, 9001, 9002}} // nearer than anything before
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"append", func() { d.Append(copies) }},
		{"delete", func() { d.Delete("id < 300") }},
		{"compact", func() { d.Compact(false) }},
		{"deferred compact", func() { d.Append(copies); d.Compact(true) }},
		{"optimize", func() { d.Optimize(1) }},
		{"overwrite", func() {
			record := lab.Line(0, 5).Record()
			defer record.Release()
			d.Do("write", pylance.Args{"mode": "overwrite", "ipc": pylance.IPC(record)})
		}},
	} {
		step.run()
		t.Run(step.name, check)
	}
}

// TestRules_Coverage: rows outside the index are refused, scanned or skipped, as asked.
func TestRules_Coverage(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Fragments(t, apart(34, binding.Float32, 8, 300, 200, 50, 70)...)
			i := lab.Index{Type: kind, Partitions: 2, Groups: [][]int{{0}, {2, 1}}}
			if kind == "IVF_PQ" {
				i.SubVectors, i.Bits = 4, 4
			}
			d.Index(i)
			d.Delete("id % 10 = 9")
			ds, rows := d.Open(0), d.Live(0)
			a := lab.Ask{Queries: queries(35, binding.Float32, 3, 8), K: 10}
			a.Query.NProbes, a.Query.RefineFactor = 2, 60
			lab.EachFails(t, ds, a.Question(t, d), distributed.Options{}, lab.Ways(), func(t *testing.T, err error) {
				var coverage *distributed.CoverageError
				require.ErrorAs(t, err, &coverage)
				require.ErrorIs(t, err, distributed.ErrCoverage)
				require.Equal(t, "vectors", coverage.Index)
				require.Equal(t, []uint32{3}, coverage.Fragments)
				require.Equal(t, uint64(63), coverage.Rows)
				require.Equal(t, uint64(558), coverage.LiveRows)
			})
			a.Options.Unindexed = distributed.Scan
			a.Exact(t, d, ds, rows)
			a.Options.Unindexed = distributed.Skip
			a.Keep = func(r oracle.Row) bool { return r.ID < 550 }
			a.Exact(t, d, ds, rows)
			a.Same(t, d, ds)
			for unindexed, want := range map[distributed.Unindexed]uint64{distributed.Scan: 558, distributed.Skip: 495} {
				a.Options.Unindexed = unindexed
				lab.Each(t, ds, a.Question(t, d), a.Options, lab.Ways(), func(t *testing.T, _ lab.Answers, stats distributed.Stats) {
					require.Equal(t, want, stats.CoveredRows)
					require.Equal(t, uint64(558), stats.LiveRows)
				})
			}
		})
	}
}

// TestRules_FieldNames: quoted, nested and mixed-case names of the vector column, and of columns to fetch.
func TestRules_FieldNames(t *testing.T) {
	for _, table := range []lab.Table{
		{Name: "my vector"}, {Name: "Vec"}, {Name: "VEC-tor"}, {Name: "vec", Parent: "meta"}, {Name: "Deep Vec", Parent: "Meta Data"}, {Name: "a.b", Parent: "meta"}, {Name: "vécteur"}, {Name: "select"},
	} {
		t.Run(table.Parent+"/"+table.Name, func(t *testing.T) {
			filled := lab.Random(lab.Rand(36), binding.Float32, 300, 8)
			filled.Name, filled.Parent = table.Name, table.Parent
			filled.Extra = []lab.Extra{{Name: "Some Text"}, {Name: "UPPER"}}
			for i := range filled.Len() {
				filled.Extra[0].Strings = append(filled.Extra[0].Strings, fmt.Sprint("t", i))
				filled.Extra[1].Ints = append(filled.Extra[1].Ints, int64(2*i))
			}
			d := lab.Create(t, filled, lab.Rows(100))
			a := lab.Ask{Queries: queries(37, binding.Float32, 2, 8), K: 5, Options: scan}
			a.Exact(t, d, d.Open(0), d.Live(0))
			d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}, {2}}})
			a.Query.NProbes = 2
			a.Options = distributed.Options{}
			ds := d.Open(0)
			a.Exact(t, d, ds, d.Live(0))
			a.Filter, a.Keep = "`UPPER` % 6 = 0", third
			a.Exact(t, d, ds, d.Live(0))
			q := a.Question(t, d)
			q.Columns = []string{"`Some Text`", "UPPER", "id", filled.Column()}
			res, err := distributed.VectorSearch(t.Context(), ds, q, distributed.Options{})
			require.NoError(t, err)
			defer res.Release()
			record := res.Record()
			ids := record.Column(5).(*array.Int64)
			for i := range int(record.NumRows()) {
				require.Equal(t, fmt.Sprint("t", ids.Value(i)), record.Column(3).(*array.String).Value(i))
				require.Equal(t, 2*ids.Value(i), record.Column(4).(*array.Int64).Value(i))
			}
			require.EqualValues(t, 7, record.NumCols())
		})
	}
	t.Run("back-tick", func(t *testing.T) {
		// Lance finds no row in such a column and reports no error; the library does not pass that on.
		filled := lab.Random(lab.Rand(38), binding.Float32, 100, 8)
		filled.Name = "back`tick"
		d := lab.Create(t, filled)
		a := lab.Ask{Queries: queries(37, binding.Float32, 2, 8), K: 5, Options: scan}
		a.Query.Column = "`back``tick`"
		a.Fails(t, d, d.Open(0), binding.ErrInvalidArgument, "back-tick")
	})
}

func TestRules_Arguments(t *testing.T) {
	d := lab.Fragments(t, apart(39, binding.Float32, 8, 100, 100)...)
	d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}}})
	ds, rows := d.Open(0), d.Live(0)
	a := lab.Ask{Queries: queries(40, binding.Float32, 2, 8), K: 5}
	a.Query.NProbes = 2

	t.Run("k above the rows", func(t *testing.T) {
		b := a
		for _, k := range []int{200, 201, 5000, 1 << 40} {
			b.K = k
			b.Exact(t, d, ds, rows)
		}
	})
	t.Run("NaN", func(t *testing.T) {
		b := a
		b.Queries = [][]float64{a.Queries[0], {0, 0, 0, lab.NaN, 0, 0, 0, 0}}
		b.Fails(t, d, ds, binding.ErrInvalidArgument, "query 1", "position 3", "NaN")
	})
	t.Run("infinity", func(t *testing.T) {
		b := a
		b.Queries = [][]float64{{0, 0, 0, 0, 0, 0, 0, -lab.Inf}, a.Queries[0]}
		b.Fails(t, d, ds, binding.ErrInvalidArgument, "query 0", "position 7", "Inf")
	})
	t.Run("wrong dimension", func(t *testing.T) {
		b := a
		b.Queries = queries(41, binding.Float32, 2, 7)
		b.Fails(t, d, ds, binding.ErrInvalidArgument, "7", "8")
	})
	t.Run("unknown column", func(t *testing.T) {
		b := a
		b.Query.Column = "Vec"
		b.Fails(t, d, ds, binding.ErrNotFound, "Vec")
		b.Query.Column = "vec.x"
		b.Fails(t, d, ds, nil, "vec.x")
	})
	t.Run("not a vector", func(t *testing.T) {
		b := a
		b.Query.Column = "category"
		b.Fails(t, d, ds, binding.ErrInvalidArgument, "category")
	})
	t.Run("unknown result column", func(t *testing.T) {
		b := a
		b.Query.Columns = []string{"id", "title"}
		b.Fails(t, d, ds, binding.ErrNotFound, "title")
	})
	t.Run("k", func(t *testing.T) {
		for _, k := range []int{0, -3} {
			b := a
			b.K = k
			b.Fails(t, d, ds, binding.ErrInvalidArgument, fmt.Sprint(k))
		}
	})
	t.Run("index name", func(t *testing.T) {
		b := a
		b.Options.IndexName = "vectors"
		b.Exact(t, d, ds, rows)
		b.Options.IndexName = "other"
		b.Fails(t, d, ds, distributed.ErrIndex, "other", "vectors")
		b.Options.IndexName, b.Metric = "vectors", oracle.Dot
		b.Fails(t, d, ds, distributed.ErrIndex, "vectors", "dot", "l2")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, way := range lab.Ways() {
			_, _, err := lab.SearchContext(ctx, ds, a.Question(t, d), way.Apply(a.Options))
			require.ErrorIs(t, err, context.Canceled, way)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		_, _, err := lab.SearchContext(ctx, ds, a.Question(t, d), a.Options)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("closed", func(t *testing.T) {
		closed, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
		require.NoError(t, err)
		plan, err := distributed.NewPlan(t.Context(), closed, a.Question(t, d), a.Options)
		require.NoError(t, err)
		require.NoError(t, closed.Close())
		require.NoError(t, closed.Close())
		_, err = plan.Execute(t.Context())
		require.ErrorIs(t, err, binding.ErrClosed)
		for _, way := range lab.Ways() {
			_, _, err := lab.Search(closed, a.Question(t, d), way.Apply(a.Options))
			require.ErrorIs(t, err, binding.ErrClosed, way)
		}
	})
}

func TestRules_EmptyDataset(t *testing.T) {
	empty := lab.Table{Dim: 8, Vectors: [][]float64{}}
	d := lab.Write(t, empty, binding.WriteOptions{})
	a := lab.Ask{Queries: queries(42, binding.Float32, 2, 8), K: 5}
	for _, options := range []distributed.Options{{}, scan, {Unindexed: distributed.Skip}} {
		a.Options = options
		a.Exact(t, d, d.Open(0), nil)
	}
	res, err := distributed.VectorSearch(t.Context(), d.Open(0), a.Question(t, d), distributed.Options{})
	require.NoError(t, err)
	require.Equal(t, 2, res.Len())
	require.EqualValues(t, 0, res.Record().NumRows())
	require.Equal(t, "_query_id", res.Record().Schema().Field(0).Name)
	res.Release()
	d.Append(lab.Random(lab.Rand(43), binding.Float32, 50, 8))
	a.Options = scan
	a.Exact(t, d, d.Open(0), d.Live(0))
}

// TestRules_Units: segments whose live fragments overlap are searched by one task, and a segment that does not say what
// it covers keeps the whole search together.
func TestRules_Units(t *testing.T) {
	t.Run("overlap", func(t *testing.T) {
		d := lab.Fragments(t, apart(44, binding.Float32, 8, 100, 100, 100, 100, 100, 100)...)
		d.Index(lab.Index{Partitions: 1, Groups: [][]int{{0}, {1}, {2}, {3}, {4}, {5}}})
		d.Do("compact", pylance.Args{"defer_index_remap": true, "target_rows_per_fragment": 200})
		ds, rows := d.Open(0), d.Live(0)
		a := lab.Ask{Queries: queries(45, binding.Float32, 3, 8), K: 20}
		a.Exact(t, d, ds, rows)
		plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), distributed.Options{Strategy: distributed.Segments, MaxTasks: 64})
		require.NoError(t, err)
		seen := map[uint32]int{}
		for _, task := range plan.Tasks() {
			for _, f := range task.Fragments {
				seen[f]++
			}
		}
		for f, n := range seen {
			require.Equal(t, 1, n, "fragment %d is searched by %d tasks", f, n)
		}
	})
	t.Run("no bitmap", func(t *testing.T) {
		d := lab.Fragments(t, apart(46, binding.Float32, 8, 100, 100, 100)...)
		d.Index(lab.Index{Name: "nobitmap", Partitions: 1, Groups: [][]int{{0}, {1}, {2}}})
		rows := d.Live(0)
		d.Do("strip_bitmaps", pylance.Args{"name": "nobitmap"})
		ds := d.Open(0)
		description, err := ds.Describe(t.Context())
		require.NoError(t, err)
		require.True(t, description.Indexes[0].Segments[0].NoBitmap)
		a := lab.Ask{Queries: queries(47, binding.Float32, 3, 8), K: 20, Ways: lab.Ways()}
		// Lance refuses to scan with such an index; its answer is passed on as a typed error, and a flat search needs none.
		a.RightOrError(t, d, ds, rows)
		flat := a
		flat.Query.NoIndex = true
		flat.Exact(t, d, ds, rows)
		for _, way := range lab.Ways() {
			plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(distributed.Options{}))
			require.NoError(t, err)
			for _, task := range plan.Tasks() {
				require.Len(t, task.Fragments, 3, "%v: %v", way, task)
			}
		}
	})
	t.Run("dead segments", func(t *testing.T) {
		d := lab.Fragments(t, apart(48, binding.Float32, 8, 100, 100, 100)...)
		d.Index(lab.Index{Partitions: 1, Groups: [][]int{{0}, {1}, {2}}})
		d.Delete("id >= 100 and id < 200")
		ds := d.Open(0)
		a := lab.Ask{Queries: queries(49, binding.Float32, 3, 8), K: 20}
		a.Exact(t, d, ds, d.Live(0))
		plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), distributed.Options{Strategy: distributed.Segments, MaxTasks: 64})
		require.NoError(t, err)
		require.Len(t, plan.Tasks(), 2)
	})
}

// TestRules_PlaceholdersNeverDisplace: when a filter leaves few rows, Lance fills up with rows at distance +Inf that its
// probes missed; in a split they must not displace a neighbour.
func TestRules_PlaceholdersNeverDisplace(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_PQ"} {
		t.Run(kind, func(t *testing.T) {
			d := lab.Create(t, clustered(50, 2000, 8), lab.Rows(500))
			i := lab.Index{Type: kind, Partitions: 10, Groups: [][]int{{0}, {1}, {2}, {3}}}
			if kind == "IVF_PQ" {
				i.SubVectors = 4
			}
			d.Index(i)
			ds, rows := d.Open(0), d.Live(0)
			for _, filter := range []struct {
				sql  string
				keep func(oracle.Row) bool
			}{
				{"id % 400 = 3", func(r oracle.Row) bool { return r.ID%400 == 3 }},
				{"id in (1, 2, 3, 1999)", func(r oracle.Row) bool { return r.ID <= 3 && r.ID > 0 || r.ID == 1999 }},
				{"id < 8", func(r oracle.Row) bool { return r.ID < 8 }},
			} {
				a := lab.Ask{Queries: clustered(51, 5, 8).Vectors, K: 10, Filter: filter.sql, Keep: filter.keep}
				ranked := a.Ranked(d, rows)
				for _, nprobes := range []int{0, 1} {
					a.Query.NProbes = nprobes
					lab.Each(t, ds, a.Question(t, d), a.Options, lab.Ways(), func(t *testing.T, got lab.Answers, _ distributed.Stats) {
						for i := range got {
							require.NoError(t, oracle.CheckOrder(got[i]))
							require.LessOrEqual(t, len(got[i]), len(ranked[i]))
						}
					})
				}
				// Fewer rows than k match, so refined answers are complete whatever was probed.
				a.Query.NProbes, a.Query.RefineFactor = 0, 2
				a.Exact(t, d, ds, rows)
			}
		})
	}
}

// TestRules_MetricOfTheIndex: left out, the metric is settled once, when planning, and every task is told it.
func TestRules_MetricOfTheIndex(t *testing.T) {
	for _, metric := range []binding.Metric{binding.L2, binding.Cosine, binding.Dot} {
		d := lab.Fragments(t, apart(52, binding.Float32, 8, 200, 200, 50)...)
		d.Index(lab.Index{Metric: oracle.Metric(metric.String()), Groups: [][]int{{0}, {1}}})
		ds := d.Open(0)
		a := lab.Ask{Metric: oracle.Metric(metric.String()), Omit: true, Queries: queries(53, binding.Float32, 3, 8), K: 10, Options: scan}
		a.Query.NProbes = 1
		a.Exact(t, d, ds, d.Live(0))
		for _, way := range lab.Ways() {
			plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(a.Options))
			require.NoError(t, err)
			for _, task := range plan.Tasks() {
				require.Equal(t, metric, task.Metric, "%v: %v", way, task)
			}
		}
	}
}
