package distributed

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

func fieldNames(rec arrow.Record) []string {
	var names []string
	for _, f := range rec.Schema().Fields() {
		names = append(names, f.Name)
	}
	return names
}

func int32s(a arrow.Array) []int32 { return a.(*array.Int32).Int32Values() }

type lockedBuffer struct {
	lock sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.Buffer.Write(p)
}

func captured() (*slog.Logger, *lockedBuffer) {
	b := &lockedBuffer{}
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})), b
}

func TestResult_Record(t *testing.T) {
	tab := line(10, 10).index("x", []uint32{0}, []uint32{1})
	every(t, func(t *testing.T, o Options) {
		mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
		defer mem.AssertSize(t, 0)
		o.Allocator = mem
		r, err := tab.try(t.Context(), Query{Column: "vec", Vectors: at(9.9, 0), K: 2, Columns: []string{"title", "id"}}, o)
		require.NoError(t, err)
		rec := r.Record()
		require.Same(t, rec, r.Record(), "built once")
		schema := rec.Schema()
		require.Equal(t, []string{"_query_id", "_distance", "_rowid", "title", "id"}, fieldNames(rec))
		require.Equal(t, arrow.PrimitiveTypes.Int32, schema.Field(0).Type)
		require.Equal(t, arrow.PrimitiveTypes.Float32, schema.Field(1).Type)
		require.Equal(t, arrow.PrimitiveTypes.Uint64, schema.Field(2).Type)
		require.Equal(t, []int32{0, 0, 1, 1}, int32s(rec.Column(0)))
		require.InDeltaSlice(t, []float32{0.01, 0.81, 0, 1}, rec.Column(1).(*array.Float32).Float32Values(), 1e-4)
		require.Equal(t, tab.ids(10, 9, 0, 1), rec.Column(2).(*array.Uint64).Uint64Values())
		require.Equal(t, []int64{10, 9, 0, 1}, rec.Column(4).(*array.Int64).Int64Values())
		require.Equal(t, "title 10", rec.Column(3).(*array.String).Value(0))

		rec.Retain()
		r.Release()
		r.Release()
		require.Nil(t, r.Record())
		require.Equal(t, tab.ids(10, 9), rowIDs(r.Neighbors(0)), "neighbours outlive the record")
		require.Equal(t, int64(4), rec.NumRows(), "retained")
		rec.Release()
	})
}

func TestResult_RowsFoundByTwoQueries(t *testing.T) {
	tab := line(10)
	r := tab.search(t, Query{Column: "vec", Vectors: at(3, 3), K: 2, Columns: []string{"id"}}, Options{})
	require.Len(t, tab.takes, 1)
	require.Equal(t, []int64{3, 2, 3, 2}, r.Record().Column(3).(*array.Int64).Int64Values())
}

func TestResult_WithoutColumnsNothingIsTaken(t *testing.T) {
	tab := line(10)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	r, err := tab.try(t.Context(), Query{Column: "vec", Vectors: at(3), K: 2}, Options{Allocator: mem})
	require.NoError(t, err)
	require.Empty(t, tab.takes)
	require.Zero(t, mem.CurrentAlloc(), "the record is built on demand")
	require.Equal(t, []string{"_query_id", "_distance", "_rowid"}, fieldNames(r.Record()))
	r.Release()
}

func TestResult_ReleasedWithoutReadingTheRecord(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	r, err := line(10).try(t.Context(), Query{Column: "vec", Vectors: at(3), K: 2, Columns: []string{"title"}}, Options{Allocator: mem})
	require.NoError(t, err)
	r.Release()
}

func TestResult_ConcurrentUse(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	r, err := line(10).try(t.Context(), Query{Column: "vec", Vectors: at(3), K: 2, Columns: []string{"title"}}, Options{Allocator: mem})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { _ = r.Neighbors(0); r.Record() })
		wg.Go(func() { r.Release() })
	}
	wg.Wait()
}
