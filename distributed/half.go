package distributed

import "math"

// halfToFloat64 gives the exact value of IEEE 754 binary16 bits. Arrow's float16 of this version reads subnormal numbers as zero.
func halfToFloat64(bits uint16) float64 {
	fraction := float64(bits & 0x3ff)
	exponent := int(bits >> 10 & 0x1f)
	var v float64
	switch exponent {
	case 0:
		v = math.Ldexp(fraction, -24)
	case 0x1f:
		if v = math.Inf(1); fraction != 0 {
			v = math.NaN()
		}
	default:
		v = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits&0x8000 != 0 {
		v = -v
	}
	return v
}

// float64ToHalf rounds to the nearest float16, ties to even, as Lance does. ok is false where the nearest is infinite.
func float64ToHalf(v float64) (bits uint16, ok bool) {
	var sign uint16
	if math.Signbit(v) {
		sign, v = 0x8000, -v
	}
	if v == 0 {
		return sign, true
	}
	_, exponent := math.Frexp(v) // v = fraction x 2^exponent with fraction in [0.5, 1)
	exponent = max(exponent-1, -14)
	if exponent > 15 {
		return sign | 0x7c00, false
	}
	// In units of the last place, the significand of a normal number is 1024 to 2047; below that the number is subnormal.
	units := math.RoundToEven(math.Ldexp(v, 10-exponent))
	if units == 2048 {
		units, exponent = 1024, exponent+1
		if exponent > 15 {
			return sign | 0x7c00, false
		}
	}
	if units < 1024 {
		return sign | uint16(units), true
	}
	return sign | uint16(exponent+15)<<10 | (uint16(units) - 1024), true
}
