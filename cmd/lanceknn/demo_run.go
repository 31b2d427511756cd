package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/render"
	"github.com/lanceknn/lanceknn/distributed"
)

// demoRun measures every contender on the same data.
type demoRun struct {
	console
	flags   demoFlags
	data    demoData
	ds      *binding.Dataset
	pylance *pylance // nil: not there

	failures []string
}

// run is one pass over all queries.
type run struct {
	times     []time.Duration // one a query, or one for the matrix
	neighbors [][]neighbor    // by query
	tasks     int
}

// contender is one way to answer the queries.
type contender struct {
	name string
	// reference marks Lance's own single scan, which the others are compared with.
	reference bool
	// mustEqual fails the demo if the answers differ from the reference's.
	mustEqual bool
	search    func(ctx context.Context) (run, error)
}

func (d *demoRun) run(ctx context.Context) error {
	if err := d.checkRows(ctx); err != nil {
		return err
	}
	for _, matrix := range []bool{false, true} {
		for _, nprobes := range []int{d.flags.nprobes, 0} {
			if err := d.compare(ctx, matrix, nprobes); err != nil {
				return err
			}
		}
	}
	if len(d.failures) > 0 {
		fmt.Fprintf(d.out, "\n%s\n", strings.Join(d.failures, "\n"))
		return fmt.Errorf("%s failed, the first: %s", plural(len(d.failures), "check"), d.failures[0])
	}
	fmt.Fprintf(d.out, "\nall checks passed: recall@%d is at least %v everywhere, and with fixed probes every strategy gives the rows and "+
		"distances of Lance's single scan\n", d.flags.k, d.flags.minRecall)
	return nil
}

// checkRows makes sure that row ids mean what the checks take them to mean, by asking for the rows' own numbers.
func (d *demoRun) checkRows(ctx context.Context) error {
	q := d.query(0)
	q.Vectors, q.Columns = distributed.Float32(d.data.queries, d.flags.dim), []string{"id"}
	result, err := distributed.VectorSearch(ctx, d.ds, q, distributed.Options{})
	if err != nil {
		return err
	}
	defer result.Release()
	rowIDs, ids := result.Record().Column(rowIDColumn).(*array.Uint64), result.Record().Column(firstColumn).(*array.Int64)
	for i := range ids.Len() {
		if want := d.data.row(rowIDs.Value(i)); ids.Value(i) != int64(want) {
			return fmt.Errorf("row id %d was fetched as row %d, not %d", rowIDs.Value(i), ids.Value(i), want)
		}
	}
	return nil
}

func (d *demoRun) query(nprobes int) distributed.Query {
	return distributed.Query{Column: demoColumn, K: d.flags.k, RefineFactor: d.flags.refineFactor, NProbes: nprobes}
}

// compare runs all contenders for one kind of work, in turns, so that what else the machine does falls on all of them.
func (d *demoRun) compare(ctx context.Context, matrix bool, nprobes int) error {
	contenders := d.contenders(matrix, nprobes)
	runs := make([][]run, len(contenders))
	bar := d.progress("searching", (d.flags.rounds+1)*len(contenders))
	defer bar.done() // before an error is printed
	for round := range d.flags.rounds + 1 {
		for i, c := range contenders {
			r, err := c.search(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 { // the first loads the caches
				runs[i] = append(runs[i], r)
			}
			bar.add(1)
		}
	}
	bar.done()
	d.report(matrix, nprobes, contenders, runs)
	return nil
}

func (d *demoRun) contenders(matrix bool, nprobes int) []contender {
	fixed := nprobes > 0
	var all []contender
	if d.pylance != nil {
		all = append(all, contender{
			name: "pylance " + d.pylance.version, mustEqual: fixed,
			search: func(context.Context) (run, error) { return d.pylance.run(matrix, nprobes) },
		})
	}
	all = append(all, contender{
		name: "Lance single scan", reference: true,
		search: d.searcher(matrix, nprobes, distributed.Options{Strategy: distributed.Single, Path: binding.PathScanner}),
	})
	for _, s := range []distributed.Strategy{
		distributed.Single, distributed.Segments, distributed.Queries, distributed.Grid, distributed.Auto,
	} {
		all = append(all, contender{
			name: s.String(), mustEqual: fixed, search: d.searcher(matrix, nprobes, distributed.Options{Strategy: s}),
		})
	}
	return all
}

func (d *demoRun) searcher(matrix bool, nprobes int, o distributed.Options) func(context.Context) (run, error) {
	dim := d.flags.dim
	return func(ctx context.Context) (run, error) {
		var r run
		step := dim
		if matrix {
			step = len(d.data.queries)
		}
		for at := 0; at < len(d.data.queries); at += step {
			q := d.query(nprobes)
			q.Vectors = distributed.Float32(d.data.queries[at:at+step], dim)
			start := time.Now()
			result, err := distributed.VectorSearch(ctx, d.ds, q, o)
			if err != nil {
				return run{}, err
			}
			r.times = append(r.times, time.Since(start))
			r.tasks = result.Stats.Tasks
			for i := range result.Len() {
				var found []neighbor
				for _, n := range result.Neighbors(i) {
					found = append(found, neighbor{rowID: n.RowID, distance: n.Distance})
				}
				r.neighbors = append(r.neighbors, found)
			}
			result.Release()
		}
		return r, nil
	}
}

// report prints the table of one kind of work and notes what failed.
func (d *demoRun) report(matrix bool, nprobes int, contenders []contender, runs [][]run) {
	work := plural(d.flags.queries, "query") + ", one at a time"
	if matrix {
		work = "a matrix of " + plural(d.flags.queries, "query")
	}
	probes := "default probes"
	if nprobes > 0 {
		probes = plural(nprobes, "probe") + " per segment"
	}
	var reference [][]neighbor
	for i, c := range contenders {
		if c.reference {
			reference = runs[i][0].neighbors
		}
	}
	t := render.Table{
		Header: []string{"", "tasks", "p50 ms", fmt.Sprintf("recall@%d", d.flags.k), "as Lance's single scan"},
		Left:   []bool{true, false, false, false, true},
	}
	for i, c := range contenders {
		worst, same := 1.0, d.flags.queries
		var times []time.Duration
		for _, r := range runs[i] {
			worst = min(worst, recall(r.neighbors, d.data.truth, d.data.row))
			same = min(same, sameAnswers(reference, r.neighbors))
			times = append(times, r.times...)
		}
		if worst < d.flags.minRecall {
			d.fail("recall %.3f of %s (%s, %s)", worst, c.name, work, probes)
		}
		if c.mustEqual && same < d.flags.queries {
			d.fail("%d of %d answers of %s are Lance's (%s, %s)", same, d.flags.queries, c.name, work, probes)
		}
		tasks := "-"
		if n := runs[i][0].tasks; n > 0 {
			tasks = strconv.Itoa(n)
		}
		agreement := fmt.Sprintf("%d of %s", same, plural(d.flags.queries, "query"))
		if c.reference {
			agreement = "reference"
		}
		t.Rows = append(t.Rows, []string{
			c.name, tasks, strconv.FormatFloat(median(times).Seconds()*1000, 'f', 2, 64), strconv.FormatFloat(worst, 'f', 3, 64), agreement,
		})
	}
	fmt.Fprintf(d.out, "\n%s, %s, refine factor %d\n", work, probes, d.flags.refineFactor)
	_, _ = t.WriteTo(d.out)
}

func (d *demoRun) fail(format string, args ...any) {
	d.failures = append(d.failures, fmt.Sprintf(format, args...))
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2]
}
