package distributed

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// halfValue is the definition of binary16, from its fields.
func halfValue(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10)&0x1f, float64(bits&0x3ff)/1024
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * fraction * math.Pow(2, -14)
	}
	return sign * (1 + fraction) * math.Pow(2, float64(exponent-15))
}

func TestHalf_EveryValueThereAndBack(t *testing.T) {
	for bits := range 1 << 16 {
		want := halfValue(uint16(bits))
		got := halfToFloat64(uint16(bits))
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(got), "%#04x", bits)
			continue
		}
		require.Equal(t, want, got, "%#04x", bits)
		if math.IsInf(want, 0) {
			continue
		}
		back, ok := float64ToHalf(got)
		require.True(t, ok)
		require.Equal(t, uint16(bits), back, "%#04x", bits)
	}
}

func TestHalf_RoundsToNearestTiesToEven(t *testing.T) {
	for bits := uint16(0); bits < 0x7bff; bits++ {
		low, high := halfValue(bits), halfValue(bits+1)
		middle := (low + high) / 2
		even := bits + bits&1
		for _, c := range []struct {
			v    float64
			want uint16
		}{
			{math.Nextafter(middle, 0), bits},
			{middle, even},
			{math.Nextafter(middle, high), bits + 1},
		} {
			got, ok := float64ToHalf(c.v)
			require.True(t, ok)
			require.Equal(t, c.want, got, "%v between %v and %v", c.v, low, high)
			negative, _ := float64ToHalf(-c.v)
			require.Equal(t, c.want|0x8000, negative)
		}
	}
}

func TestHalf_Range(t *testing.T) {
	for _, c := range []struct {
		v  float64
		ok bool
	}{
		{65504, true},
		{65519.999, true}, // rounds down to the largest
		{65520, false},    // the middle to infinity goes to even, which is infinity
		{1e300, false},
		{-65520, false},
		{5e-324, true}, // rounds to zero
	} {
		_, ok := float64ToHalf(c.v)
		require.Equal(t, c.ok, ok, "%v", c.v)
	}
}
