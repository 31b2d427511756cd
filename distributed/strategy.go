package distributed

import (
	"fmt"
)

// The constants of the rule behind Auto. They are thresholds, not measurements of a machine: each says from where on one way of splitting
// wins whatever the hardware.
const (
	// queriesPerWorker: with so many queries for each worker, cutting the queries keeps every worker busy to the end, and every query keeps the
	// one scan over all segments that Lance would make for it.
	queriesPerWorker = 4
	// gridTasksPerWorker bounds a grid, whose two sides multiply.
	gridTasksPerWorker = 4
)

// demand is what there is to split and what to split it over.
type demand struct {
	queries  int
	units    int // units of the index, 0 without one
	flat     int // fragments to search flat
	whole    string
	direct   bool // one native call searches the index on all cores by itself
	local    bool
	workers  int
	maxTasks int // 0: the default of the strategy
}

// shape is how a search is split: over groups of units, groups of flat fragments, and blocks of queries. Every block meets every group, so
// there are (groups + flats) x blocks tasks.
type shape struct {
	strategy Strategy
	groups   int  // of index units
	flats    int  // of flat fragments
	scan     bool // instead of groups and flats: one task for all rows
	blocks   int
	reasons  []string
}

func (s shape) parts() int {
	if s.scan {
		return 1
	}
	return s.groups + s.flats
}

// split decides the shape. A strategy that was asked for is kept as far as the rows allow.
func (d demand) split(asked Strategy) shape {
	if asked == Auto {
		return d.auto()
	}
	strategy := asked
	if d.whole != "" {
		switch asked {
		case Segments:
			strategy = Single
		case Grid:
			strategy = Queries
		}
	}
	s := d.shape(strategy)
	s.reasons = append(s.reasons, asked.String()+" asked for")
	if d.whole != "" {
		s.reasons = append(s.reasons, "rows stay together: "+d.whole)
	}
	return s
}

// shape carries a strategy out.
func (d demand) shape(strategy Strategy) shape {
	s := shape{strategy: strategy, blocks: 1}
	budget := d.maxTasks
	if budget == 0 {
		budget = d.workers
		if strategy == Grid {
			budget *= gridTasksPerWorker
		}
	}
	switch strategy {
	case Segments:
		d.splitRows(&s, budget)
	case Queries:
		d.splitRows(&s, 1)
		s.blocks = min(d.queries, budget)
	case Grid:
		rows, queries := min(budget, d.workers), min(budget, d.workers, d.queries)
		for d.splitRows(&s, rows); s.parts()*queries > budget; d.splitRows(&s, rows) {
			if s.parts() > queries {
				rows = s.parts() - 1
			} else {
				queries--
			}
		}
		s.blocks = queries
	default:
		d.splitRows(&s, 1)
	}
	return s
}

// splitRows cuts the rows into at most n parts.
func (d demand) splitRows(s *shape, n int) {
	s.groups, s.flats, s.scan = 0, 0, false
	switch {
	case d.whole != "":
		s.scan = true
	case d.units == 0:
		s.flats = min(d.flat, n)
	case d.flat == 0:
		s.groups = min(d.units, n)
	case n == 1:
		s.scan = true
	default:
		// A row costs far more flat than through the index, so flat fragments get the larger half.
		s.groups = min(d.units, n/2)
		s.flats = min(d.flat, n-s.groups)
		s.groups = min(d.units, n-s.flats)
	}
}

// auto is the cost model, in the order of its rules.
func (d demand) auto() shape {
	pick := func(strategy Strategy, format string, args ...any) shape {
		s := d.shape(strategy)
		s.reasons = append(s.reasons, fmt.Sprintf(format, args...))
		return s
	}
	budget := d.workers
	if d.maxTasks > 0 {
		budget = min(budget, d.maxTasks)
	}
	matrix := d.queries >= queriesPerWorker*budget
	switch {
	case d.whole != "":
		return pick(Single, "rows stay together: %s", d.whole)
	case budget == 1:
		return pick(Single, "one task at a time")
	case d.units == 0:
		// A flat scan reads every row once for all its queries, so rows are cut and not queries.
		return pick(Segments, "flat search: %s over %s", plural(d.flat, "fragment"), plural(budget, "worker"))
	case d.direct && d.local && d.flat == 0:
		s := pick(Single, "the direct path searches all segments on all cores, with one probe budget")
		return s
	case d.direct && d.local:
		s := pick(Segments, "the direct path searches all segments on all cores; rows outside the index are searched beside it")
		s.groups, s.flats = 1, min(d.flat, budget-1)
		return s
	case d.local && matrix:
		return pick(Queries, "%s for %s", plural(d.queries, "query vector"), plural(budget, "worker"))
	case d.queries == 1 || d.units+d.flat >= budget:
		return pick(Segments, "%s and %s for %s", plural(d.units, "unit"), plural(d.flat, "flat fragment"), plural(budget, "worker"))
	default:
		return pick(Grid, "%s and %s leave some of %s idle, so queries are cut too", plural(d.units, "unit"), plural(d.flat, "flat fragment"), plural(budget, "worker"))
	}
}
