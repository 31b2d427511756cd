package distributed_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
)

// write makes a dataset of 2000 rows in 4 fragments: row i has the vector (i, i, 0, 0) and the title "row i".
func write(ctx context.Context, uri string) error {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "title", Type: arrow.BinaryTypes.String},
		{Name: "vec", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float32)},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	vectors := b.Field(1).(*array.FixedSizeListBuilder)
	values := vectors.ValueBuilder().(*array.Float32Builder)
	for i := range 2000 {
		b.Field(0).(*array.StringBuilder).Append(fmt.Sprint("row ", i))
		vectors.Append(true)
		values.AppendValues([]float32{float32(i), float32(i), 0, 0}, nil)
	}
	rec := b.NewRecord()
	defer rec.Release()
	rows, err := array.NewRecordReader(schema, []arrow.Record{rec})
	if err != nil {
		return err
	}
	defer rows.Release()
	_, err = binding.Write(ctx, uri, rows, binding.WriteOptions{MaxRowsPerFile: 500})
	return err
}

// indexed gives a dataset with an index of 4 segments.
func indexed(ctx context.Context, uri string) (*binding.Dataset, error) {
	if err := write(ctx, uri); err != nil {
		return nil, err
	}
	first, err := binding.Open(ctx, uri, binding.OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer first.Close()
	version, err := distributed.BuildIndex(ctx, first, distributed.BuildOptions{Column: "vec", Type: "IVF_FLAT", Partitions: 2, Segments: 4})
	if err != nil {
		return nil, err
	}
	return binding.Open(ctx, uri, binding.OpenOptions{Version: version})
}

func ExampleVectorSearch() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lanceknn-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ds, err := indexed(ctx, filepath.Join(dir, "rows.lance"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ds.Close()

	queries := []float32{
		700.2, 700.2, 0, 0,
		1999, 1999, 0, 3,
	}
	res, err := distributed.VectorSearch(ctx, ds, distributed.Query{
		Column: "vec", Vectors: distributed.Float32(queries, 4), K: 2, Columns: []string{"title"},
	}, distributed.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Release()

	titles := res.Record().Column(3).(*array.String)
	row := 0
	for q := range res.Len() {
		for _, n := range res.Neighbors(q) {
			fmt.Printf("query %d: %s at %.2f\n", q, titles.Value(row), n.Distance)
			row++
		}
	}
	fmt.Printf("%d of %d rows covered\n", res.Stats.CoveredRows, res.Stats.LiveRows)
	// Output:
	// query 0: row 700 at 0.08
	// query 0: row 701 at 1.28
	// query 1: row 1999 at 9.00
	// query 1: row 1998 at 11.00
	// 2000 of 2000 rows covered
}

func ExamplePlan() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "lanceknn-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ds, err := indexed(ctx, filepath.Join(dir, "rows.lance"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ds.Close()

	plan, err := distributed.NewPlan(ctx, ds, distributed.Query{
		Column: "vec", Vectors: distributed.Float32([]float32{5, 5, 0, 0}, 4), K: 3, NProbes: 2,
	}, distributed.Options{Strategy: distributed.Segments, MaxTasks: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, task := range plan.Tasks() { // plan.Explain() says more
		fmt.Printf("%s task: %d segments, %d rows\n", task.Kind, len(task.Segments), task.Rows)
	}
	res, err := plan.Execute(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Release()
	fmt.Println(res.Neighbors(0))
	// Output:
	// index task: 2 segments, 1000 rows
	// index task: 2 segments, 1000 rows
	// [{5 0} {4 2} {6 2}]
}
