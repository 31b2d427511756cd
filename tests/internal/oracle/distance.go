package oracle

import (
	"math"
	"math/bits"
)

// Metric names a distance as Lance does.
type Metric string

// The metrics of Lance.
const (
	L2      Metric = "l2"
	Cosine  Metric = "cosine"
	Dot     Metric = "dot"
	Hamming Metric = "hamming"
)

// Distance is the distance of two vectors of equal length.
func Distance(m Metric, q, v []float64) float64 {
	switch m {
	case L2:
		sum := 0.0
		for i := range q {
			d := q[i] - v[i]
			sum += d * d
		}
		return sum
	case Cosine:
		return 1 - dot(q, v)/(math.Sqrt(dot(q, q))*math.Sqrt(dot(v, v)))
	case Dot:
		return 1 - dot(q, v)
	case Hamming:
		n := 0
		for i := range q {
			n += bits.OnesCount8(uint8(q[i]) ^ uint8(v[i]))
		}
		return float64(n)
	}
	panic("oracle: unknown metric " + string(m))
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// MultiDistance is the late-interaction distance of two sets of vectors: the sum, over the vectors of the query, of the
// distance to the nearest vector of the row.
func MultiDistance(m Metric, q, row [][]float64) float64 {
	sum := 0.0
	for _, a := range q {
		best := math.Inf(1)
		for _, b := range row {
			best = math.Min(best, Distance(m, a, b))
		}
		sum += best
	}
	return sum
}
