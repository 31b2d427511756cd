package binding

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/stretchr/testify/require"
)

// rows of the batch that testdata/fake_arrow.h makes by hand, as Arrow writes them in JSON.
const fakeRows = `[
	{"id":11,"title":"bb","list":null,"nested":{"a":2,"b":"y"},"word":"right","flag":true,"vec":[3,4],"nothing":null,"empty":""},
	{"id":null,"title":"","list":[],"nested":null,"word":null,"flag":false,"vec":null,"nothing":null,"empty":""},
	{"id":13,"title":"dddd","list":[null,7,8],"nested":{"a":4,"b":null},"word":"left","flag":true,"vec":[7,8],"nothing":null,"empty":""}
]`

func TestTake_CopiesIntoTheAllocator(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer mem.AssertSize(t, 0)
	record, err := d.Take(t.Context(), []uint64{3, 1 << 63, 2}, []string{"id", "a.`b`"}, mem)
	require.NoError(t, err)
	// Native memory is gone (and scribbled over) before Take returns; only the dataset is left.
	require.EqualValues(t, 1, f.liveHandles())
	defer record.Release()
	require.Equal(t, map[string]string{"columns": "[\"id\",\"a.`b`\"]", "row_ids": "3,9223372036854775808,2,"}, f.recorded())
	require.EqualValues(t, 3, record.NumRows())
	require.Positive(t, mem.CurrentAlloc())
	text, err := record.MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, fakeRows, string(text))
	require.Equal(t, 2, record.Column(4).(*array.Dictionary).Dictionary().Len())
}

// Rust's empty buffers have addresses that are not to be read, nor to lie on a Go stack: growing it often would end the process.
func TestTake_Empty(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	for range 100 {
		done := make(chan error)
		go func() {
			record, err := d.Take(t.Context(), nil, []string{"id"}, nil)
			if err == nil {
				if record.NumRows() != 0 || record.NumCols() != 9 {
					t.Errorf("%d rows, %d columns", record.NumRows(), record.NumCols())
				}
				_, err = record.MarshalJSON()
				record.Release()
			}
			done <- err
		}()
		require.NoError(t, <-done)
	}
	require.Equal(t, map[string]string{"columns": `["id"]`, "row_ids": ""}, f.recorded())
	_, err := d.Take(t.Context(), []uint64{1}, nil, nil)
	require.ErrorIs(t, err, ErrInvalidArgument)
}

func TestTake_Error(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.fail(int32(CodeNotFound), "row 5")
	defer f.fail(0, "")
	_, err := d.Take(t.Context(), []uint64{5}, []string{"id"}, nil)
	require.EqualError(t, err, "binding: take: row 5")
	require.EqualValues(t, 1, f.liveHandles())
}

func TestSchema(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	schema, err := d.Schema()
	require.NoError(t, err)
	require.EqualValues(t, 1, f.liveHandles())
	require.Equal(t, 9, schema.NumFields())
	require.Equal(t, "vec", schema.Field(6).Name)
	require.True(t, arrow.TypeEqual(arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), schema.Field(6).Type))
	again, err := d.Schema()
	require.NoError(t, err)
	require.Same(t, schema, again)
}

// scribbler overwrites what it frees, so that whoever still refers to it is found out.
type scribbler struct{ memory.Allocator }

func (s scribbler) Free(b []byte) {
	for i := range b[:cap(b)] {
		b[:cap(b)][i] = 0xa5
	}
	s.Allocator.Free(b)
}

// fill gives n values of any type, some of them null; equal seeds give equal arrays.
func fill(b array.Builder, n int, random *rand.Rand) {
	for range n {
		if random.IntN(4) == 0 {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.NullBuilder:
			b.AppendNull()
		case *array.BooleanBuilder:
			b.Append(random.IntN(2) == 0)
		case *array.Int8Builder:
			b.Append(int8(random.Int()))
		case *array.Int64Builder:
			b.Append(random.Int64())
		case *array.Float64Builder:
			b.Append(random.NormFloat64())
		case *array.Decimal128Builder:
			b.AppendEmptyValue()
		case *array.FixedSizeBinaryBuilder:
			b.Append([]byte{byte(random.Int()), 1, 2})
		case *array.StringBuilder:
			b.Append(word(random))
		case *array.LargeStringBuilder:
			b.Append(word(random))
		case *array.StringViewBuilder:
			b.Append(word(random) + word(random))
		case *array.BinaryDictionaryBuilder:
			if err := b.AppendString(word(random)); err != nil {
				panic(err)
			}
		case *array.ListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), random.IntN(4), random)
		case *array.LargeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), random.IntN(4), random)
		case *array.FixedSizeListBuilder:
			b.Append(true)
			fill(b.ValueBuilder(), 2, random)
		case *array.MapBuilder:
			b.Append(true)
			for i := range random.IntN(3) {
				b.KeyBuilder().(*array.Int8Builder).Append(int8(i))
				fill(b.ItemBuilder(), 1, random)
			}
		case *array.StructBuilder:
			b.Append(true)
			for i := range b.NumField() {
				fill(b.FieldBuilder(i), 1, random)
			}
		default:
			panic(b.Type())
		}
	}
}

func word(random *rand.Rand) string {
	return []string{"", "a", "left", "a word longer than a view's inline prefix"}[random.IntN(4)]
}

var copied = []arrow.DataType{
	arrow.Null, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64,
	&arrow.Decimal128Type{Precision: 10, Scale: 2}, &arrow.FixedSizeBinaryType{ByteWidth: 3}, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString,
	arrow.BinaryTypes.StringView,
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.BinaryTypes.String},
	arrow.ListOf(arrow.BinaryTypes.String), arrow.LargeListOf(arrow.ListOf(arrow.PrimitiveTypes.Int8)),
	arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float64), arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String),
	arrow.StructOf(
		arrow.Field{Name: "x", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		arrow.Field{Name: "y", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}, Nullable: true},
	),
}

func TestCopyRecord_OwnsEverything(t *testing.T) {
	fields := make([]arrow.Field, len(copied))
	for i, dataType := range copied {
		fields[i] = arrow.Field{Name: dataType.String(), Type: dataType, Nullable: true}
	}
	metadata := arrow.MetadataFrom(map[string]string{"key": "value"})
	schema := arrow.NewSchema(fields, &metadata)
	build := func(mem memory.Allocator, seed uint64) arrow.Record {
		random := rand.New(rand.NewPCG(seed, 1))
		b := array.NewRecordBuilder(mem, schema)
		defer b.Release()
		for i := range fields {
			fill(b.Field(i), 40, random)
		}
		return b.NewRecord()
	}
	for seed := range uint64(20) {
		source := memory.NewCheckedAllocator(scribbler{memory.NewGoAllocator()})
		target := memory.NewCheckedAllocator(memory.NewGoAllocator())
		whole, same := build(source, seed), build(memory.DefaultAllocator, seed)
		random := rand.New(rand.NewPCG(seed, 2))
		from := int64(random.IntN(40))
		to := from + int64(random.IntN(int(41-from)))
		for _, cut := range [][2]int64{{0, 40}, {from, to}, {40, 40}} {
			sliced, want := whole.NewSlice(cut[0], cut[1]), same.NewSlice(cut[0], cut[1])
			got := copyRecord(sliced, target)
			sliced.Release()
			if cut[0] == 40 {
				whole.Release() // the last owner: from here on the source is scribbled over
				source.AssertSize(t, 0)
			}
			require.True(t, array.RecordEqual(want, got), "seed %d rows %v:\nwant %v\ngot  %v", seed, cut, want, got)
			require.True(t, want.Schema().Equal(got.Schema()))
			got.Release()
			want.Release()
		}
		same.Release()
		target.AssertSize(t, 0)
	}
}

// The copy is compared after its source is scribbled over.
func TestCopyRecord_OutlivesItsSource(t *testing.T) {
	for _, dataType := range copied {
		t.Run(dataType.String(), func(t *testing.T) {
			schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: dataType, Nullable: true}}, nil)
			build := func(mem memory.Allocator) arrow.Record {
				b := array.NewRecordBuilder(mem, schema)
				defer b.Release()
				fill(b.Field(0), 50, rand.New(rand.NewPCG(5, 5)))
				whole := b.NewRecord()
				defer whole.Release()
				return whole.NewSlice(3, 45)
			}
			source := memory.NewCheckedAllocator(scribbler{memory.NewGoAllocator()})
			record, want := build(source), build(memory.DefaultAllocator)
			defer want.Release()
			got := copyRecord(record, memory.DefaultAllocator)
			defer got.Release()
			record.Release()
			source.AssertSize(t, 0)
			require.True(t, array.RecordEqual(want, got), "want %v\ngot  %v", want, got)
		})
	}
}
