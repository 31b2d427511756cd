// Package half reads float16, whose subnormal numbers arrow/go v17 takes for zero.
package half

import "math"

// Float64 gives the exact value of IEEE 754 binary16 bits.
func Float64(bits uint16) float64 {
	sign := 1.0
	if bits&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	switch exponent {
	case 0:
		return math.Copysign(math.Ldexp(fraction, -24), sign)
	case 0x1f:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return math.Copysign(math.Ldexp(1024+fraction, exponent-25), sign)
}
