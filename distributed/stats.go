package distributed

import (
	"time"

	"github.com/lanceknn/lanceknn/binding"
)

// Stats says how a search was done.
type Stats struct {
	Version   uint64
	Index     string // empty: flat search
	IndexType string
	Metric    binding.Metric
	Strategy  Strategy // in effect
	Tasks     int
	FlatTasks int // of Tasks, those without an index
	// Exact is set where every distance is exact. Otherwise they are those of the index, approximate where it is quantised.
	Exact    bool
	Rescored int // candidates re-scored after the merge

	// CoveredRows of the LiveRows were searched, for every query. The rest is outside the index (Skip) or Missing.
	LiveRows, CoveredRows uint64
	Missing               []*TaskError // tasks that failed, under AllowPartial

	// Summed over tasks and their queries; see [binding.SearchStats].
	DirectTasks        int // tasks that took the direct path
	SegmentsSearched   uint64
	PartitionsRanked   uint64
	PartitionsSearched uint64
	BytesRead          uint64
	Requests           uint64
	CacheHits          uint64
	CacheMisses        uint64

	// Wall time of each stage: Plan was spent in NewPlan, the others in Execute, one after another.
	Plan, Search, Merge, Refine, Take, Total time.Duration
}

func (s *Stats) add(t *binding.SearchStats) {
	if t.Path == binding.PathDirect {
		s.DirectTasks++
	}
	s.SegmentsSearched += t.SegmentsSearched
	s.PartitionsRanked += t.PartitionsRanked
	s.PartitionsSearched += t.PartitionsSearched
	s.BytesRead += t.BytesRead
	s.Requests += t.Requests
	s.CacheHits += t.CacheHits
	s.CacheMisses += t.CacheMisses
}

// account sums the tasks up.
func (p *Plan) account(outcomes []outcome, s *Stats) {
	missing := make(map[int]uint64) // rows missing, by first query of the block
	for i := range outcomes {
		if failed := outcomes[i].failed; failed != nil {
			s.Missing = append(s.Missing, failed)
			missing[p.tasks[i].FirstQuery] += failed.Rows
			continue
		}
		s.add(&outcomes[i].result.Stats)
	}
	var worst uint64
	for _, rows := range missing {
		worst = max(worst, rows)
	}
	s.CoveredRows = s.LiveRows - p.skipped - worst
}

func (p *Plan) newStats() Stats {
	s := Stats{
		Version: p.version, Metric: p.metric, Strategy: p.shape.strategy, Tasks: len(p.tasks), Exact: true,
		LiveRows: p.catalog.liveRows, CoveredRows: p.catalog.liveRows - p.skipped, Plan: p.took,
	}
	if x := p.choice.layout; x != nil {
		s.Index, s.IndexType = x.index.Name, x.index.Type
	}
	for i := range p.tasks {
		if p.tasks[i].Kind == FlatTask {
			s.FlatTasks++
		}
	}
	return s
}
