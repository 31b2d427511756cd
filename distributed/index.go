package distributed

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lanceknn/lanceknn/binding"
)

// choice is the index a query is answered with, or none, and what it was chosen from.
type choice struct {
	layout   *indexLayout // nil: flat search
	fitting  int          // indexes that could have been chosen
	rejected []RejectedIndex
}

// chooseIndex applies the rule of the package documentation: the name wins; else the indexes on the column whose metric fits, the one that
// covers most live rows, the first by name. No index that fits means a flat search, which is exact; an index that fits but is broken is an
// error, and so is a name that does not fit.
func chooseIndex(c *catalog, column binding.ColumnInfo, q *Query, name string) (choice, error) {
	switch {
	case q.NoIndex && name != "":
		return choice{}, &ArgumentError{Name: "NoIndex", Reason: fmt.Sprintf("set together with Options.IndexName %q; use one of them", name)}
	case q.NoIndex:
		return choice{}, nil
	case name != "":
		return chooseNamed(c, column, q, name)
	}
	var best choice
	var broken *SegmentError
	for _, x := range c.indexes {
		if x.index.FieldID != column.FieldID {
			continue
		}
		if reason := x.rejection(column, q); reason != "" {
			best.rejected = append(best.rejected, x.rejected(reason))
			if x.metricFits(q.Metric) && x.broken != nil {
				broken = x.broken
			}
			continue
		}
		best.fitting++
		if best.layout == nil || x.betterThan(best.layout) {
			best.layout = x
		}
	}
	if best.layout == nil && broken != nil {
		if len(best.rejected) == 1 {
			return choice{}, broken
		}
		return choice{}, &IndexError{Column: q.Column, Metric: q.Metric, Candidates: best.rejected}
	}
	return best, nil
}

func (x *indexLayout) betterThan(o *indexLayout) bool {
	return cmp.Or(cmp.Compare(o.covered, x.covered), cmp.Compare(x.index.Name, o.index.Name)) < 0
}

func chooseNamed(c *catalog, column binding.ColumnInfo, q *Query, name string) (choice, error) {
	fail := &IndexError{Column: q.Column, Name: name, Metric: q.Metric}
	for _, x := range c.indexes {
		if x.index.Name != name {
			fail.Candidates = append(fail.Candidates, x.rejected("has another name"))
			continue
		}
		reason := x.rejection(column, q)
		if reason == "" {
			return choice{layout: x, fitting: 1}, nil
		}
		if x.index.FieldID == column.FieldID && x.metricFits(q.Metric) && x.broken != nil {
			return choice{}, x.broken
		}
		fail.Candidates = append(fail.Candidates, x.rejected(reason))
	}
	return choice{}, fail
}

// rejection says why the index cannot answer the query, empty when it can.
func (x *indexLayout) rejection(column binding.ColumnInfo, q *Query) string {
	switch {
	case x.index.FieldID != column.FieldID:
		return "is on another column"
	case !x.metricFits(q.Metric):
		return fmt.Sprintf("has metric %s", x.metric)
	case x.broken != nil:
		return "cannot be searched: " + x.broken.Reason
	case x.metric == binding.MetricUnset && q.Metric == binding.MetricUnset:
		return "does not say its metric; set Query.Metric"
	}
	return ""
}

func (x *indexLayout) metricFits(asked binding.Metric) bool {
	return asked == binding.MetricUnset || x.metric == binding.MetricUnset || asked == x.metric
}

func (x *indexLayout) rejected(reason string) RejectedIndex {
	return RejectedIndex{Name: x.index.Name, Column: x.index.Column, Type: x.index.Type, Metric: x.metric, Reason: reason}
}

// resolveMetric settles the metric of the search, once: every task is told it.
func resolveMetric(q *Query, x *indexLayout, column binding.ColumnInfo) binding.Metric {
	switch {
	case q.Metric != binding.MetricUnset:
		return q.Metric
	case x != nil:
		return x.metric
	case column.Type == binding.Uint8:
		return binding.Hamming
	default:
		return binding.L2
	}
}

// commonMetric gives the one metric of the live segments. Lance checks that of the first only and would rank the others by it.
func commonMetric(index binding.VectorIndex, alive []binding.Segment) (binding.Metric, *SegmentError) {
	metric := index.Metric
	if i := slices.IndexFunc(alive, func(s binding.Segment) bool { return s.Metric != binding.MetricUnset }); i >= 0 {
		metric = alive[i].Metric
	}
	broken, other := &SegmentError{Index: index.Name}, &SegmentError{Index: index.Name}
	for _, s := range alive {
		if s.Problem != "" {
			broken.Segments = append(broken.Segments, s.ID)
			broken.Reason = s.Problem
		}
		if s.Metric != binding.MetricUnset && s.Metric != metric {
			other.Segments = append(other.Segments, s.ID)
			other.Reason = fmt.Sprintf("metric is %s, but that of the other segments is %s; distances of two metrics cannot be merged, so rebuild the index", s.Metric, metric)
		}
	}
	switch {
	case len(broken.Segments) > 0:
		return metric, broken
	case len(other.Segments) > 0:
		return metric, other
	}
	return metric, nil
}

// why puts the choice into words.
func (c choice) why(q *Query, name string) string {
	switch {
	case q.NoIndex:
		return "flat search asked for (NoIndex)"
	case name != "":
		return "chosen by name"
	case c.layout == nil && len(c.rejected) == 0:
		return fmt.Sprintf("there is no vector index on %q", q.Column)
	case c.layout == nil:
		return fmt.Sprintf("no index on %q fits: %s", q.Column, listRejected(c.rejected))
	case len(c.rejected) > 0 && c.fitting == 1:
		return "the only one that fits: " + listRejected(c.rejected)
	case c.fitting == 1:
		return fmt.Sprintf("the only one on %q", q.Column)
	}
	why := fmt.Sprintf("covers most rows of %d that fit, or is the first of those by name", c.fitting)
	if len(c.rejected) > 0 {
		why += "; " + listRejected(c.rejected)
	}
	return why
}

func listRejected(rejected []RejectedIndex) string {
	var s string
	for i, r := range rejected {
		if i > 0 {
			s += "; "
		}
		s += fmt.Sprintf("%q %s", r.Name, r.Reason)
	}
	return s
}
