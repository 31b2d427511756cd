// Package spec describes what the benchmark runs: data sets, searches, contenders and scenarios, as plain values that go into every record.
package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
)

// AllRows is the filter threshold that every row passes: the generator's `cat` column is uniform in [0, AllRows).
const AllRows = 1000

// Layouts and sizes of a data set's segments.
const (
	Mixed     = "mixed"
	Following = "following"
	Even      = "even"
	Skewed    = "skewed"
)

// Data is one snapshot to search: a table, its vector index, two sets of queries and their ground truth.
type Data struct {
	Name                string `json:"name"`
	Source              string `json:"source"` // "clusters" (synthetic) or "text" (sentence embeddings of WordNet's glosses)
	Rows                int    `json:"rows"`
	Dim                 int    `json:"dim"`
	Latent              int    `json:"latent"`
	Clusters            int    `json:"clusters"`
	Seed                int    `json:"seed"`
	Segments            int    `json:"segments"`
	FragmentsPerSegment int    `json:"fragments_per_segment"`
	Layout              string `json:"layout"`
	Sizes               string `json:"sizes"`
	Index               Index  `json:"index"`
	Metric              string `json:"metric"`
	Queries             int    `json:"queries"` // in each of the two sets, judge and calib
	Depth               int    `json:"depth"`   // true neighbours kept per query: more than the largest k, so that ties can be told
	Filters             []int  `json:"filters"` // thresholds t of `cat < t` with a ground truth of their own
}

// Index is the vector index of a data set.
type Index struct {
	Type       string `json:"type"`
	Partitions int    `json:"partitions"` // per segment; 0 = square root of its rows
	SubVectors int    `json:"sub_vectors"`
}

// Hash identifies the data a spec and a generator make.
func (d Data) Hash(generator []byte) string {
	h := sha256.New()
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // a struct of strings and numbers always marshals
	}
	h.Write(text)
	h.Write(generator)
	return hex.EncodeToString(h.Sum(nil))
}

// Search is what is asked of every contender of a scenario. Zero values stay the engine's defaults.
type Search struct {
	K            int      `json:"k"`
	NProbes      int      `json:"nprobes,omitempty"` // per segment, as in Lance
	RefineFactor int      `json:"refine_factor,omitempty"`
	EF           int      `json:"ef,omitempty"`
	Filter       int      `json:"filter,omitempty"` // threshold t of `cat < t`; 0 = none
	FilterIndex  bool     `json:"filter_index,omitempty"`
	Columns      []string `json:"columns,omitempty"`
}

// Threshold is the filter's threshold, AllRows when there is none: the key of the ground truth.
func (s Search) Threshold() int {
	if s.Filter == 0 {
		return AllRows
	}
	return s.Filter
}

// Engine names of contenders.
const (
	LanceKNN = "lanceknn"
	Pylance  = "pylance"
	LanceRay = "lance-ray"
)

// Native is the strategy of a contender that calls the binding alone, with nothing planned or merged around it: what remains outside the native library's
// own time is the cost of Go and the FFI.
const Native = "native"

// Contender is one way of answering a scenario's queries.
type Contender struct {
	Name   string `json:"name"`
	Engine string `json:"engine"`
	// Reference marks the contenders of which the fastest is what ratios are taken to.
	Reference bool `json:"reference,omitempty"`
	// Default marks what a user of the library gets without choosing anything.
	Default bool `json:"default,omitempty"`

	NProbes          int      `json:"nprobes,omitempty"` // overrides the scenario's
	SearchEffort     *float64 `json:"search_effort,omitempty"`
	QueryParallelism int      `json:"query_parallelism,omitempty"`
	Strategy         string   `json:"strategy,omitempty"`
	Path             string   `json:"path,omitempty"`
	Probing          string   `json:"probing,omitempty"`
	// OneByOne answers a matrix as separate single queries.
	OneByOne bool `json:"one_by_one,omitempty"`
	Clients  int  `json:"clients,omitempty"`

	// Environment that distinguishes this contender's process; contenders of equal engine and environment share one process.
	Environment map[string]string `json:"environment,omitempty"`
	// RecallFloor overrides the scenario's, for a contender that is expected below it and is recorded with that said.
	RecallFloor *float64 `json:"recall_floor,omitempty"`
}

// Kinds of scenario.
const (
	Single      = "single"       // one query at a time, warm
	Matrix      = "matrix"       // all queries in one call, warm
	Throughput  = "throughput"   // many callers at once, warm
	ColdProcess = "cold-process" // a new process per sample: start, open, first query
	ColdStorage = "cold-storage" // a new handle with empty caches per sample, on object storage
)

// Scenario is one side-by-side comparison.
type Scenario struct {
	ID          string      `json:"id"`
	Title       string      `json:"title"`
	Kind        string      `json:"kind"`
	Data        string      `json:"data"`
	Search      Search      `json:"search"`
	Contenders  []Contender `json:"contenders"`
	Queries     int         `json:"queries"` // of the judge set
	Block       int         `json:"block"`   // queries a contender answers before the next one's turn
	LeadIn      int         `json:"lead_in"` // queries before them in each turn that are checked for faults, but neither timed nor counted for recall
	Rounds      int         `json:"rounds"`
	RecallFloor float64     `json:"recall_floor"`
	// LatencyMS is the storage delay of a ColdStorage scenario, per request.
	LatencyMS int `json:"latency_ms,omitempty"`
	// Curve groups scenarios and contenders into plots; see the report.
	Curve string `json:"curve,omitempty"`
}

// Profile is a named list of scenarios and the data they need.
type Profile struct {
	Name      string     `json:"name"`
	Data      []Data     `json:"data"`
	Scenarios []Scenario `json:"scenarios"`
}

// Find returns the data set of that name.
func (p Profile) Find(name string) (Data, bool) {
	for _, d := range p.Data {
		if d.Name == name {
			return d, true
		}
	}
	return Data{}, false
}

// Floor is the recall a contender must reach in a scenario for its performance to be recorded.
func (s Scenario) Floor(c Contender) float64 {
	if c.RecallFloor != nil {
		return *c.RecallFloor
	}
	return s.RecallFloor
}

// Tolerance is how far recall, a mean over finitely many neighbours, may fall short of a floor by rounding alone.
const Tolerance = 1e-9

// Meets reports whether a measured recall reaches a floor.
func Meets(recall, floor float64) bool {
	return !math.IsNaN(recall) && recall+Tolerance >= floor
}
