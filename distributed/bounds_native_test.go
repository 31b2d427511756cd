package distributed_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
)

const boundsDim = 16

func near(random *rand.Rand, centre []float32, spread float64) []float32 {
	v := make([]float32, len(centre))
	for i := range v {
		v[i] = centre[i] + float32(random.NormFloat64()*spread)
	}
	return v
}

// clustered writes a segment for each fragment, with clusters of its own that lie far apart, and gives the rows and a query in each of some clusters.
func clustered(t *testing.T) (ds *binding.Dataset, rows, queries [][]float32) {
	const fragments, clusters, size = 8, 12, 50
	require.NoError(t, binding.Load())
	random := rand.New(rand.NewPCG(5, 6))
	schema := arrow.NewSchema([]arrow.Field{{Name: "vec", Type: arrow.FixedSizeListOf(boundsDim, arrow.PrimitiveTypes.Float32)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(0).(*array.FixedSizeListBuilder)
	for range fragments {
		for c := range clusters {
			centre := near(random, make([]float32, boundsDim), 10)
			for range size {
				v := near(random, centre, 0.5)
				rows = append(rows, v)
				list.Append(true)
				list.ValueBuilder().(*array.Float32Builder).AppendValues(v, nil)
			}
			if c%6 == 0 {
				queries = append(queries, near(random, centre, 0.5))
			}
		}
	}
	record := b.NewRecord()
	defer record.Release()
	reader, err := array.NewRecordReader(schema, []arrow.Record{record})
	require.NoError(t, err)
	defer reader.Release()
	uri := filepath.Join(t.TempDir(), "t.lance")
	_, err = binding.Write(t.Context(), uri, reader, binding.WriteOptions{MaxRowsPerFile: clusters * size})
	require.NoError(t, err)
	first, err := binding.Open(t.Context(), uri, binding.OpenOptions{})
	require.NoError(t, err)
	defer first.Close()
	version, err := distributed.BuildIndex(t.Context(), first, distributed.BuildOptions{Column: "vec", Type: "IVF_FLAT", Partitions: 24, Segments: fragments})
	require.NoError(t, err)
	ds, err = binding.Open(t.Context(), uri, binding.OpenOptions{Version: version})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ds.Close()) })
	return ds, rows, queries
}

// nearestRows gives the addresses of the k nearest rows.
func nearestRows(rows [][]float32, q []float32, k, perFragment int) []uint64 {
	type hit struct {
		distance float64
		id       uint64
	}
	hits := make([]hit, len(rows))
	for i, v := range rows {
		hits[i].id = uint64(i/perFragment)<<32 | uint64(i%perFragment)
		for j := range v {
			d := float64(v[j]) - float64(q[j])
			hits[i].distance += d * d
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.distance, b.distance) })
	var ids []uint64
	for _, h := range hits[:k] {
		ids = append(ids, h.id)
	}
	return ids
}

func TestBounds_SpareTasksThatWaited(t *testing.T) {
	const k = 10
	effort := 0.7
	ds, rows, queries := clustered(t)
	q := distributed.Query{Column: "vec", Vectors: distributed.Float32(slices.Concat(queries...), boundsDim), K: k, SearchEffort: &effort}
	warm, err := distributed.VectorSearch(t.Context(), ds, q, distributed.Options{}) // reading ahead from storage reads a few more
	require.NoError(t, err)
	warm.Release()
	for _, o := range []distributed.Options{
		{Strategy: distributed.Segments, MaxTasks: 8, Threads: 1},
		{Strategy: distributed.Segments, MaxTasks: 8, Threads: 2},
		{Strategy: distributed.Grid, MaxTasks: 8, Threads: 2},
	} {
		t.Run(fmt.Sprintf("%s/threads=%d", o.Strategy, o.Threads), func(t *testing.T) {
			plan, err := distributed.NewPlan(t.Context(), ds, q, o)
			require.NoError(t, err)
			require.Greater(t, len(plan.Tasks()), o.Threads)
			var without uint64
			for _, task := range plan.Tasks() {
				require.Nil(t, task.Bounds)
				found, err := distributed.RunTask(t.Context(), ds, task)
				require.NoError(t, err)
				without += found.Stats.PartitionsSearched
			}
			result, err := plan.Execute(t.Context())
			require.NoError(t, err)
			defer result.Release()
			t.Logf("%d tasks read %d partitions, %d when each is by itself", result.Stats.Tasks, result.Stats.PartitionsSearched, without)
			require.Equal(t, result.Stats.Tasks, result.Stats.DirectTasks)
			require.LessOrEqual(t, result.Stats.PartitionsSearched, without)
			if o.Threads == 1 { // otherwise who waits for whom is up to the machine
				require.Less(t, result.Stats.PartitionsSearched, without*9/10)
			}
			for i, query := range queries {
				var got []uint64
				for _, n := range result.Neighbors(i) {
					got = append(got, n.RowID)
				}
				require.Equal(t, nearestRows(rows, query, k, len(rows)/8), got, "query %d", i)
			}
		})
	}
}
