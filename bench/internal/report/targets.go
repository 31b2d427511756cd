package report

import (
	"fmt"
	"math"

	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// target is one row of the project's table of goals: the ratio of this library's default to the fastest reference contender of a scenario.
type target struct {
	Work     string
	Scenario string
	Limit    float64
	// Faster says that the limit is a speed-up to reach, not a share of time to stay below.
	Faster bool
	// Better demands a recall above the reference's.
	Better bool
}

var targets = []target{
	{Work: "one query, defaults, 8 mixed segments", Scenario: "single-8-mixed", Limit: 0.25},
	{Work: "one query, defaults, 32 mixed segments", Scenario: "single-32-mixed", Limit: 0.25},
	{Work: "one query, defaults, 32 segments that follow clusters", Scenario: "single-32-following", Limit: 0.08, Better: true},
	{Work: "one query, same probes per segment, 8 segments", Scenario: "probes-8-mixed", Limit: 0.45},
	{Work: "one query, 1 segment", Scenario: "single-1", Limit: 0.5},
	{Work: "200-query matrix, defaults, 8 segments", Scenario: "matrix-8-mixed", Limit: 0.15},
	{Work: "200-query matrix, same fixed probes, 8 segments", Scenario: "matrix-probes-8-mixed", Limit: 0.8},
	{Work: "throughput, 8 callers, against pylance's best thread count", Scenario: "throughput-8-mixed", Limit: 4, Faster: true},
	{Work: "repeated 1 % filter without scalar index", Scenario: "filter-1-8-mixed", Limit: 0.25},
	{Work: "30 ms storage, cold caches, 32 segments that follow clusters", Scenario: "storage-30ms", Limit: 0.15},
	{Work: "IVF_PQ with refine 10, two columns fetched", Scenario: "pq-8-mixed", Limit: 0.4},
	{Work: "IVF_HNSW_SQ, 8 segments", Scenario: "hnsw-sq-8-mixed", Limit: 0.5},
	{Work: "lance-ray 0.5.0, same data, same workers, warm", Scenario: "lance-ray", Limit: 20, Faster: true},
}

// overheadLimit is the goal for Go and FFI on top of the native search.
const (
	overheadLimit    = 30_000.0 // ns
	overheadScenario = "single-8-mixed"
)

// verdict is what came of a target.
type verdict struct {
	target
	Measured  float64 // a ratio of times, or a speed-up
	Low, High float64 // its 95 % interval
	Ours      *record.Sample
	Reference *record.Sample
	Met       bool
	Why       string // why there is no figure
	Quiet     bool
}

func judge(f *record.File, t target) verdict {
	v := verdict{target: t, Measured: math.NaN(), Low: math.NaN(), High: math.NaN()}
	c := f.Find(t.Scenario)
	if c == nil {
		v.Why = "not run"
		return v
	}
	v.Quiet = c.Quiet
	v.Ours, v.Reference = ours(c), reference(c)
	switch {
	case v.Ours == nil:
		v.Why = absent(c, func(x spec.Contender) bool { return x.Default })
		return v
	case v.Reference == nil:
		v.Why = absent(c, func(x spec.Contender) bool { return x.Reference })
		return v
	}
	kind := c.Scenario.Scenario.Kind
	v.Measured = measure(kind, v.Ours) / measure(kind, v.Reference)
	v.Low, v.High = interval(&c.Scenario.Scenario, v.Ours, v.Reference)
	if t.Faster {
		v.Measured, v.Low, v.High = 1/v.Measured, 1/v.High, 1/v.Low
		v.Met = v.Measured >= t.Limit
	} else {
		v.Met = v.Measured <= t.Limit
	}
	if t.Better && v.Ours.Recall <= v.Reference.Recall {
		v.Met = false
	}
	return v
}

// absent says what happened to contenders that have no sample.
func absent(c *record.Completed, accept func(spec.Contender) bool) string {
	for _, r := range c.Rejections {
		if accept(r.Contender) {
			return fmt.Sprintf("%s rejected: %s", r.Contender.Name, r.Reason)
		}
	}
	for _, u := range c.Unavailables {
		if accept(u.Contender) {
			return fmt.Sprintf("%s not available: %s", u.Contender.Name, u.Reason)
		}
	}
	for _, e := range c.Failures {
		if e.Contender != nil && accept(*e.Contender) {
			return fmt.Sprintf("%s failed: %s", e.Contender.Name, e.Reason)
		}
	}
	return "no sample"
}
