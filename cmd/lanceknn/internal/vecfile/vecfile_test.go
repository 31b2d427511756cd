package vecfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

// npy writes what numpy.save writes, by hand.
func npy(version byte, header string, body ...any) []byte {
	var b bytes.Buffer
	b.WriteString(npyMagic)
	b.Write([]byte{version, 0})
	if version == 1 {
		_ = binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	} else {
		_ = binary.Write(&b, binary.LittleEndian, uint32(len(header)))
	}
	b.WriteString(header)
	for _, v := range body {
		_ = binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

func dict(descr, fortran, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, fortran, shape)
}

func TestParseNPY_Types(t *testing.T) {
	for name, data := range map[string][]byte{
		"f4":    npy(1, dict("<f4", "False", "(2, 2)"), []float32{1, 2, 3, 4}),
		"f8":    npy(2, dict("<f8", "False", "(2, 2)"), []float64{1, 2, 3, 4}),
		"f2":    npy(3, dict("<f2", "False", "(2, 2)"), []uint16{0x3c00, 0x4000, 0x4200, 0x4400}),
		"u1":    npy(1, dict("|u1", "False", "(2, 2)"), []byte{1, 2, 3, 4}),
		"order": npy(1, `{"shape": (2, 2), "fortran_order": False, "descr": "<f4"}`, []float32{1, 2, 3, 4}),
	} {
		m, err := ParseNPY(data)
		require.NoError(t, err, name)
		require.Equal(t, Matrix{Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2}}, m, name)
	}
}

func TestParseNPY_Shapes(t *testing.T) {
	m, err := ParseNPY(npy(1, dict("<f4", "True", "(3,)"), []float32{1, 2, 3}))
	require.NoError(t, err, "one dimension has no order")
	require.Equal(t, 1, m.Depth())
	require.Equal(t, 3, m.Dim())
	require.Equal(t, 1, m.Vectors())

	m, err = ParseNPY(npy(1, dict("<f8", "False", "(1, 2, 3)"), []float64{1, 2, 3, 4, 5, 6}))
	require.NoError(t, err)
	require.Equal(t, 3, m.Depth())
	require.Equal(t, 2, m.Vectors())
}

func TestParseNPY_Refuses(t *testing.T) {
	for want, data := range map[string][]byte{
		"does not start with":           []byte("PK\x03\x04"),
		"cut off":                       npy(1, dict("<f4", "False", "(2,)"))[:20],
		"version 9":                     npy(9, dict("<f4", "False", "(2,)")),
		"lacks a simple descr":          npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
		`">f4" is not supported`:        npy(1, dict(">f4", "False", "(2,)"), []float32{1, 2}),
		"Fortran order":                 npy(1, dict("<f4", "True", "(2, 2)"), []float32{1, 2, 3, 4}),
		"needs 8 bytes, the file has 4": npy(1, dict("<f4", "False", "(2,)"), []float32{1}),
		"needs 4 bytes, the file has 8": npy(1, dict("<f4", "False", "(1,)"), []float32{1, 2}),
		"too short for shape":           npy(1, dict("<f4", "False", "(4000000000, 4000000000, 4)"), []float32{1}),
		"holds no vector":               npy(1, dict("<f4", "False", "(0, 4)")),
		"not a list of lengths":         npy(1, dict("<f4", "False", "(a,)")),
		"0 dimensions":                  npy(1, dict("<f4", "False", "()"), []float32{1}),
		"4 dimensions":                  npy(1, dict("<f4", "False", "(1, 1, 1, 1)"), []float32{1}),
	} {
		_, err := ParseNPY(data)
		require.ErrorContains(t, err, want)
	}
}

func TestNPY_RoundTrip(t *testing.T) {
	for dim := 1; dim < 40; dim++ {
		values := make([]float32, 3*dim)
		for i := range values {
			values[i] = float32(i) / 3
		}
		data := NPY(values, 3, dim)
		require.Zero(t, (len(data)-4*len(values))%64, "the array is aligned")
		m, err := ParseNPY(data)
		require.NoError(t, err)
		require.Equal(t, []int{3, dim}, m.Shape)
		for i, v := range values {
			require.Equal(t, float64(v), m.Data[i])
		}
	}
}

func FuzzParseNPY(f *testing.F) {
	f.Add(NPY([]float32{1, 2, 3, 4}, 2, 2))
	f.Add(npy(2, dict("<f8", "False", "(3,)"), []float64{1, 2, 3}))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseNPY(data)
		if err == nil {
			require.Equal(t, len(m.Data), m.Vectors()*m.Dim())
		}
	})
}

func TestParseJSON(t *testing.T) {
	for text, want := range map[string]Matrix{
		`[1, 2.5, -3e2]`:        {Data: []float64{1, 2.5, -300}, Shape: []int{3}},
		` [[1,2],[3,4]] `:       {Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2}},
		`[[[1],[2]],[[3],[4]]]`: {Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2, 1}},
	} {
		m, err := ParseJSON([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, m, text)
	}
}

func TestParseJSON_Refuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                "empty",
		`[1, 2`:           "ends too early",
		`[1] [2]`:         "more follows",
		`{"a": 1}`:        "want a JSON array",
		`[]`:              "holds no vector",
		`[[], []]`:        "holds no vector",
		`[[1,2],[3]]`:     "element [1] has 1 items where others have 2",
		`[[1,2],3]`:       "element [1] is a number",
		`[1,[2]]`:         "element [1] is an array",
		`[1, null]`:       "element [1] is not a number",
		`[1, "2"]`:        "element [1] is not a number",
		`[NaN]`:           "not a JSON array",
		`[1e999]`:         "is not a float64",
		`[[[[1]]]]`:       "nested too deeply",
		`[[[1]],[[2,3]]]`: "element [1 0] has 2 items",
	} {
		_, err := ParseJSON([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

// vectorsRecord holds rows [1 2] [3 4] after a row that a slice cuts off, beside a column that is no list.
func vectorsRecord(t *testing.T, list func(memory.Allocator) array.Builder) arrow.Record {
	t.Helper()
	mem := memory.NewGoAllocator()
	b := list(mem)
	defer b.Release()
	var child *array.Float32Builder
	switch l := b.(type) {
	case *array.FixedSizeListBuilder:
		child = l.ValueBuilder().(*array.Float32Builder)
		for _, v := range []float32{9, 9, 1, 2, 3, 4} {
			child.Append(v)
		}
		l.AppendValues([]bool{true, true, true})
	case *array.ListBuilder:
		child = l.ValueBuilder().(*array.Float32Builder)
		for i := range 3 {
			l.Append(true)
			child.AppendValues([][]float32{{9}, {1, 2}, {3, 4}}[i], nil)
		}
	}
	vectors := b.NewArray()
	ids := array.NewInt64Builder(mem)
	ids.AppendValues([]int64{0, 1, 2}, nil)
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "vec", Type: vectors.DataType(), Nullable: true},
	}, nil)
	return array.NewRecord(schema, []arrow.Array{ids.NewArray(), vectors}, 3).NewSlice(1, 3)
}

func stream(t *testing.T, recs ...arrow.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(recs[0].Schema()))
	for _, r := range recs {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestParseArrow_FileAndStream(t *testing.T) {
	fixed := vectorsRecord(t, func(mem memory.Allocator) array.Builder {
		return array.NewFixedSizeListBuilder(mem, 2, arrow.PrimitiveTypes.Float32)
	})
	variable := vectorsRecord(t, func(mem memory.Allocator) array.Builder {
		return array.NewListBuilder(mem, arrow.PrimitiveTypes.Float32)
	})
	for _, rec := range []arrow.Record{fixed, variable} {
		m, err := ParseArrow(stream(t, rec, rec))
		require.NoError(t, err)
		require.Equal(t, Matrix{Data: []float64{1, 2, 3, 4, 1, 2, 3, 4}, Shape: []int{4, 2}}, m)
	}
	path := filepath.Join(t.TempDir(), "q.arrow")
	f, err := os.Create(path)
	require.NoError(t, err)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(fixed.Schema()))
	require.NoError(t, err)
	require.NoError(t, w.Write(fixed))
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	m, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, Matrix{Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2}}, m)
}

func fromJSON(t *testing.T, kind arrow.DataType, text string) arrow.Record {
	t.Helper()
	a, _, err := array.FromJSON(memory.NewGoAllocator(), kind, strings.NewReader(text))
	require.NoError(t, err)
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: kind, Nullable: true}}, nil)
	return array.NewRecord(schema, []arrow.Array{a}, int64(a.Len()))
}

func TestParseArrow_Multivectors(t *testing.T) {
	kind := arrow.ListOf(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32))
	m, err := ParseArrow(stream(t, fromJSON(t, kind, `[[[1,2],[3,4]],[[5,6],[7,8]]]`)))
	require.NoError(t, err)
	require.Equal(t, Matrix{Data: []float64{1, 2, 3, 4, 5, 6, 7, 8}, Shape: []int{2, 2, 2}}, m)
	_, err = ParseArrow(stream(t, fromJSON(t, kind, `[[[1,2],[3,4]],[[5,6]]]`)))
	require.ErrorContains(t, err, "row 1 of column \"v\": 1 vectors where earlier rows have 2")
}

func TestParseArrow_Refuses(t *testing.T) {
	floats := arrow.ListOf(arrow.PrimitiveTypes.Float32)
	for want, rec := range map[string]arrow.Record{
		"no column is a list":                  fromJSON(t, arrow.PrimitiveTypes.Int64, `[1]`),
		"row 1 of column \"v\": null":          fromJSON(t, floats, `[[1],null]`),
		"row 0 of column \"v\": value 1 is nu": fromJSON(t, floats, `[[1,null]]`),
		"1 values where earlier vectors have":  fromJSON(t, floats, `[[1,2],[3]]`),
		"type int32 are not supported":         fromJSON(t, arrow.ListOf(arrow.PrimitiveTypes.Int32), `[[1]]`),
		"holds no vector":                      fromJSON(t, floats, `[]`),
	} {
		_, err := ParseArrow(stream(t, rec))
		require.ErrorContains(t, err, want)
	}
	_, err := ParseArrow([]byte("hello"))
	require.ErrorContains(t, err, "neither an Arrow IPC file nor a stream")
	whole := stream(t, fromJSON(t, floats, `[[1,2],[3,4]]`))
	for cut := range len(whole) - 8 {
		m, err := ParseArrow(whole[:cut])
		require.Truef(t, err != nil || len(m.Data) == 4, "cut at %d: %v", cut, m)
	}
}

func TestRead_NamesTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(filepath.Join(dir, "q.csv"))
	require.ErrorContains(t, err, `q.csv: unknown kind of file ".csv"`)
	_, err = Read(filepath.Join(dir, "absent.npy"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "q.JSON"), []byte(`[1,`), 0o644))
	_, err = Read(filepath.Join(dir, "q.JSON"))
	require.ErrorContains(t, err, "q.JSON: not a JSON array")
}
