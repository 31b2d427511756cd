package distributed

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/float16"

	"github.com/lanceknn/lanceknn/binding"
)

// Vectors is a matrix of query vectors in the caller's memory: row after row, each of dim values. [NewPlan] copies it, so the caller may
// change or reuse the slice as soon as NewPlan has returned.
//
// Float values are converted to the element type of the column: rounded to the nearest where it is narrower, and refused with a [QueryError]
// where the nearest would be infinite. NaN and infinite values are refused always. uint8 vectors go with uint8 columns only.
type Vectors struct {
	float16  []uint16
	float32  []float32
	float64  []float64
	uint8    []byte
	valueOf  binding.ValueType // which of the slices is set
	dim      int
	perQuery int
}

// Half is a float16 value: its IEEE 754 bits, or Arrow's type for them.
type Half interface{ uint16 | float16.Num }

// Float16 wraps len(values)/dim query vectors.
func Float16[T Half](values []T, dim int) Vectors {
	bits := unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(values))), len(values)) // float16.Num is a struct of one uint16
	return Vectors{float16: bits, valueOf: binding.Float16, dim: dim}
}

// Float32 wraps len(values)/dim query vectors.
func Float32(values []float32, dim int) Vectors {
	return Vectors{float32: values, valueOf: binding.Float32, dim: dim}
}

// Float64 wraps len(values)/dim query vectors.
func Float64(values []float64, dim int) Vectors {
	return Vectors{float64: values, valueOf: binding.Float64, dim: dim}
}

// Uint8 wraps len(values)/dim query vectors of packed bits, for the hamming distance.
func Uint8(values []byte, dim int) Vectors {
	return Vectors{uint8: values, valueOf: binding.Uint8, dim: dim}
}

// MultiVector makes each perQuery vectors of v one query of a multivector column. Without it each vector is a query of its own, of one vector
// where the column is multivector.
func MultiVector(v Vectors, perQuery int) Vectors {
	v.perQuery = perQuery
	if perQuery <= 0 {
		v.perQuery = -1 // refused by NewPlan; 0 would mean plain vectors
	}
	return v
}

func (v Vectors) values() int {
	return len(v.float16) + len(v.float32) + len(v.float64) + len(v.uint8)
}

// copyFor checks the matrix against the column and copies it into the column's element type.
func (v Vectors) copyFor(column binding.ColumnInfo) (binding.Vectors, error) {
	perQuery, err := v.shapeFor(column)
	if err != nil {
		return binding.Vectors{}, err
	}
	out := binding.Vectors{
		Data:     make([]byte, v.values()*column.Type.Size()),
		Type:     column.Type,
		Queries:  v.values() / (v.dim * max(1, perQuery)),
		PerQuery: perQuery,
		Dim:      v.dim,
	}
	var bad int
	var reason string
	switch v.valueOf {
	case binding.Uint8:
		copy(out.Data, v.uint8)
		return out, nil
	case binding.Float16:
		bad, reason = convert(out.Data, column.Type, v.float16, halfToFloat64)
	case binding.Float32:
		if column.Type == binding.Float32 {
			bad, reason = copyFloat32(out.Data, v.float32)
		} else {
			bad, reason = convert(out.Data, column.Type, v.float32, func(x float32) float64 { return float64(x) })
		}
	case binding.Float64:
		bad, reason = convert(out.Data, column.Type, v.float64, func(x float64) float64 { return x })
	}
	if reason != "" {
		perRow := v.dim * max(1, perQuery)
		return binding.Vectors{}, &QueryError{Query: bad / perRow, Position: bad % perRow, Value: v.at(bad), Reason: reason}
	}
	return out, nil
}

// shapeFor gives the number of vectors a query of a multivector column has, 0 for other columns.
func (v Vectors) shapeFor(column binding.ColumnInfo) (perQuery int, err error) {
	refuse := func(format string, args ...any) (int, error) {
		return 0, &ArgumentError{Name: "Vectors", Reason: fmt.Sprintf(format, args...)}
	}
	n := v.values()
	switch {
	case v.valueOf == 0:
		return refuse("no query vectors given; use Float32, Float16, Float64 or Uint8")
	case v.dim <= 0:
		return refuse("dimension is %d; it must be positive", v.dim)
	case v.dim != column.Dim:
		return refuse("query vectors have dimension %d; column %q has %d", v.dim, column.Path, column.Dim)
	case n == 0:
		return refuse("no query vectors given: the slice is empty")
	case (v.valueOf == binding.Uint8) != (column.Type == binding.Uint8):
		return refuse("query vectors are %s; column %q holds %s", v.valueOf, column.Path, column.Type)
	case v.perQuery < 0:
		return refuse("number of vectors a query is not positive")
	case v.perQuery > 0 && !column.Multivector:
		return refuse("column %q is not a multivector column; give plain vectors, each is a query", column.Path)
	}
	if column.Multivector {
		perQuery = max(1, v.perQuery)
	}
	if n%v.dim != 0 {
		return refuse("%d values are not a whole number of vectors of dimension %d", n, v.dim)
	}
	if rows := n / v.dim; rows%max(1, perQuery) != 0 {
		return refuse("%d vectors are not a whole number of queries of %d vectors", rows, perQuery)
	} else if rows/max(1, perQuery) > math.MaxInt32 {
		return refuse("%d queries; at most %d fit the query id", rows/max(1, perQuery), math.MaxInt32)
	}
	return perQuery, nil
}

func (v Vectors) at(i int) float64 {
	switch v.valueOf {
	case binding.Float16:
		return halfToFloat64(v.float16[i])
	case binding.Float32:
		return float64(v.float32[i])
	default:
		return v.float64[i]
	}
}

const (
	notFinite = "it must be finite"
	overflows = "it is beyond the range of the column's element type"
)

// copyFloat32 is convert for the common case, where nothing has to be converted. It gives the first value refused and why.
func copyFloat32(dst []byte, src []float32) (bad int, reason string) {
	const exponent = 0x7f800000
	for i, x := range src {
		bits := math.Float32bits(x)
		if bits&exponent == exponent {
			return i, notFinite
		}
		binary.LittleEndian.PutUint32(dst[4*i:], bits)
	}
	return 0, ""
}

func convert[T any](dst []byte, to binding.ValueType, src []T, widen func(T) float64) (bad int, reason string) {
	for i := range src {
		x := widen(src[i])
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return i, notFinite
		}
		switch to {
		case binding.Float16:
			bits, ok := float64ToHalf(x)
			if !ok {
				return i, overflows
			}
			binary.LittleEndian.PutUint16(dst[2*i:], bits)
		case binding.Float32:
			narrow := float32(x)
			if math.IsInf(float64(narrow), 0) {
				return i, overflows
			}
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(narrow))
		case binding.Float64:
			binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(x))
		}
	}
	return 0, ""
}
