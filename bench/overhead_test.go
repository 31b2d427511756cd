package main

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
)

const (
	rows, dim, fragments = 40_000, 128, 8
	column               = "vec"
	k                    = 10
	// allocationLimit is the goal for one warm query, everything included.
	allocationLimit = 60
)

// table writes vectors around a few centres, and an IVF_FLAT index of one segment per fragment.
func table(tb testing.TB) (*binding.Dataset, [][]float32) {
	tb.Helper()
	require.NoError(tb, binding.Load())
	ctx, uri := context.Background(), filepath.Join(tb.TempDir(), "t.lance")
	random := rand.New(rand.NewPCG(3, 4))
	centres := make([][]float32, 100)
	for i := range centres {
		centres[i] = around(random, make([]float32, dim), 1)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.FixedSizeListOf(dim, arrow.PrimitiveTypes.Float32)}}, nil)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	list := builder.Field(0).(*array.FixedSizeListBuilder)
	values := list.ValueBuilder().(*array.Float32Builder)
	for range rows {
		list.Append(true)
		values.AppendValues(around(random, centres[random.IntN(len(centres))], 0.3), nil)
	}
	record := builder.NewRecord()
	defer record.Release()
	reader, err := array.NewRecordReader(schema, []arrow.Record{record})
	require.NoError(tb, err)
	defer reader.Release()
	_, err = binding.Write(ctx, uri, reader, binding.WriteOptions{MaxRowsPerFile: rows / fragments})
	require.NoError(tb, err)

	ds, err := binding.Open(ctx, uri, binding.OpenOptions{})
	require.NoError(tb, err)
	description, err := ds.Describe(ctx)
	require.NoError(tb, err)
	require.Len(tb, description.Fragments, fragments)
	var segments []binding.IndexSegment
	for _, f := range description.Fragments {
		segment, err := ds.CreateIndexSegment(ctx, binding.IndexOptions{
			Column: column, Type: "IVF_FLAT", Metric: binding.L2, Partitions: 70, SampleRate: 32, Fragments: []uint32{f.ID},
		})
		require.NoError(tb, err)
		segments = append(segments, segment)
	}
	version, err := ds.CommitIndexSegments(ctx, "idx", column, segments)
	require.NoError(tb, err)
	require.NoError(tb, ds.Close())
	ds, err = binding.Open(ctx, uri, binding.OpenOptions{Version: version})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, ds.Close()) })

	queries := make([][]float32, 64)
	for i := range queries {
		queries[i] = around(random, centres[i%len(centres)], 0.3)
	}
	return ds, queries
}

func around(random *rand.Rand, centre []float32, spread float64) []float32 {
	v := make([]float32, len(centre))
	for i := range v {
		v[i] = centre[i] + float32(random.NormFloat64()*spread)
	}
	return v
}

func query(vector []float32) distributed.Query {
	return distributed.Query{Column: column, Vectors: distributed.Float32(vector, dim), K: k}
}

// BenchmarkVectorSearch is a warm query through the whole library: plan, search, merge, result.
func BenchmarkVectorSearch(b *testing.B) {
	ds, queries := table(b)
	ctx := context.Background()
	for _, strategy := range []distributed.Strategy{distributed.Auto, distributed.Single, distributed.Segments, distributed.Queries, distributed.Grid} {
		b.Run(strategy.String(), func(b *testing.B) {
			b.ReportAllocs()
			var outside []time.Duration
			i := 0
			for b.Loop() {
				begin := time.Now()
				result, err := distributed.VectorSearch(ctx, ds, query(queries[i%len(queries)]), distributed.Options{Strategy: strategy})
				elapsed := time.Since(begin)
				if err != nil {
					b.Fatal(err)
				}
				outside = append(outside, elapsed-result.Stats.Search)
				result.Release()
				i++
			}
			percentiles(b, outside, "outside-search-ns")
		})
	}
}

// BenchmarkNativeCall is the search alone, through the binding. What it takes beyond the native library's own clock is the price of Go and the FFI.
func BenchmarkNativeCall(b *testing.B) {
	ds, queries := table(b)
	ctx := context.Background()
	segments := segmentsOf(b, ds)
	b.ReportAllocs()
	var outside []time.Duration
	i := 0
	for b.Loop() {
		request := binding.SearchRequest{Column: column, K: k, Segments: segments, Vectors: vectors(queries[i%len(queries)])}
		begin := time.Now()
		found, err := ds.Search(ctx, request)
		elapsed := time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		outside = append(outside, elapsed-found.Stats.Total)
		i++
	}
	percentiles(b, outside, "outside-native-ns")
}

func percentiles(b *testing.B, durations []time.Duration, unit string) {
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)/2].Nanoseconds()), "p50-"+unit)
	b.ReportMetric(float64(durations[len(durations)*99/100].Nanoseconds()), "p99-"+unit)
}

func segmentsOf(tb testing.TB, ds *binding.Dataset) []binding.SegmentID {
	tb.Helper()
	description, err := ds.Describe(context.Background())
	require.NoError(tb, err)
	require.Len(tb, description.Indexes, 1)
	var ids []binding.SegmentID
	for _, s := range description.Indexes[0].Segments {
		ids = append(ids, s.ID)
	}
	return ids
}

func vectors(v []float32) binding.Vectors {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return binding.Vectors{Data: data, Type: binding.Float32, Queries: 1, Dim: len(v)}
}

func TestWarmQuery_Allocations(t *testing.T) {
	ds, queries := table(t)
	ctx := context.Background()
	i := 0
	search := func() {
		result, err := distributed.VectorSearch(ctx, ds, query(queries[i%len(queries)]), distributed.Options{})
		require.NoError(t, err)
		require.Equal(t, 1, result.Len())
		require.Len(t, result.Neighbors(0), k)
		result.Release()
		i++
	}
	for range len(queries) {
		search()
	}
	allocations := testing.AllocsPerRun(200, search)
	t.Logf("%.0f allocations per warm query", allocations)
	require.LessOrEqual(t, allocations, float64(allocationLimit))
}
