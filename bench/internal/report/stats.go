// Package report turns results files into tables, plots and a verdict on each target.
package report

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// quantile of values by nearest rank; NaN when there are none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func flatten(rounds [][]int64) []float64 {
	var all []float64
	for _, round := range rounds {
		for _, v := range round {
			all = append(all, float64(v))
		}
	}
	return all
}

// measure is the figure a scenario kind is judged by, smaller is better: nanoseconds per call, or per query of throughput.
func measure(kind string, s *record.Sample) float64 {
	switch kind {
	case spec.Throughput:
		var rates []float64
		for _, wall := range s.WallNS {
			rates = append(rates, float64(wall)/float64(s.QueriesPerRound))
		}
		return quantile(rates, 0.5)
	case spec.ColdProcess:
		return quantile(total(s), 0.5)
	default:
		return quantile(flatten(s.DurationsNS), 0.5)
	}
}

// total is start, open and first query of each cold sample.
func total(s *record.Sample) []float64 {
	all := flatten(s.DurationsNS)
	for i := range all {
		if i < len(s.StartNS) {
			all[i] += float64(s.StartNS[i])
		}
		if i < len(s.OpenNS) {
			all[i] += float64(s.OpenNS[i])
		}
	}
	return all
}

// units are the pieces that a bootstrap draws: turns, since the calls of one turn share what the machine did meanwhile, or rounds where a round
// is one call.
func units(sc *spec.Scenario, s *record.Sample) [][]float64 {
	var all [][]float64
	switch sc.Kind {
	case spec.Throughput:
		for _, wall := range s.WallNS {
			all = append(all, []float64{float64(wall) / float64(s.QueriesPerRound)})
		}
	case spec.Matrix:
		for _, round := range s.DurationsNS {
			all = append(all, []float64{float64(round[0])})
		}
	case spec.ColdProcess:
		for _, v := range total(s) {
			all = append(all, []float64{v})
		}
	default:
		for _, round := range s.DurationsNS {
			for turn := range slices.Chunk(round, max(1, sc.Block)) {
				all = append(all, flatten([][]int64{turn}))
			}
		}
	}
	return all
}

// interval is the 95 % bootstrap interval of the ratio of two contenders' measures. Both answered the same queries in the same turns, so both are
// drawn together.
func interval(sc *spec.Scenario, ours, reference *record.Sample) (low, high float64) {
	const draws = 400
	a, b := units(sc, ours), units(sc, reference)
	n := min(len(a), len(b))
	if n < 2 {
		return math.NaN(), math.NaN()
	}
	random := rand.New(rand.NewPCG(1, 2))
	ratios := make([]float64, draws)
	for i := range ratios {
		var left, right []float64
		for range n {
			at := random.IntN(n)
			left, right = append(left, a[at]...), append(right, b[at]...)
		}
		ratios[i] = quantile(left, 0.5) / quantile(right, 0.5)
	}
	return quantile(ratios, 0.025), quantile(ratios, 0.975)
}

// best is the fastest sample that passes a test, nil when none does.
func best(c *record.Completed, accept func(*record.Sample) bool) *record.Sample {
	var found *record.Sample
	for i := range c.Samples {
		s := &c.Samples[i]
		if !accept(s) {
			continue
		}
		if kind := c.Scenario.Scenario.Kind; found == nil || measure(kind, s) < measure(kind, found) {
			found = s
		}
	}
	return found
}

func reference(c *record.Completed) *record.Sample {
	return best(c, func(s *record.Sample) bool { return s.Contender.Reference })
}

func ours(c *record.Completed) *record.Sample {
	return best(c, func(s *record.Sample) bool { return s.Contender.Default })
}

// overheads are medians over queries, in nanoseconds: the time of a bare native call outside the native library, and the time of the library's whole call
// beyond what the native library takes for the same search. NaN where the scenario lacks what they need.
func overheads(c *record.Completed) (ffi, whole float64) {
	var native, mine *record.Sample
	for i := range c.Samples {
		switch s := &c.Samples[i]; {
		case s.Contender.Strategy == spec.Native:
			native = s
		case s.Contender.Default:
			mine = s
		}
	}
	if native == nil || mine == nil {
		return math.NaN(), math.NaN()
	}
	var outside, beyond []float64
	for r, round := range native.DurationsNS {
		for q := range min(len(round), len(native.NativeNS[r]), len(mine.DurationsNS[r])) {
			outside = append(outside, float64(round[q]-native.NativeNS[r][q]))
			beyond = append(beyond, float64(mine.DurationsNS[r][q]-native.NativeNS[r][q]))
		}
	}
	return quantile(outside, 0.5), quantile(beyond, 0.5)
}
