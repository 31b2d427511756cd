package binding_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/binding"
)

// points gives n rows: row i has the vector (i, 0).
func points(n int) array.RecordReader {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "vec", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	vectors := b.Field(1).(*array.FixedSizeListBuilder)
	for i := range n {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		vectors.Append(true)
		vectors.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{float32(i), 0}, nil)
	}
	record := b.NewRecord()
	defer record.Release()
	reader, err := array.NewRecordReader(schema, []arrow.Record{record})
	if err != nil {
		panic(err)
	}
	return reader
}

func query(values ...float32) binding.Vectors {
	v := binding.Vectors{Type: binding.Float32, Queries: 1, Dim: len(values)}
	for _, f := range values {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(f))
	}
	return v
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lanceknn-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	uri := filepath.Join(dir, "points.lance")

	reader := points(100)
	defer reader.Release()
	version, err := binding.Write(ctx, uri, reader, binding.WriteOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}

	ds, err := binding.Open(ctx, uri, binding.OpenOptions{Version: version})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ds.Close()

	found, err := ds.Search(ctx, binding.SearchRequest{Column: "vec", Filter: "id >= 10", Vectors: query(9, 0), K: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := ds.Take(ctx, found.RowID, []string{"id"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Release()
	for i, distance := range found.Distance {
		fmt.Println(rows.Column(0).(*array.Int64).Value(i), distance)
	}
	// Output:
	// 10 1
	// 11 4
	// 12 9
}

func ExampleDataset_Describe() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lanceknn-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	uri := filepath.Join(dir, "points.lance")

	reader := points(100)
	defer reader.Release()
	if _, err := binding.Write(ctx, uri, reader, binding.WriteOptions{MaxRowsPerFile: 40}); err != nil {
		fmt.Println(err)
		return
	}
	ds, err := binding.Open(ctx, uri, binding.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ds.Close()

	description, err := ds.Describe(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range description.Fragments {
		fmt.Println(f.ID, f.LiveRows())
	}
	column, err := ds.Column(ctx, "vec")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(column.Type, column.Dim)
	// Output:
	// 0 40
	// 1 40
	// 2 20
	// float32 2
}
