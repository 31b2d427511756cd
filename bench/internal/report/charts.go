package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// plot is a chart with the name of its file.
type plot struct {
	id string
	chart
}

func (s *section) charts() []plot {
	var all []plot
	for i := range s.file.Scenarios {
		c := &s.file.Scenarios[i]
		switch {
		case c.Scenario.Scenario.Curve == "recall":
			all = append(all, recallPlot(c))
		case c.Scenario.Scenario.Kind == spec.Throughput:
			all = append(all, callersPlot(c))
		}
	}
	return append(all, s.segmentsPlot())
}

// recallPlot draws each contender's knob as a line; the order along it is that of recall.
func recallPlot(c *record.Completed) plot {
	lines := map[string]*series{}
	var order []string
	for i := range c.Samples {
		x := &c.Samples[i]
		label, _, knob := strings.Cut(x.Contender.Name, "=")
		line := lines[label]
		if line == nil {
			line = &series{Name: label, Marks: !knob, Dashed: x.Contender.Engine != spec.LanceKNN}
			lines[label] = line
			order = append(order, label)
		}
		line.Points = append(line.Points, [2]float64{x.Recall, measure(spec.Single, x) / 1e6})
	}
	chart := chart{Title: c.Scenario.Scenario.Title, X: "recall", Y: "p50, ms", LogY: true, Recall: true}
	for _, label := range order {
		line := lines[label]
		slices.SortFunc(line.Points, func(a, b [2]float64) int {
			if a[0] != b[0] {
				return compare(a[0], b[0])
			}
			return compare(a[1], b[1])
		})
		chart.Series = append(chart.Series, *line)
	}
	return plot{c.Scenario.Scenario.ID, chart}
}

// callersPlot draws queries per second over the number of concurrent callers.
func callersPlot(c *record.Completed) plot {
	chart := chart{Title: c.Scenario.Scenario.Title, X: "concurrent callers", Y: "queries / s", LogX: true}
	for _, engine := range []string{spec.LanceKNN, spec.Pylance} {
		line := series{Name: engine, Dashed: engine != spec.LanceKNN}
		for i := range c.Samples {
			if x := &c.Samples[i]; x.Contender.Engine == engine {
				line.Points = append(line.Points, [2]float64{float64(max(1, x.Contender.Clients)), 1e9 / measure(spec.Throughput, x)})
			}
		}
		slices.SortFunc(line.Points, func(a, b [2]float64) int { return compare(a[0], b[0]) })
		if len(line.Points) > 0 {
			chart.Series = append(chart.Series, line)
		}
	}
	return plot{c.Scenario.Scenario.ID, chart}
}

// segmentsPlot draws one query with defaults over the number of segments, from every scenario that differs in nothing else.
func (s *section) segmentsPlot() plot {
	type line struct{ engine, layout string }
	points := map[line][][2]float64{}
	title := ""
	for i := range s.file.Scenarios {
		c := &s.file.Scenarios[i]
		sc, d := c.Scenario.Scenario, c.Data
		plain := sc.Search.K == 10 && sc.Search.NProbes == 0 && sc.Search.RefineFactor == 0 && sc.Search.Filter == 0 && sc.Curve == ""
		if sc.Kind != spec.Single || !plain || d.Index.Type != "IVF_FLAT" || d.Dim != 128 || d.Metric != "l2" || d.Sizes != spec.Even || sc.Queries < 100 ||
			strings.HasPrefix(sc.ID, "tuned") {
			continue
		}
		title = fmt.Sprintf("one query, defaults, %s, %d dimensions", d.Index.Type, d.Dim)
		for engine, sample := range map[string]*record.Sample{spec.LanceKNN: ours(c), spec.Pylance: reference(c)} {
			if sample == nil {
				continue
			}
			at := line{engine, d.Layout}
			points[at] = append(points[at], [2]float64{float64(d.Segments), measure(spec.Single, sample) / 1e6})
			if d.Segments == 1 { // one segment is both mixed and following
				other := line{engine, spec.Following}
				points[other] = append(points[other], points[at][len(points[at])-1])
			}
		}
	}
	chart := chart{Title: title, X: "segments", Y: "p50, ms", LogX: true, LogY: true}
	for _, engine := range []string{spec.LanceKNN, spec.Pylance} {
		for _, layout := range []string{spec.Mixed, spec.Following} {
			list := points[line{engine, layout}]
			if len(list) == 0 {
				continue
			}
			slices.SortFunc(list, func(a, b [2]float64) int { return compare(a[0], b[0]) })
			chart.Series = append(chart.Series, series{Name: engine + ", " + layout, Points: list, Dashed: engine != spec.LanceKNN})
		}
	}
	return plot{"segments", chart}
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
