package render

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

func values(t *testing.T, kind arrow.DataType, text string) arrow.Array {
	t.Helper()
	a, _, err := array.FromJSON(memory.NewGoAllocator(), kind, strings.NewReader(text), array.WithUseNumber())
	require.NoError(t, err)
	return a
}

func TestAppendJSON(t *testing.T) {
	for _, c := range []struct {
		kind arrow.DataType
		in   string
		want []string
	}{
		{arrow.PrimitiveTypes.Int64, `[9223372036854775807, -9007199254740993, null]`, []string{"9223372036854775807", "-9007199254740993", "null"}},
		{arrow.PrimitiveTypes.Uint64, `[18446744073709551615]`, []string{"18446744073709551615"}},
		{arrow.PrimitiveTypes.Int8, `[-128]`, []string{"-128"}},
		{arrow.PrimitiveTypes.Float32, `[0.1, 1e30]`, []string{"0.1", "1e+30"}},
		{arrow.PrimitiveTypes.Float64, `[0.1]`, []string{"0.1"}},
		{arrow.FixedWidthTypes.Boolean, `[true, false]`, []string{"true", "false"}},
		{arrow.BinaryTypes.String, `["a<\"b\">\n", "é"]`, []string{`"a<\"b\">\n"`, `"é"`}},
		{arrow.BinaryTypes.LargeString, `["x"]`, []string{`"x"`}},
		{arrow.BinaryTypes.Binary, `["AAH/"]`, []string{`"AAH/"`}},
		{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `["AAH/"]`, []string{`"AAH/"`}},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1, null], [], null]`, []string{"[1,null]", "[]", "null"}},
		{arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), `[[1, 2], [3, 4]]`, []string{"[1,2]", "[3,4]"}},
		{
			arrow.StructOf(arrow.Field{Name: "a b", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, arrow.Field{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String)}),
			`[{"a b": 1, "l": ["x"]}, {"a b": null, "l": []}]`,
			[]string{`{"a b":1,"l":["x"]}`, `{"a b":null,"l":[]}`},
		},
		{arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32), `[[{"key": "k", "value": 1}]]`, []string{`[{"key":"k","value":1}]`}},
		{&arrow.TimestampType{Unit: arrow.Microsecond}, `["2024-02-03 04:05:06.789"]`, []string{`"2024-02-03T04:05:06.789"`}},
		{&arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}, `["2024-02-03 04:05:06"]`, []string{`"2024-02-03T04:05:06Z"`}},
		{arrow.FixedWidthTypes.Date32, `["2024-02-03"]`, []string{`"2024-02-03"`}},
		{&arrow.Decimal128Type{Precision: 20, Scale: 2}, `["123456789012345678.25"]`, []string{`"123456789012345678.25"`}},
		{&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, `["b", "a", "b"]`, []string{`"b"`, `"a"`, `"b"`}},
		{arrow.Null, `[null]`, []string{"null"}},
	} {
		a := values(t, c.kind, c.in)
		for i, want := range c.want {
			got := string(AppendJSON(nil, a, i))
			require.Equal(t, want, got, "%s %d", c.kind, i)
			require.True(t, json.Valid([]byte(got)))
		}
	}
}

func TestAppendJSON_NonFinite(t *testing.T) {
	mem := memory.NewGoAllocator()
	b32, b64, b16 := array.NewFloat32Builder(mem), array.NewFloat64Builder(mem), array.NewFloat16Builder(mem)
	for _, f := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		b32.Append(float32(f))
		b64.Append(f)
		b16.Append(float16.New(float32(f)))
	}
	for _, a := range []arrow.Array{b32.NewArray(), b64.NewArray(), b16.NewArray()} {
		for i, want := range []string{`"inf"`, `"-inf"`, `"nan"`} {
			require.Equal(t, want, string(AppendJSON(nil, a, i)), a.DataType())
		}
	}
}

func TestAppendJSON_SlicedNested(t *testing.T) {
	a := values(t, arrow.ListOf(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32)), `[[[0, 0]], [[1, 2], [3, 4]], [[5, 6]]]`)
	require.Equal(t, "[[1,2],[3,4]]", string(AppendJSON(nil, array.NewSlice(a, 1, 3), 0)))
	f := values(t, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32), `[[0, 0], [1, 2], [3, 4]]`)
	require.Equal(t, "[3,4]", string(AppendJSON(nil, array.NewSlice(f, 1, 3), 1)))
	s := values(t, arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int32}), `[{"x": 1}, {"x": 2}]`)
	require.Equal(t, `{"x":2}`, string(AppendJSON(nil, array.NewSlice(s, 1, 2), 0)))
}

func TestCell(t *testing.T) {
	for _, c := range []struct {
		kind arrow.DataType
		in   string
		want string
	}{
		{arrow.PrimitiveTypes.Float32, `[0.123456789]`, "0.123457"},
		{arrow.PrimitiveTypes.Float32, `[null]`, "null"},
		{arrow.BinaryTypes.String, `["two\nlines\tand \u001b[31mcolour"]`, "two lines and  [31mcolour"},
		{arrow.BinaryTypes.String, `["` + strings.Repeat("é", 60) + `"]`, strings.Repeat("é", 47) + "…"},
		{arrow.FixedWidthTypes.Date32, `["2024-02-03"]`, "2024-02-03"},
		{arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1, 2]]`, "[1,2]"},
	} {
		require.Equal(t, c.want, Cell(values(t, c.kind, c.in), 0))
	}
	require.Equal(t, "inf", Float(math.Inf(1)))
	require.Equal(t, "-inf", Float(math.Inf(-1)))
}

func TestTable_Aligns(t *testing.T) {
	var b strings.Builder
	_, err := Table{
		Header: []string{"id", "title"},
		Rows:   [][]string{{"7", "é"}, {"1000", "a long one"}},
		Left:   []bool{false, true},
	}.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, "  id  title\n   7  é\n1000  a long one\n", b.String())
}
