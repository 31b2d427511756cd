package distributed

import (
	"math"
	"strconv"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/float16"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func columnOf(t binding.ValueType, dim int, multi bool) binding.ColumnInfo {
	return binding.ColumnInfo{FieldID: 1, Path: "vec", Type: t, Dim: dim, Multivector: multi}
}

func TestVectors_ConvertedToTheColumnsType(t *testing.T) {
	half := func(f float64) uint16 { bits, _ := float64ToHalf(f); return bits }
	sources := map[binding.ValueType]Vectors{
		binding.Float16: Float16([]uint16{half(1.5), half(-2), half(0), half(1024)}, 2),
		binding.Float32: Float32([]float32{1.5, -2, 0, 1024}, 2),
		binding.Float64: Float64([]float64{1.5, -2, 0, 1024}, 2),
	}
	for from, v := range sources {
		for to := range sources {
			got, err := v.copyFor(columnOf(to, 2, false))
			require.NoError(t, err, "%v to %v", from, to)
			require.Equal(t, 2, got.Queries)
			require.Equal(t, to, got.Type)
			require.Zero(t, got.PerQuery)
			require.Equal(t, []float64{1.5, -2}, values(got, 0), "%v to %v", from, to)
			require.Equal(t, []float64{0, 1024}, values(got, 1), "%v to %v", from, to)
		}
	}
	got, err := Uint8([]byte{1, 255}, 2).copyFor(columnOf(binding.Uint8, 2, false))
	require.NoError(t, err)
	require.Equal(t, []byte{1, 255}, got.Data)

	got, err = Float16([]float16.Num{float16.New(0.5)}, 1).copyFor(columnOf(binding.Float32, 1, false))
	require.NoError(t, err)
	require.Equal(t, []float64{0.5}, values(got, 0))
}

func TestVectors_RoundedToNearest(t *testing.T) {
	got, err := Float64([]float64{0.1, 1e-300}, 2).copyFor(columnOf(binding.Float32, 2, false))
	require.NoError(t, err)
	require.Equal(t, []float64{float64(float32(0.1)), 0}, values(got, 0))
}

func TestVectors_ValuesWithoutAnAnswer(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name            string
		v               Vectors
		column          binding.ColumnInfo
		query, position int
		value           float64
	}{
		{"NaN, float32", Float32([]float32{0, 0, 0, float32(nan)}, 2), columnOf(binding.Float32, 2, false), 1, 1, nan},
		{"+Inf, float32", Float32([]float32{0, float32(inf)}, 2), columnOf(binding.Float32, 2, false), 0, 1, inf},
		{"-Inf, float32", Float32([]float32{float32(-inf), 0}, 2), columnOf(binding.Float64, 2, false), 0, 0, -inf},
		{"NaN, float64", Float64([]float64{0, 0, nan, 0}, 2), columnOf(binding.Float64, 2, false), 1, 0, nan},
		{"NaN, float16", Float16([]uint16{0, 0x7e00}, 2), columnOf(binding.Float16, 2, false), 0, 1, nan},
		{"Inf, float16", Float16([]uint16{0x7c00, 0}, 2), columnOf(binding.Float32, 2, false), 0, 0, inf},
		{"float64 beyond float32", Float64([]float64{0, 0, 0, 1e39}, 2), columnOf(binding.Float32, 2, false), 1, 1, 1e39},
		{"float64 beyond float16", Float64([]float64{0, -65520}, 2), columnOf(binding.Float16, 2, false), 0, 1, -65520},
		{"float32 beyond float16", Float32([]float32{1e5, 0}, 2), columnOf(binding.Float16, 2, false), 0, 0, 1e5},
		{"position in a multivector", MultiVector(Float32([]float32{0, 0, 0, 0, 0, 0, float32(nan), 0}, 2), 2), columnOf(binding.Float32, 2, true), 1, 2, nan},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.v.copyFor(c.column)
			var q *QueryError
			require.ErrorAs(t, err, &q)
			require.ErrorIs(t, err, binding.ErrInvalidArgument)
			require.Equal(t, c.query, q.Query)
			require.Equal(t, c.position, q.Position)
			if math.IsNaN(c.value) {
				require.True(t, math.IsNaN(q.Value))
			} else {
				require.InDelta(t, c.value, q.Value, 1)
			}
			require.Contains(t, err.Error(), "query "+strconv.Itoa(c.query))
			require.Contains(t, err.Error(), "position "+strconv.Itoa(c.position))
		})
	}
}

func TestVectors_Shapes(t *testing.T) {
	plain, multi := columnOf(binding.Float32, 2, false), columnOf(binding.Float32, 2, true)
	for _, c := range []struct {
		name    string
		v       Vectors
		column  binding.ColumnInfo
		message string
	}{
		{"none", Vectors{}, plain, "no query vectors"},
		{"empty", Float32(nil, 2), plain, "the slice is empty"},
		{"zero dimension", Float32([]float32{1}, 0), plain, "must be positive"},
		{"negative dimension", Float32([]float32{1}, -3), plain, "must be positive"},
		{"another dimension", Float32([]float32{1, 2, 3}, 3), plain, `dimension 3; column "vec" has 2`},
		{"not a whole vector", Float32([]float32{1, 2, 3}, 2), plain, "not a whole number of vectors"},
		{"uint8 on floats", Uint8([]byte{1, 2}, 2), plain, "query vectors are uint8"},
		{"floats on uint8", Float32([]float32{1, 2}, 2), columnOf(binding.Uint8, 2, false), "holds uint8"},
		{"multivector on a plain column", MultiVector(Float32([]float32{1, 2}, 2), 1), plain, "not a multivector column"},
		{"no vectors a query", MultiVector(Float32([]float32{1, 2}, 2), 0), multi, "not positive"},
		{"not a whole query", MultiVector(Float32([]float32{1, 2, 3, 4, 5, 6}, 2), 2), multi, "not a whole number of queries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.v.copyFor(c.column)
			var a *ArgumentError
			require.ErrorAs(t, err, &a)
			require.Equal(t, "Vectors", a.Name)
			require.ErrorIs(t, err, binding.ErrInvalidArgument)
			require.ErrorContains(t, err, c.message)
		})
	}
	got, err := MultiVector(Float32(make([]float32, 12), 2), 3).copyFor(multi)
	require.NoError(t, err)
	require.Equal(t, 2, got.Queries)
	require.Equal(t, 3, got.PerQuery)
	got, err = Float32(make([]float32, 12), 2).copyFor(multi)
	require.NoError(t, err)
	require.Equal(t, 6, got.Queries)
	require.Equal(t, 1, got.PerQuery)
}

func TestWithoutDirection(t *testing.T) {
	v, err := Float32([]float32{1, 2, 0, 0, 3, 4, 0, float32(math.Copysign(0, -1)), 5, 6}, 2).copyFor(columnOf(binding.Float32, 2, false))
	require.NoError(t, err)
	left, ids, err := withoutDirection(v)
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 2, 4}, ids)
	require.Equal(t, 3, left.Queries)
	for i, want := range [][]float64{{1, 2}, {3, 4}, {5, 6}} {
		require.Equal(t, want, values(left, i))
	}

	for _, c := range []struct {
		name string
		v    Vectors
		t    binding.ValueType
		fits bool
	}{
		{"ordinary", Float64([]float64{1e-10, 1e10}, 2), binding.Float32, true},
		{"too short for float32", Float64([]float64{1e-30, 0}, 2), binding.Float32, false},
		{"too long for float32", Float64([]float64{1e30, 0}, 2), binding.Float32, false},
		{"short, but float64", Float64([]float64{1e-30, 0}, 2), binding.Float64, true},
		{"too long for float64", Float64([]float64{1e200, 0}, 2), binding.Float64, false},
		{"smallest float16", Float16([]uint16{1, 0}, 2), binding.Float16, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := c.v.copyFor(columnOf(c.t, 2, false))
			require.NoError(t, err)
			_, ids, err := withoutDirection(v)
			if c.fits {
				require.NoError(t, err)
				require.Nil(t, ids)
				return
			}
			var q *QueryError
			require.ErrorAs(t, err, &q)
		})
	}

	v, err = MultiVector(Float32([]float32{1, 1, 2, 2, 1, 1, 0, 0}, 2), 2).copyFor(columnOf(binding.Float32, 2, true))
	require.NoError(t, err)
	_, _, err = withoutDirection(v)
	var q *QueryError
	require.ErrorAs(t, err, &q)
	require.Equal(t, 1, q.Query)
	require.Equal(t, 2, q.Position)
}
