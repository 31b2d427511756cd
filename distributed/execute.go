package distributed

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/topk"
)

// Execute carries the plan out and waits for all of it. A [TaskError] names the task that failed; see Options.AllowPartial for results without
// it. When ctx ends, the tasks are stopped and the error matches ctx.Err and its cause. The caller releases the result.
func (p *Plan) Execute(ctx context.Context) (*Result, error) {
	if !p.made() {
		return nil, &ArgumentError{Name: "plan", Reason: notMade}
	}
	start := time.Now()
	stats := p.newStats()
	var merged []topk.Candidate
	if len(p.tasks) > 0 {
		outcomes, err := p.run(ctx)
		stats.Search = time.Since(start)
		if err != nil {
			return nil, err
		}
		p.account(outcomes, &stats)
		if merged, err = p.combine(ctx, outcomes, &stats); err != nil {
			return nil, err
		}
	} else if ctx.Err() != nil {
		return nil, ended(ctx, "search")
	}
	r := p.newResult(merged)
	if err := p.take(ctx, r, &stats); err != nil {
		return nil, err
	}
	stats.Total = p.took + time.Since(start)
	r.Stats = stats
	p.logDone(ctx, &stats)
	return r, nil
}

// take fetches the requested columns of the winners, all in one call. Lance reads a row that several queries found once.
func (p *Plan) take(ctx context.Context, r *Result, stats *Stats) error {
	if len(p.query.Columns) == 0 {
		return nil
	}
	start := time.Now()
	defer func() { stats.Take = time.Since(start) }()
	rowIDs := make([]uint64, len(r.neighbors))
	for i, n := range r.neighbors {
		rowIDs[i] = n.RowID
	}
	columns, err := p.ds.Take(ctx, rowIDs, p.query.Columns, r.allocator)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			columns.Release()
		}
		return ended(ctx, "take")
	case err != nil:
		return fmt.Errorf("distributed: take %d rows: %w", len(rowIDs), err)
	}
	if err := checkTaken(columns, len(rowIDs)); err != nil {
		columns.Release()
		return err
	}
	r.columns = columns
	return nil
}

func checkTaken(columns arrow.Record, rows int) error {
	if columns.NumRows() != int64(rows) {
		return fmt.Errorf("distributed: take gave %d rows for %d row ids: %w", columns.NumRows(), rows, binding.ErrInternal)
	}
	return nil
}
