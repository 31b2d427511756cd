package distributed

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lanceknn/lanceknn/binding"
)

// Query is a nearest-neighbour search of one or many query vectors. Column, Vectors and K are required; the zero value of everything else is
// Lance's default.
type Query struct {
	// Column is the path of the vector column, in Lance's syntax: names of nested fields are separated by dots, back-ticks quote a name.
	Column  string
	Vectors Vectors // copied by NewPlan

	// K rows are wanted for each query, after Offset nearer ones have been left out. Any size is safe: neither K, Offset nor K x RefineFactor
	// makes the search hold more rows than there are.
	K      int
	Offset int

	Filter  string   // SQL; always applied before neighbours are chosen
	Columns []string // field paths to fetch for the rows found, in this order

	// Metric must be that of the index, or unset to take it from there. Without an index unset means L2, and hamming for uint8 columns.
	Metric binding.Metric

	// How many partitions are read. With all four unset, or SearchEffort alone, the segments of a task share one budget: partitions are read in
	// the order of how near they could hold a row, until the k-th neighbour found rules the rest out or long reading found none. SearchEffort in
	// [0, 1] is the knob: nil is 0.5, 0 reads the nearest partitions only, 1 reads all. Once one of the other three is set, or Options.Probing is
	// per segment, all have Lance's meaning, in each segment by itself: NProbes sets both bounds, MinNProbes and MaxNProbes override one each, and
	// SearchEffort makes NProbes ignored.
	NProbes, MinNProbes, MaxNProbes int
	SearchEffort                    *float64
	EF                              int // width of the search in an HNSW graph

	// RefineFactor n re-scores the nearest K x n rows by their exact distance, once for the whole search. 0: distances are those of the index,
	// approximate where it is quantised.
	RefineFactor int

	// DistanceMin <= distance < DistanceMax. Lance compares index distances while it searches and, where rows are re-scored, exact distances
	// afterwards; so does a split search.
	DistanceMin, DistanceMax *float32

	ApproxMode       binding.ApproxMode
	QueryParallelism int  // as Lance has it: -1 all cores, 0 its default
	NoIndex          bool // flat search of every row: exact
}

// validate checks what can be checked without the dataset.
func (q *Query) validate() error {
	refuse := func(name, format string, args ...any) error {
		return &ArgumentError{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	if q.Column == "" {
		return refuse("Column", "no vector column given")
	}
	if err := checkSearchable(q.Column); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"Offset", q.Offset},
		{"NProbes", q.NProbes},
		{"MinNProbes", q.MinNProbes},
		{"MaxNProbes", q.MaxNProbes},
		{"EF", q.EF},
		{"RefineFactor", q.RefineFactor},
	} {
		if n.value < 0 {
			return refuse(n.name, "%d is negative; use 0 to leave it unset", n.value)
		}
	}
	switch {
	case q.K <= 0:
		return refuse("K", "%d is not positive", q.K)
	case q.Metric > binding.Hamming:
		return refuse("Metric", "unknown metric %d", q.Metric)
	case q.ApproxMode > binding.ApproxAccurate:
		return refuse("ApproxMode", "unknown mode %d", q.ApproxMode)
	case q.QueryParallelism < -1 || q.QueryParallelism > math.MaxInt32:
		return refuse("QueryParallelism", "%d; use -1 for all cores, 0 for the default or a number of workers", q.QueryParallelism)
	case q.SearchEffort != nil && !(*q.SearchEffort >= 0 && *q.SearchEffort <= 1):
		return refuse("SearchEffort", "%v is outside 0 to 1", *q.SearchEffort)
	}
	if err := q.validateProbes(); err != nil {
		return err
	}
	return q.validateRange()
}

func checkSearchable(column string) error {
	names, err := parseFieldPath(column)
	if err != nil {
		return &ArgumentError{Name: "Column", Reason: fmt.Sprintf("%q is not a field path: %v", column, err), Err: err}
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, "`") }) {
		// Lance finds no rows in such a column and reports no error.
		return &ArgumentError{
			Name: "Column", Err: binding.ErrUnsupported,
			Reason: fmt.Sprintf("column %q has a back-tick in its name, which the engine cannot search; rename it", column),
		}
	}
	return nil
}

// validateProbes compares the bounds that will be in force.
func (q *Query) validateProbes() error {
	fixed := q.NProbes
	if q.SearchEffort != nil {
		fixed = 0
	}
	low, high := q.MinNProbes, q.MaxNProbes
	lowName, highName := "MinNProbes", "MaxNProbes"
	if low == 0 {
		low, lowName = fixed, "NProbes"
	}
	if high == 0 {
		high, highName = fixed, "NProbes"
	}
	if high > 0 && low > high {
		return &ArgumentError{Name: lowName, Reason: fmt.Sprintf("%d is more than %s %d", low, highName, high)}
	}
	return nil
}

func (q *Query) validateRange() error {
	for _, bound := range []struct {
		name  string
		value *float32
	}{{"DistanceMin", q.DistanceMin}, {"DistanceMax", q.DistanceMax}} {
		if bound.value == nil {
			continue
		}
		if v := float64(*bound.value); math.IsNaN(v) || math.IsInf(v, 0) {
			return &ArgumentError{Name: bound.name, Reason: fmt.Sprintf("%v is not finite; leave it nil for no bound", v)}
		}
	}
	if q.DistanceMin != nil && q.DistanceMax != nil && *q.DistanceMin >= *q.DistanceMax {
		return &ArgumentError{Name: "DistanceMin", Reason: fmt.Sprintf("%v is not below DistanceMax %v", *q.DistanceMin, *q.DistanceMax)}
	}
	return nil
}

// inRange is the test Lance makes: lower <= distance < upper.
func (q *Query) inRange(distance float32) bool {
	return (q.DistanceMin == nil || distance >= *q.DistanceMin) && (q.DistanceMax == nil || distance < *q.DistanceMax)
}

// sizes are the counts of a query once the number of live rows is known: no count is larger, so none can exhaust memory or overflow.
type sizes struct {
	want       int // rows needed of each query: offset + k
	refine     int // refine factor, 0 for none
	candidates int // rows to re-score of each query: want x refine, or want where rows are re-scored for another reason
}

func (q *Query) sizesFor(liveRows uint64) sizes {
	live := int(min(liveRows, math.MaxInt))
	want := live
	if q.Offset < live { // otherwise everything is left out, and want only has to be valid
		want = min(live-q.Offset, q.K) + q.Offset
	}
	if want == 0 {
		return sizes{}
	}
	// A factor that takes in every row is enough; a larger one changes nothing.
	enough := live / want
	if live%want > 0 {
		enough++
	}
	refine := min(q.RefineFactor, enough, math.MaxInt32)
	return sizes{want: want, refine: refine, candidates: min(live, times(want, max(1, refine)))}
}

// times multiplies counts and stops at the largest int.
func times(a, b int) int {
	if a > math.MaxInt/b {
		return math.MaxInt
	}
	return a * b
}

// checkMetric refuses what Lance cannot measure: hamming is for uint8 columns, the others for float columns.
func checkMetric(metric binding.Metric, column binding.ColumnInfo) error {
	if (column.Type == binding.Uint8) != (metric == binding.Hamming) {
		fit := "l2, cosine or dot"
		if column.Type == binding.Uint8 {
			fit = "hamming"
		}
		return &ArgumentError{Name: "Metric", Reason: fmt.Sprintf("column %q holds %s, which metric %s does not measure; use %s", column.Path, column.Type, metric, fit)}
	}
	return nil
}

// describeColumn turns the binding's refusal of a column into one of the query's field.
func describeColumn(column string, err error) error {
	var native *binding.Error
	if errors.As(err, &native) && (native.Code == binding.CodeNotFound || native.Code == binding.CodeInvalidArgument) {
		return &ArgumentError{Name: "Column", Reason: fmt.Sprintf("%q cannot be searched: %s", column, native.Message), Err: err}
	}
	return fmt.Errorf("distributed: column %q: %w", column, err)
}
