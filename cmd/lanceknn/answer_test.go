package main

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

// testAnswer has two neighbours for query 0, none for query 1 and one for query 2.
func testAnswer(t *testing.T) answer {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "_query_id", Type: arrow.PrimitiveTypes.Int32},
		{Name: "_distance", Type: arrow.PrimitiveTypes.Float32},
		{Name: "_rowid", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "a \"title\"", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	b.Field(0).(*array.Int32Builder).AppendValues([]int32{0, 0, 2}, nil)
	b.Field(1).(*array.Float32Builder).AppendValues([]float32{0.25, float32(math.Inf(1)), float32(math.Inf(-1))}, nil)
	b.Field(2).(*array.Uint64Builder).AppendValues([]uint64{1, 1 << 60, math.MaxUint64}, nil)
	b.Field(3).(*array.Int64Builder).AppendValues([]int64{-9007199254740993, 2, 0}, []bool{true, true, false})
	b.Field(4).(*array.StringBuilder).AppendValues([]string{"x", "y <z>", ""}, nil)
	return answer{
		version: 7, index: "vec_idx", strategy: "segments", tasks: 3, liveRows: 100, coveredRows: 100,
		queries: 3, record: b.NewRecord(), elapsed: 1234567 * time.Nanosecond,
	}
}

func TestAnswer_JSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, testAnswer(t).writeJSON(&out))
	require.Equal(t, `{"version":7,"index":"vec_idx","strategy":"segments","tasks":3,"coverage":{"live_rows":100,"covered_rows":100},"queries":[`+
		`{"query_id":0,"neighbors":[{"_rowid":1,"_distance":0.25,"id":-9007199254740993,"a \"title\"":"x"},`+
		`{"_rowid":1152921504606846976,"_distance":"inf","id":2,"a \"title\"":"y <z>"}]},`+
		`{"query_id":1,"neighbors":[]},`+
		`{"query_id":2,"neighbors":[{"_rowid":18446744073709551615,"_distance":"-inf","id":null,"a \"title\"":""}]}],"elapsed_ms":1.234}`+"\n",
		out.String())
	require.True(t, json.Valid(out.Bytes()))
}

func TestAnswer_JSONWithoutIndexOrRows(t *testing.T) {
	a := testAnswer(t)
	a.index, a.queries = "", 1
	a.record = a.record.NewSlice(0, 0)
	var out bytes.Buffer
	require.NoError(t, a.writeJSON(&out))
	require.Contains(t, out.String(), `"index":null`)
	require.Contains(t, out.String(), `"queries":[{"query_id":0,"neighbors":[]}]`)
}

func TestAnswer_Table(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, testAnswer(t).writeTable(&out))
	require.Equal(t, ""+
		"_query_id  _distance                _rowid                 id  a \"title\"\n"+
		"        0       0.25                     1  -9007199254740993  x\n"+
		"        0        inf   1152921504606846976                  2  y <z>\n"+
		"        2       -inf  18446744073709551615               null\n", out.String())
}

func TestAnswer_Arrow(t *testing.T) {
	a := testAnswer(t)
	var out bytes.Buffer
	require.NoError(t, a.writeArrow(&out))
	r, err := ipc.NewReader(&out)
	require.NoError(t, err)
	defer r.Release()
	require.True(t, r.Next())
	require.True(t, array.RecordEqual(a.record, r.Record()))
	require.False(t, r.Next())
}

func TestShow_SaysWhatItDidNotSearch(t *testing.T) {
	a := testAnswer(t)
	a.coveredRows = 60
	var out, errs bytes.Buffer
	require.NoError(t, console{out: &out, err: &errs}.show("json", a))
	require.Equal(t, "lanceknn: searched 60 of 100 rows: the others are in no segment of the index\n", errs.String())

	errs.Reset()
	a = testAnswer(t)
	a.why = "the only one"
	require.NoError(t, console{out: &out, err: &errs}.show("json", a))
	require.Empty(t, errs.String())
	a.index, a.why = "", "there is no vector index"
	require.NoError(t, console{out: &out, err: &errs}.show("json", a))
	require.Equal(t, "lanceknn: no index was used: there is no vector index\n", errs.String())

	errs.Reset()
	require.NoError(t, console{out: &out, err: &errs}.show("table", testAnswer(t)))
	require.Empty(t, errs.String(), "nothing extra in a pipe")
	require.NoError(t, console{out: &out, err: &errs, errTerminal: true}.show("table", testAnswer(t)))
	require.Contains(t, errs.String(), "3 rows for 3 queries")
}
