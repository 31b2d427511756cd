package distributed

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// Explain says in words what the plan will do and why: the snapshot, the index and its coverage, the strategy and each task. It contains
// neither vectors nor credentials.
func (p *Plan) Explain() string {
	if !p.made() {
		return notMade + "\n"
	}
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name+":", fmt.Sprintf(format, args...))
	}
	q, x := &p.query, p.choice.layout

	line("dataset", "%s, version %d, %s in %s", orUnnamed(publicURI(p.uri)), p.version,
		plural(p.catalog.liveRows, "live row"), plural(len(p.catalog.fragments), "fragment"))
	line("query", "%s", p.explainQuery())
	if q.Filter != "" {
		line("filter", "%s (before neighbours are chosen)", q.Filter)
	}
	_, why := p.Index()
	if x == nil {
		line("index", "none: %s", why)
	} else {
		line("index", "%q, %s, %s, %s: %s", x.index.Name, x.index.Type, orUnknown(x.metric), plural(len(x.index.Segments), "segment"), why)
	}
	line("metric", "%s", p.metric)
	line("coverage", "%s", p.explainCoverage())
	if x != nil {
		line("units", "%s", x.explainUnits())
	}
	line("strategy", "%s: %s", p.shape.strategy, strings.Join(p.shape.reasons, "; "))
	if p.eligible != nil {
		path := "scanner"
		if p.eligible.Direct {
			path = "direct"
		}
		line("path", "%s%s", path, reasons(p.eligible.Reasons))
	} else {
		line("path", "%s, decided by each task", p.options.Path)
	}
	line("distance", "%s", p.explainDistances())
	line("tasks", "%d, at most %d at once", len(p.tasks), p.concurrency())
	for i := range p.tasks {
		fmt.Fprintf(&b, "  %s\n", p.tasks[i])
	}
	return b.String()
}

func (p *Plan) explainQuery() string {
	s := fmt.Sprintf("%s of dimension %d (%s) on %q, k %d", plural(p.queries, "query vector"), p.vectors.Dim, p.vectors.Type, p.query.Column, p.query.K)
	if p.vectors.PerQuery > 0 {
		s = fmt.Sprintf("%d multivector queries of %d x %d (%s) on %q, k %d", p.queries, p.vectors.PerQuery, p.vectors.Dim, p.vectors.Type, p.query.Column, p.query.K)
	}
	if p.query.Offset > 0 {
		s += fmt.Sprintf(", offset %d", p.query.Offset)
	}
	if p.query.RefineFactor > 0 {
		s += fmt.Sprintf(", refine factor %d", p.query.RefineFactor)
	}
	if dropped := p.queries - p.vectors.Queries; dropped > 0 {
		s += fmt.Sprintf("; %s without direction have no cosine distance and no answer", plural(dropped, "zero vector"))
	}
	return s
}

func (p *Plan) explainCoverage() string {
	live, x := p.catalog.liveRows, p.choice.layout
	switch {
	case x == nil && p.skipped > 0:
		return fmt.Sprintf("0 of %s; rows outside an index are skipped", plural(live, "live row"))
	case x == nil:
		return "every live row, flat"
	case len(x.uncovered) == 0:
		return "every live row is in the index"
	}
	return fmt.Sprintf("%d of %s are in the index; fragments %s with %s are outside: %s", x.covered, plural(live, "live row"),
		formatFragments(fragmentIDs(x.uncovered)), plural(x.uncoveredRows(), "live row"),
		map[Unindexed]string{Require: "refused", Scan: "searched flat", Skip: "skipped"}[p.options.Unindexed])
}

func (x *indexLayout) explainUnits() string {
	if len(x.units) == 0 {
		return fmt.Sprintf("none: %s without live rows", plural(x.dropped, "segment"))
	}
	smallest, largest := x.units[0].rows, x.units[0].rows
	for _, u := range x.units {
		smallest, largest = min(smallest, u.rows), max(largest, u.rows)
	}
	s := fmt.Sprintf("%d, of %d to %s", len(x.units), smallest, plural(largest, "live row"))
	if len(x.segments) > len(x.units) {
		s += fmt.Sprintf(", from %d segments: those whose live fragments overlap share a unit", len(x.segments))
	}
	if x.dropped > 0 {
		s += fmt.Sprintf("; %s without live rows dropped", plural(x.dropped, "segment"))
	}
	return s
}

func (p *Plan) explainDistances() string {
	split := p.shape.parts() > 1
	flats := p.shape.flats > 0
	switch {
	case len(p.tasks) == 0:
		return "none"
	case p.choice.layout == nil, flats && p.shape.groups == 0:
		return "exact"
	case split && (flats || p.sizes.refine > 0):
		return fmt.Sprintf("exact: the best %d index candidates of all tasks are re-scored once, after the merge", p.sizes.candidates)
	case p.sizes.refine > 0:
		return fmt.Sprintf("exact: each task re-scores its best %d candidates", p.sizes.candidates)
	case p.givesExact(&p.tasks[0]):
		return "exact: one scan over the index and the rows outside it re-scores what the index gives"
	}
	return "those of the index, approximate where it is quantised"
}

func reasons(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return ": " + strings.Join(list, "; ")
}

func orUnnamed(uri string) string {
	if uri == "" {
		return "table of a namespace"
	}
	return uri
}

// log reports the plan, and warns where an index exists but the whole dataset is searched flat.
func (p *Plan) log(ctx context.Context) {
	log := p.options.Logger
	if log == nil {
		return
	}
	if p.choice.layout == nil && len(p.choice.rejected) > 0 && p.shape.flats > 0 {
		log.WarnContext(ctx, "vector search without index", "column", p.query.Column, "rows", p.catalog.liveRows, "reason", p.choice.why(&p.query, ""))
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		log.DebugContext(ctx, "vector search planned", "plan", p.Explain(), "took", p.took)
	}
}

func (p *Plan) logDone(ctx context.Context, s *Stats) {
	if log := p.options.Logger; log != nil && log.Enabled(ctx, slog.LevelDebug) {
		log.DebugContext(ctx, "vector search done", "version", s.Version, "index", s.Index, "strategy", s.Strategy.String(), "tasks", s.Tasks,
			"live_rows", s.LiveRows, "covered_rows", s.CoveredRows, "rescored", s.Rescored, "search", s.Search, "merge", s.Merge, "refine", s.Refine,
			"take", s.Take, "total", s.Total)
	}
}
