package half

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloat64(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0x0000: 0, 0x3c00: 1, 0xbc00: -1, 0x4200: 3, 0x7bff: 65504, 0xfbff: -65504,
		0x0001: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14), 0x3555: 0.333251953125,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		require.Equal(t, want, Float64(bits), "%#04x", bits)
	}
	require.True(t, math.IsNaN(Float64(0x7e00)))
	require.True(t, math.Signbit(Float64(0x8000)))
}

func TestFloat64_GrowsWithBits(t *testing.T) {
	for bits := uint16(1); bits <= 0x7c00; bits++ {
		require.Greater(t, Float64(bits), Float64(bits-1))
	}
}
