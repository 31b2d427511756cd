package lab

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// Table is the content of a dataset: `id` int64, `category` int32, and a vector column.
type Table struct {
	Name   string            // of the vector column; "vec" when empty
	Parent string            // a struct column that holds the vector column, if not empty
	Type   binding.ValueType // float32 when zero
	Dim    int

	IDs      []int64         // 0, 1, 2... when nil
	Category []int32         // id % 100 when nil
	Vectors  [][]float64     // a nil vector is null
	Multi    [][][]float64   // of a multivector column, instead of Vectors
	Nulls    map[[2]int]bool // (row, coordinate) of a null inside a vector
	Extra    []Extra
}

// Extra is one more column: of strings, of integers, of booleans, or of float32 vectors of the table's dimension.
type Extra struct {
	Name    string
	Strings []string
	Ints    []int64
	Vectors [][]float64
	Bools   []*bool
}

func (e Extra) arrowType(dim int) arrow.DataType {
	switch {
	case e.Strings != nil:
		return arrow.BinaryTypes.String
	case e.Vectors != nil:
		return arrow.FixedSizeListOf(int32(dim), arrow.PrimitiveTypes.Float32)
	case e.Bools != nil:
		return arrow.FixedWidthTypes.Boolean
	}
	return arrow.PrimitiveTypes.Int64
}

// Len is the number of rows.
func (t Table) Len() int { return max(len(t.Vectors), len(t.Multi)) }

// Column is the path of the vector column as Lance spells it.
func (t Table) Column() string {
	if t.Parent != "" {
		return quote(t.Parent) + "." + quote(t.name())
	}
	return quote(t.name())
}

func (t Table) name() string {
	if t.Name == "" {
		return "vec"
	}
	return t.Name
}

// quote puts back-ticks around a name that is not a plain identifier.
func quote(name string) string {
	for _, r := range name {
		if r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return "`" + name + "`"
		}
	}
	return name
}

func (t Table) valueType() binding.ValueType {
	if t.Type == 0 {
		return binding.Float32
	}
	return t.Type
}

func (t Table) arrowType() arrow.DataType {
	element := map[binding.ValueType]arrow.DataType{
		binding.Float16: arrow.FixedWidthTypes.Float16,
		binding.Float32: arrow.PrimitiveTypes.Float32,
		binding.Float64: arrow.PrimitiveTypes.Float64,
		binding.Uint8:   arrow.PrimitiveTypes.Uint8,
	}[t.valueType()]
	vector := arrow.FixedSizeListOf(int32(t.Dim), element)
	if t.Multi != nil {
		return arrow.ListOf(vector)
	}
	return vector
}

// Schema of the table.
func (t Table) Schema() *arrow.Schema {
	field := arrow.Field{Name: t.name(), Type: t.arrowType(), Nullable: true}
	if t.Parent != "" {
		field = arrow.Field{Name: t.Parent, Type: arrow.StructOf(field), Nullable: true}
	}
	fields := []arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "category", Type: arrow.PrimitiveTypes.Int32},
		field,
	}
	for _, e := range t.Extra {
		fields = append(fields, arrow.Field{Name: e.Name, Type: e.arrowType(t.Dim), Nullable: true})
	}
	return arrow.NewSchema(fields, nil)
}

// Record is the table in Arrow; the caller releases it.
func (t Table) Record() arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	defer b.Release()
	vector := b.Field(2)
	if t.Parent != "" {
		vector = b.Field(2).(*array.StructBuilder).FieldBuilder(0)
	}
	for row := range t.Len() {
		id := t.id(row)
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.Int32Builder).Append(t.category(row))
		if t.Parent != "" {
			b.Field(2).(*array.StructBuilder).Append(true)
		}
		switch {
		case t.Multi != nil:
			list := vector.(*array.ListBuilder)
			if t.Multi[row] == nil {
				list.AppendNull()
				continue
			}
			list.Append(true)
			for _, v := range t.Multi[row] {
				t.appendVector(list.ValueBuilder().(*array.FixedSizeListBuilder), row, v)
			}
		default:
			t.appendVector(vector.(*array.FixedSizeListBuilder), row, t.Vectors[row])
		}
	}
	for i, e := range t.Extra {
		switch {
		case e.Strings != nil:
			b.Field(3+i).(*array.StringBuilder).AppendValues(e.Strings, nil)
		case e.Vectors != nil:
			for _, v := range e.Vectors {
				t.appendVector(b.Field(3+i).(*array.FixedSizeListBuilder), -1, v)
			}
		case e.Bools != nil:
			for _, x := range e.Bools {
				if x == nil {
					b.Field(3 + i).AppendNull()
				} else {
					b.Field(3 + i).(*array.BooleanBuilder).Append(*x)
				}
			}
		default:
			b.Field(3+i).(*array.Int64Builder).AppendValues(e.Ints, nil)
		}
	}
	return b.NewRecord()
}

func (t Table) id(row int) int64 {
	if t.IDs == nil {
		return int64(row)
	}
	return t.IDs[row]
}

func (t Table) category(row int) int32 {
	if t.Category == nil {
		return int32(t.id(row) % 100)
	}
	return t.Category[row]
}

func (t Table) appendVector(b *array.FixedSizeListBuilder, row int, v []float64) {
	values := b.ValueBuilder()
	if v == nil {
		b.AppendNull()
		return
	}
	b.Append(true)
	for i, x := range v {
		if t.Nulls[[2]int{row, i}] {
			values.AppendNull()
			continue
		}
		switch values := values.(type) {
		case *array.Float16Builder:
			values.Append(half(x))
		case *array.Float32Builder:
			values.Append(float32(x))
		case *array.Float64Builder:
			values.Append(x)
		case *array.Uint8Builder:
			values.Append(uint8(x))
		}
	}
}

// Round gives values as they are stored in a column of the type.
func Round(typ binding.ValueType, v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		switch typ {
		case binding.Float16:
			out[i] = oracle.HalfFromBits(oracle.HalfBits(x))
		case binding.Float64:
			out[i] = x
		case binding.Uint8:
			out[i] = float64(uint8(x))
		default:
			out[i] = float64(float32(x))
		}
	}
	return out
}

// half avoids the conversion of this version of Arrow, which reads subnormal numbers as zero.
func half(x float64) float16.Num {
	bits := oracle.HalfBits(x)
	return float16.FromLEBytes([]byte{byte(bits), byte(bits >> 8)})
}

// Line is rows from..to-1 on a line: id and vector (id,0,0,0), so that the squared L2 distance to (x,0,0,0) is (id-x)^2.
func Line(from, to int64) Table {
	t := Table{Dim: 4}
	for id := from; id < to; id++ {
		t.IDs = append(t.IDs, id)
		t.Vectors = append(t.Vectors, []float64{float64(id), 0, 0, 0})
	}
	return t
}

// Points is a table of the given vectors with ids 0, 1, 2...
func Points(vectors ...[]float64) Table {
	t := Table{Vectors: vectors}
	for _, v := range vectors {
		t.Dim = max(t.Dim, len(v))
	}
	return t
}

// WithIDs gives the rows of a table the given ids.
func (t Table) WithIDs(ids ...int64) Table {
	if len(ids) != t.Len() {
		panic(fmt.Sprintf("lab: %d ids for %d rows", len(ids), t.Len()))
	}
	t.IDs = ids
	return t
}

// Random is rows of uniform random values; bytes for uint8, else in [-1, 1).
func Random(rng *rand.Rand, typ binding.ValueType, rows, dim int) Table {
	t := Table{Type: typ, Dim: dim}
	for range rows {
		t.Vectors = append(t.Vectors, RandomVector(rng, typ, dim))
	}
	return t
}

// RandomVector is one vector as Random makes them.
func RandomVector(rng *rand.Rand, typ binding.ValueType, dim int) []float64 {
	v := make([]float64, dim)
	for i := range v {
		if typ == binding.Uint8 {
			v[i] = float64(rng.IntN(256))
		} else {
			v[i] = 2*rng.Float64() - 1
		}
	}
	return Round(typ, v)
}

// Rand is a generator for a seed.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)) }

// NaN in a table.
var NaN = math.NaN()

// Inf in a table.
var Inf = math.Inf(1)
