package oracle

import "math"

// HalfFromBits is the value of IEEE 754 binary16 bits.
func HalfFromBits(bits uint16) float64 {
	sign := 1.0
	if bits>>15 == 1 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// HalfBits is the nearest binary16, ties to even.
func HalfBits(x float64) uint16 {
	var sign uint16
	if math.Signbit(x) {
		sign, x = 1<<15, -x
	}
	switch {
	case math.IsNaN(x):
		return 0x7e00
	case x >= 65520:
		return sign | 0x7c00
	case x < math.Ldexp(1, -14):
		return sign | uint16(math.RoundToEven(math.Ldexp(x, 24)))
	}
	_, exponent := math.Frexp(x)
	units := math.RoundToEven(math.Ldexp(x, 11-exponent)) // 1024 to 2048
	return sign | (uint16(exponent+14)<<10 + uint16(units) - 1024)
}
