package reports

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// status reads a number of /proc/self/status, such as VmRSS in kB or Threads.
func status(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("no %s in /proc/self/status", name)
	return 0
}

// reader gives the records of a table, and may fail before one of them.
type reader struct {
	array.RecordReader
	left int
	err  error
}

func (r *reader) Next() bool {
	if r.left == 0 {
		return false
	}
	r.left--
	return r.RecordReader.Next()
}

func (r *reader) Err() error {
	if r.left == 0 && r.err != nil {
		return r.err
	}
	return r.RecordReader.Err()
}

func TestReport30_RecordsOfAWrite(t *testing.T) {
	lab.Child(t, func() {
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "vec", Type: arrow.FixedSizeListOf(16, arrow.PrimitiveTypes.Float32)}}, nil)
		folder := t.TempDir()
		failure := fmt.Errorf("the source broke")
		round := func(i int) {
			var records []arrow.Record
			for range 10 {
				b := array.NewRecordBuilder(mem, schema)
				for id := range int64(20) {
					b.Field(0).(*array.Int64Builder).Append(id)
					list := b.Field(1).(*array.FixedSizeListBuilder)
					list.Append(true)
					for range 16 {
						list.ValueBuilder().(*array.Float32Builder).Append(float32(id))
					}
				}
				records = append(records, b.NewRecord())
				b.Release()
			}
			all, err := array.NewRecordReader(schema, records)
			require.NoError(t, err)
			for _, r := range records {
				r.Release()
			}
			uri := fmt.Sprintf("%s/%d.lance", folder, i)
			ctx, cancel := context.WithCancel(t.Context())
			switch i % 4 {
			case 0: // consumed
				_, err = binding.Write(ctx, uri, all, binding.WriteOptions{})
				require.NoError(t, err)
			case 1: // half consumed
				_, err = binding.Write(ctx, uri, &reader{RecordReader: all, left: 5, err: failure}, binding.WriteOptions{})
				require.ErrorIs(t, err, failure)
			case 2: // refused before the end: there is a dataset already
				_, err = binding.Write(ctx, fmt.Sprintf("%s/%d.lance", folder, i-2), all, binding.WriteOptions{})
				require.ErrorIs(t, err, binding.ErrAlreadyExists)
			case 3: // not consumed
				cancel()
				_, err = binding.Write(ctx, uri, all, binding.WriteOptions{})
				require.ErrorIs(t, err, context.Canceled)
			}
			cancel()
			all.Release()
			mem.AssertSize(t, 0)
			require.NoError(t, os.RemoveAll(uri+"x"))
			if i%4 == 3 {
				require.NoError(t, os.RemoveAll(fmt.Sprintf("%s/%d.lance", folder, i-3)))
			}
		}
		for i := range 200 {
			round(i)
		}
		runtime.GC()
		before := status(t, "VmRSS")
		for i := 200; i < 1200; i++ {
			round(i)
		}
		runtime.GC()
		require.Less(t, status(t, "VmRSS")-before, 30<<10, "kB more after 1000 rounds")
		require.Zero(t, binding.LiveHandles())
	})
}

func TestReport31_ReleasedTwice(t *testing.T) {
	d := lab.Fragments(t, lines(2)...)
	d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}))
	a := lab.Ask{Queries: origin(4), K: 3}
	for _, way := range lab.FewWays() {
		ds, err := binding.Open(t.Context(), d.URI, binding.OpenOptions{})
		require.NoError(t, err)
		o := way.Apply(distributed.Options{})
		mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
		o.Allocator = mem
		q := a.Question(t, d)
		q.Columns = []string{"id", "vec"}
		res, err := distributed.VectorSearch(t.Context(), ds, q, o)
		require.NoError(t, err)
		taken, err := ds.Take(t.Context(), []uint64{1, 0}, []string{"id"}, mem)
		require.NoError(t, err)
		bad := a
		bad.Filter = "nosuch = 1"
		_, _, err = lab.Search(ds, bad.Question(t, d), o)
		require.Error(t, err)
		func() { // a panic of the caller between getting a result and releasing it
			defer func() { require.Equal(t, "mine", recover()) }()
			defer res.Release()
			panic("mine")
		}()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = ds.Close() })
			wg.Go(res.Release)
		}
		wg.Wait()
		require.NoError(t, ds.Close())
		res.Release()
		require.Equal(t, int64(1), taken.Column(0).(*array.Int64).Value(0), "a record outlives the dataset it came from")
		taken.Release()
		mem.AssertSize(t, 0)
		_, _, err = lab.Search(ds, a.Question(t, d), o)
		require.ErrorIs(t, err, binding.ErrClosed)
		_, err = ds.Take(t.Context(), []uint64{0}, []string{"id"}, nil)
		require.ErrorIs(t, err, binding.ErrClosed)
		_, err = ds.Describe(t.Context())
		require.ErrorIs(t, err, binding.ErrClosed)
	}
}

func TestReport32_Offsets(t *testing.T) {
	const n = 40
	table := lab.Line(0, n)
	table.Extra = []lab.Extra{{Name: "text"}, {Name: "other"}, {Name: "maybe"}}
	for i := range n {
		table.Extra[0].Strings = append(table.Extra[0].Strings, strings.Repeat("x", i)+strconv.Itoa(i))
		v := []float64{float64(i), float64(-i), 0.5, 1}
		if i%3 == 0 {
			v = nil
		}
		table.Extra[1].Vectors = append(table.Extra[1].Vectors, v)
		var maybe *bool
		if i%5 != 0 {
			maybe = lab.Ptr(i%2 == 1)
		}
		table.Extra[2].Bools = append(table.Extra[2].Bools, maybe)
	}
	d := lab.Create(t, table, lab.Rows(15))
	d.Do("add_columns", map[string]any{"columns": map[string]string{
		"odd": "id % 2 = 1", "part": "named_struct('a', id, 'b', id % 3 = 0)",
	}})
	d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}, []int{2}))
	ds := d.Open(0)
	columns := []string{"id", "text", "other", "odd", "maybe", "part", "part.a"}
	check := func(t *testing.T, record arrow.Record, ids []int64) {
		t.Helper()
		require.Equal(t, int64(len(ids)), record.NumRows())
		column := func(name string) arrow.Array {
			at := record.Schema().FieldIndices(name)
			require.Len(t, at, 1, "%s in %v", name, record.Schema())
			return record.Column(at[0])
		}
		for i, id := range ids {
			require.Equal(t, id, column("id").(*array.Int64).Value(i))
			require.Equal(t, table.Extra[0].Strings[id], column("text").(*array.String).Value(i))
			require.Equal(t, id%2 == 1, column("odd").(*array.Boolean).Value(i))
			require.Equal(t, id%5 == 0, column("maybe").IsNull(i))
			if id%5 != 0 {
				require.Equal(t, id%2 == 1, column("maybe").(*array.Boolean).Value(i))
			}
			part := column("part").(*array.Struct)
			require.Equal(t, id, part.Field(0).(*array.Int64).Value(i))
			require.Equal(t, id%3 == 0, part.Field(1).(*array.Boolean).Value(i))
			other := column("other").(*array.FixedSizeList)
			require.Equal(t, id%3 == 0, other.IsNull(i), "row %d", id)
			if id%3 != 0 {
				from, to := other.ValueOffsets(i)
				require.Equal(t, int64(4), to-from)
				require.Equal(t, []float32{float32(id), float32(-id), 0.5, 1}, other.ListValues().(*array.Float32).Float32Values()[from:to])
			}
		}
	}
	rowIDOf := map[int64]uint64{}
	for _, r := range d.Live(0) {
		rowIDOf[r.ID] = r.RowID
	}
	for _, ids := range [][]int64{{8, 9}, {9}, {3, 4, 5, 6, 7, 8, 9, 10, 11}, {39, 0, 17, 17, 16}, {}} {
		t.Run(fmt.Sprintf("take %v", ids), func(t *testing.T) {
			var rows []uint64
			for _, id := range ids {
				rows = append(rows, rowIDOf[id])
			}
			record, err := ds.Take(t.Context(), rows, columns[:6], nil)
			require.NoError(t, err)
			defer record.Release()
			check(t, record, ids)
			for i := range ids { // and a slice of what came
				slice := record.NewSlice(int64(i), int64(len(ids)))
				check(t, slice, ids[i:])
				slice.Release()
			}
		})
	}
	for _, offset := range []int{0, 3, 8, 13} {
		for _, way := range lab.FewWays() {
			t.Run(fmt.Sprintf("search %d/%v", offset, way), func(t *testing.T) {
				q := lab.Ask{Queries: [][]float64{{0, 0, 0, 0}, {20.2, 0, 0, 0}}, K: 2, Offset: offset}.Question(t, d)
				q.Columns = columns[:6]
				res, err := distributed.VectorSearch(t.Context(), ds, q, way.Apply(distributed.Options{}))
				require.NoError(t, err)
				defer res.Release()
				var ids []int64
				for q := range 2 {
					for _, n := range res.Neighbors(q) {
						for id, row := range rowIDOf {
							if row == n.RowID {
								ids = append(ids, id)
							}
						}
					}
				}
				require.Equal(t, []int64{int64(offset), int64(offset) + 1}, ids[:2])
				check(t, res.Record(), ids)
			})
		}
	}
}

func TestReport34_Signals(t *testing.T) {
	lab.Child(t, func() {
		caught := func() string {
			text, err := os.ReadFile("/proc/self/status")
			require.NoError(t, err)
			_, after, _ := strings.Cut(string(text), "SigCgt:")
			mask, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
			return mask
		}
		ignored := func() string {
			text, err := os.ReadFile("/proc/self/status")
			require.NoError(t, err)
			_, after, _ := strings.Cut(string(text), "SigIgn:")
			mask, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
			return mask
		}
		signals := make(chan os.Signal, 64)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGCHLD, syscall.SIGPIPE, syscall.SIGUSR1)
		caughtBefore, ignoredBefore := caught(), ignored()
		require.NoError(t, binding.Load())
		d := lab.Fragments(t, lines(4)...)
		d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}, []int{2}, []int{3}))
		ds := d.Open(0)
		a := lab.Ask{Queries: origin(4), K: 3}
		search := func() {
			for _, way := range lab.FewWays() {
				got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(distributed.Options{}))
				require.NoError(t, err)
				require.Equal(t, []int64{0, 1, 2}, lab.IDs(got[0]))
			}
		}
		search()
		require.Equal(t, caughtBefore, caught(), "no signal handler appeared")
		require.Equal(t, ignoredBefore, ignored(), "no signal is ignored now that was not")
		var profile bytes.Buffer
		require.NoError(t, pprof.StartCPUProfile(&profile))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					_ = syscall.Kill(os.Getpid(), []syscall.Signal{syscall.SIGURG, syscall.SIGCHLD, syscall.SIGPIPE}[i%3])
					time.Sleep(50 * time.Microsecond)
				}
			}
		})
		wg.Go(func() {
			for range 1000 {
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Errorf("a child of the host: %v", err)
					return
				}
			}
		})
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		deadline := time.After(4 * time.Second)
	storm:
		for {
			search()
			select {
			case <-deadline:
				break storm
			default:
			}
		}
		close(stop)
		<-done
		pprof.StopCPUProfile()
		require.Positive(t, profile.Len())
		for len(signals) > 0 {
			<-signals
		}
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		require.Eventually(t, func() bool {
			select {
			case s := <-signals:
				return s == syscall.SIGINT
			default:
				return false
			}
		}, 5*time.Second, time.Millisecond, "the handler of the host still runs")
		search()
	})
}

func TestReport40_MemoryOfFlatSearch(t *testing.T) {
	const rows = 600_000
	uri := os.Getenv("LANCEKNN_TEST_BIG")
	if !lab.InChild() {
		uri = big(t, rows)
	}
	for _, tasks := range []int{1, 4, 16} {
		for _, metric := range []binding.Metric{binding.L2, binding.Cosine} {
			t.Run(fmt.Sprintf("tasks=%d/%v", tasks, metric), func(t *testing.T) {
				out := lab.Child(t, func() {
					ds := lab.Open(t, uri, binding.OpenOptions{})
					one := make([]float32, 128)
					one[0] = 1
					q := distributed.Query{Column: "vec", Vectors: distributed.Float32(one, 128), K: 500, Filter: "id % 5 < 3", NoIndex: true, Metric: metric}
					o := distributed.Options{Strategy: distributed.Segments, MaxTasks: tasks}
					small := q
					small.Filter = "id < 100"
					_, _, err := lab.Search(ds, small, o)
					require.NoError(t, err)
					before := status(t, "VmHWM")
					got, _, err := lab.Search(ds, q, o)
					require.NoError(t, err)
					require.Len(t, got[0], 500)
					for _, h := range got[0] {
						require.Less(t, h.ID%5, int64(3))
					}
					growth := status(t, "VmHWM") - before
					fmt.Printf("peak grew by %d kB\n", growth)
					require.Less(t, growth, 150<<10, "kB; the vectors read are twice that")
				}, "LANCEKNN_TEST_BIG="+uri)
				t.Log(out)
			})
		}
	}
}

// big writes a dataset of 128 dimensions in 16 fragments.
func big(t *testing.T, rows int) string {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "vec", Type: arrow.FixedSizeListOf(128, arrow.PrimitiveTypes.Float32)}}, nil)
	rng := lab.Rand(40)
	const batch = 10_000
	var records []arrow.Record
	for from := 0; from < rows; from += batch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		list := b.Field(1).(*array.FixedSizeListBuilder)
		values := make([]float32, batch*128)
		for i := range values {
			values[i] = rng.Float32()
		}
		for id := from; id < from+batch; id++ {
			b.Field(0).(*array.Int64Builder).Append(int64(id))
			list.Append(true)
		}
		list.ValueBuilder().(*array.Float32Builder).AppendValues(values, nil)
		records = append(records, b.NewRecord())
		b.Release()
	}
	r, err := array.NewRecordReader(schema, records)
	require.NoError(t, err)
	defer r.Release()
	uri := t.TempDir() + "/big.lance"
	_, err = binding.Write(t.Context(), uri, r, binding.WriteOptions{MaxRowsPerFile: rows / 16})
	require.NoError(t, err)
	for _, r := range records {
		r.Release()
	}
	return uri
}

func TestReport41_Threads(t *testing.T) {
	lab.Child(t, func() {
		rng := lab.Rand(41)
		d := lab.Create(t, lab.Random(rng, binding.Float32, 16_000, 32), lab.Rows(2000))
		groups := make([][]int, 8)
		for i := range groups {
			groups[i] = []int{i}
		}
		i := index("IVF_FLAT", oracle.L2, groups...)
		i.Partitions = 4
		d.Index(i)
		ds := d.Open(0)
		a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 32)}, K: 10}
		run := func(tasks, threads int, path binding.Path, at int) (count int) {
			var wg sync.WaitGroup
			for range at {
				wg.Go(func() {
					o := distributed.Options{Strategy: distributed.Segments, MaxTasks: tasks, Threads: threads, Path: path}
					for range 20 {
						if _, _, err := lab.Search(ds, a.Question(t, d), o); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			return status(t, "Threads")
		}
		for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
			one := run(1, 2, path, 1)
			eight := run(8, 2, path, 1)
			all := run(8, 8, path, 1)
			many := run(8, 2, path, 8)
			t.Logf("%v: %d threads after one task, %d after 8 tasks on 2 threads, %d on 8, %d with 8 searches at once", path, one, eight, all, many)
			require.LessOrEqual(t, eight, one+8, "%v", path)
			require.LessOrEqual(t, all, one+8+runtime.NumCPU(), "%v", path)
			// Each of the 16 calls into native code that can be under way holds a thread of Go's, and reads of files some of the runtime's.
			require.LessOrEqual(t, many, one+64, "%v", path)
		}
	})
}

func TestReport42_WarmSearchesReadNothing(t *testing.T) {
	rng := lab.Rand(42)
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"} {
		d := lab.Create(t, lab.Random(rng, binding.Float32, 2000, 16), lab.Rows(500))
		d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}, []int{3}))
		a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 16)}, K: 10}
		q := a.Question(t, d)
		q.Columns = []string{}
		search := func(t *testing.T, ds *binding.Dataset, way lab.Way) (distributed.Stats, time.Duration) {
			start := time.Now()
			res, err := distributed.VectorSearch(t.Context(), ds, q, way.Apply(distributed.Options{}))
			require.NoError(t, err)
			defer res.Release()
			return res.Stats, time.Since(start)
		}
		for _, way := range lab.FewWays() {
			t.Run(fmt.Sprintf("%s/%v", kind, way), func(t *testing.T) {
				cold := d.Open(0)
				first, firstTime := search(t, cold, way)
				second, secondTime := search(t, cold, way)
				warm := d.Open(0)
				require.NoError(t, warm.Prewarm(t.Context(), binding.PrewarmOptions{Index: "vectors"}))
				prewarmed, warmTime := search(t, warm, way)
				t.Logf("first %v, second %v, after prewarm %v", firstTime, secondTime, warmTime)
				require.Positive(t, first.BytesRead, "the first search reads the index")
				require.Zero(t, second.BytesRead, "the second reads nothing")
				require.Zero(t, second.Requests)
				require.Zero(t, prewarmed.BytesRead, "nor does the first after prewarming")
			})
		}
	}
}

func TestReport43_QueryMemoryOfTheCaller(t *testing.T) {
	rng := lab.Rand(43)
	for _, typ := range []binding.ValueType{binding.Float32, binding.Float16, binding.Float64} {
		for _, kind := range []string{"IVF_FLAT", ""} {
			t.Run(fmt.Sprintf("%v/%s", typ, kind), func(t *testing.T) {
				d := lab.Create(t, lab.Random(rng, typ, 2000, 16), lab.Rows(500))
				if kind != "" {
					d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}, []int{3}))
				}
				ds, rows := d.Open(0), d.Live(0)
				stop := make(chan struct{})
				var wg sync.WaitGroup
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							runtime.GC()
						}
					}
				})
				a := lab.Ask{K: 10, Options: scan}
				for range 16 {
					a.Queries = append(a.Queries, lab.RandomVector(rng, typ, 16))
				}
				ranked := a.Ranked(d, rows)
				for _, way := range lab.FewWays() {
					for range 5 {
						values := make([]float64, 0, 16*16)
						for _, q := range a.Queries {
							values = append(values, q...)
						}
						q := a.Question(t, d)
						q.Vectors = distributed.Float64(values, 16)
						plan, err := distributed.NewPlan(t.Context(), ds, q, way.Apply(a.Options))
						require.NoError(t, err)
						for i := range values { // between plan and execution
							values[i] = -values[i]
						}
						var mutate sync.WaitGroup
						mutate.Go(func() { // and during it
							for i := range 1000 * len(values) {
								values[i%len(values)]++
							}
						})
						res, err := plan.Execute(t.Context())
						require.NoError(t, err)
						mutate.Wait()
						for i := range a.Queries {
							var got []oracle.Hit
							for _, n := range res.Neighbors(i) {
								got = append(got, oracle.Hit{RowID: n.RowID, Distance: float64(n.Distance)})
							}
							tol := oracle.Single
							if typ == binding.Float16 {
								tol = oracle.Half
							}
							require.NoError(t, oracle.CheckExact(got, ranked[i], oracle.Page{K: 10}, tol), "%v", way)
						}
						res.Release()
					}
				}
				close(stop)
				wg.Wait()
			})
		}
	}
}
