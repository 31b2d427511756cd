package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

const handle = "table"

// execution is one scenario being run.
type execution struct {
	runner      *Runner
	scenario    spec.Scenario
	set         *dataset.Set
	truth       *dataset.Truth
	fingerprint string
	fleet       *fleet
	entries     []*entry
	foreign     host.Foreign
	quiet       bool
	failures    int
	rejectedOwn int
	lines       []any
}

// entry is a contender's part in it.
type entry struct {
	contender spec.Contender
	versions  map[string]string
	process   *engine.Process // nil in cold-process scenarios between samples

	durations, native [][]int64
	wall              []int64
	startNS, openNS   []int64
	cpu               time.Duration
	tree              host.Tree

	recallSum                                 float64
	judged                                    int
	fault                                     string
	err                                       error
	calls                                     int
	bytes, requests, partitions, segmentsRead tally
}

// tally is a count that may be unknown.
type tally struct {
	sum   int64
	known bool
}

func (t *tally) add(v *int64) {
	if v != nil {
		t.sum, t.known = t.sum+*v, true
	}
}

func (t tally) per(n int) *float64 {
	if !t.known || n == 0 {
		return nil
	}
	v := float64(t.sum) / float64(n)
	return &v
}

func (x *execution) run(ctx context.Context) error {
	started := time.Now()
	if x.scenario.Queries > x.set.Spec.Queries {
		return fmt.Errorf("%d queries wanted, data set %s has %d", x.scenario.Queries, x.set.Spec.Name, x.set.Spec.Queries)
	}
	var err error
	if x.truth, err = x.set.Truth(dataset.Judge, x.scenario.Search.Threshold()); err != nil {
		return err
	}
	for _, c := range x.scenario.Contenders {
		x.entries = append(x.entries, &entry{contender: c})
	}
	x.fleet = newFleet(x.runner, x.set, x.scenario)
	defer x.fleet.close()

	switch x.scenario.Kind {
	case spec.ColdProcess:
		err = x.coldProcess(ctx)
	case spec.ColdStorage:
		err = x.coldStorage(ctx)
	case spec.Single, spec.Matrix, spec.Throughput:
		err = x.warm(ctx)
	default:
		err = fmt.Errorf("kind %q is unknown", x.scenario.Kind)
	}
	if err != nil {
		return err
	}
	x.conclude()
	x.quiet = x.foreign.CPUFraction+x.foreign.StealFraction <= x.runner.Quiet
	x.lines = append(x.lines, record.Scenario{
		Type: record.TypeScenario, Run: x.runner.RunID, Scenario: x.scenario, Data: x.set.Spec, DataHash: x.set.Hash, Version: x.set.Version,
		Fingerprint: x.fingerprint, Started: started.UTC().Format(time.RFC3339), Seconds: time.Since(started).Seconds(), Foreign: x.foreign, Quiet: x.quiet,
	})
	if !x.quiet {
		x.runner.Progress("    others used %.0f %% of the machine (%.0f %% stolen): take these figures again",
			100*x.foreign.CPUFraction, 100*x.foreign.StealFraction)
	}
	return record.Append(x.runner.Out, x.lines...)
}

// living are the entries that can still take part.
func (x *execution) living() []*entry {
	return slices.DeleteFunc(slices.Clone(x.entries), func(e *entry) bool { return e.err != nil || e.fault != "" })
}

// turns is the order of contenders in a turn: a row of a Williams square, 0 1 n-1 2 n-2 ... and then each moved on by one, so that within n
// turns (2n where n is odd: the second half runs backwards) each starts equally often and follows every other equally often. Who runs first
// after another engine finds the processor's caches cold.
func (x *execution) turns(turn int) []*entry {
	living := x.living()
	n := len(living)
	order := make([]*entry, n)
	for i := range order {
		at := (i + 1) / 2
		if i%2 == 0 {
			at = n - at
		}
		order[i] = living[(at+turn)%n]
	}
	if n > 0 && turn/n%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

func (x *execution) warm(ctx context.Context) error {
	for _, e := range x.entries {
		x.attempt(ctx, e, func() error { return x.fleet.attach(ctx, e) })
	}
	// Everyone answers everything once before the clock counts: caches are filled, and wrong answers are found before they are timed.
	for _, e := range x.living() {
		x.attempt(ctx, e, func() error { return x.answer(ctx, e, sequence(0, x.scenario.Queries), nil) })
	}
	for _, e := range x.entries {
		e.recallSum, e.judged, e.calls, e.cpu = 0, 0, 0, 0
		e.bytes, e.requests, e.partitions, e.segmentsRead = tally{}, tally{}, tally{}, tally{}
	}
	load := host.ReadLoad()
	turn := 0
	for round := range x.scenario.Rounds {
		for from := 0; from < x.scenario.Queries; from += x.scenario.Block {
			timed := &timing{round: round, lead: x.scenario.LeadIn}
			numbers := x.withLead(from, min(from+x.scenario.Block, x.scenario.Queries))
			for _, e := range x.turns(turn) {
				x.attempt(ctx, e, func() error { return x.answer(ctx, e, numbers, timed) })
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			turn++
		}
	}
	x.foreign = load.Since(x.runner.Cores)
	x.weigh()
	return nil
}

func (x *execution) coldStorage(ctx context.Context) error {
	for _, e := range x.entries {
		x.attempt(ctx, e, func() error { return x.fleet.launch(ctx, e) })
	}
	load, timed := host.ReadLoad(), &timing{}
	for query := range x.scenario.Queries {
		for _, e := range x.turns(query) {
			x.attempt(ctx, e, func() error {
				server, err := x.fleet.server(e)
				if err != nil {
					return err
				}
				opened, err := x.fleet.open(ctx, e)
				if err != nil {
					return err
				}
				e.openNS = append(e.openNS, opened.DurationsNS[0])
				requests, bytes := server.Counts()
				if err := x.answer(ctx, e, []int{query}, timed); err != nil {
					return err
				}
				// The server's counts are the same measure for every engine, so they replace the engines' own.
				requestsNow, bytesNow := server.Counts()
				requests, bytes = requestsNow-requests, bytesNow-bytes
				if requests == 0 {
					e.fault = "answered without reading from the store: its caches were not empty"
				}
				e.requests.add(&requests)
				e.bytes.add(&bytes)
				_, err = call(ctx, e.process, engine.Request{Op: "close", Handle: handle})
				return err
			})
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	x.foreign = load.Since(x.runner.Cores)
	x.weigh()
	return nil
}

func (x *execution) coldProcess(ctx context.Context) error {
	load, timed := host.ReadLoad(), &timing{}
	for query := range x.scenario.Queries {
		for _, e := range x.turns(query) {
			x.attempt(ctx, e, func() error {
				begin := time.Now()
				if err := x.fleet.launch(ctx, e); err != nil {
					return err
				}
				e.startNS = append(e.startNS, time.Since(begin).Nanoseconds())
				opened, err := x.fleet.open(ctx, e)
				if err != nil {
					return err
				}
				e.openNS = append(e.openNS, opened.DurationsNS[0])
				if err := x.answer(ctx, e, []int{query}, timed); err != nil {
					return err
				}
				tree := host.Measure(e.process.PID())
				e.tree.PeakBytes, e.tree.Processes = max(e.tree.PeakBytes, tree.PeakBytes), tree.Processes
				return x.fleet.retire(e)
			})
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
	}
	x.foreign = load.Since(x.runner.Cores)
	return nil
}

// attempt notes an entry's error and goes on with the others; only the end of the whole run stops it.
func (x *execution) attempt(ctx context.Context, e *entry, step func() error) {
	if e.err != nil || e.fault != "" {
		return
	}
	if err := step(); err != nil {
		e.err = err
		if ctx.Err() == nil {
			x.runner.Progress("    %s: %v", e.contender.Name, err)
		}
	}
}

// weigh reads what each entry's process used at most.
func (x *execution) weigh() {
	for _, e := range x.living() {
		e.tree = host.Measure(e.process.PID())
	}
}

func sequence(from, to int) []int {
	numbers := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// judge adds up the recall of the answers to queries, but for those that lead a turn in, which would weigh double. A fault is one wherever it is.
func (e *entry) judge(numbers []int, lead int, verdict func(i int) dataset.Verdict) {
	for i, query := range numbers {
		v := verdict(i)
		if v.Fault != "" {
			e.fault = fmt.Sprintf("query %d: %s", query, v.Fault)
			return
		}
		if i >= lead && !math.IsNaN(v.Recall) {
			e.recallSum += v.Recall
			e.judged++
		}
	}
}

// timing is where the durations of a turn go: all but those of the queries that lead it in.
type timing struct{ round, lead int }

// withLead are the queries of a turn, after those that lead it in: the ones before them, or at the start the last ones.
func (x *execution) withLead(from, to int) []int {
	numbers := make([]int, 0, x.scenario.LeadIn+to-from)
	for i := from - x.scenario.LeadIn; i < to; i++ {
		numbers = append(numbers, (i+x.scenario.Queries)%x.scenario.Queries)
	}
	return numbers
}

// answer has an entry answer queries and judges what it says; with a timing it counts.
func (x *execution) answer(ctx context.Context, e *entry, numbers []int, timed *timing) error {
	s, c := x.scenario, e.contender
	search := searchOf(s.Search, c)
	mode, clients := s.Kind, c.Clients
	switch {
	case s.Kind == spec.Matrix && c.OneByOne:
		mode = spec.Throughput
	case s.Kind == spec.ColdProcess || s.Kind == spec.ColdStorage:
		mode = spec.Single
	}
	var before host.Tree
	if c.Engine == spec.LanceRay {
		before = host.Measure(e.process.PID()) // its work is done by other processes than the one that answers
	}
	got, err := call(ctx, e.process, engine.Request{
		Op: "run", Handle: handle, Set: dataset.Judge, Mode: mode, Queries: numbers, Clients: max(1, clients), K: search.K, Search: &search,
	})
	if err != nil {
		return err
	}
	if len(got.Results) != len(numbers) {
		e.fault = fmt.Sprintf("%d answers to %d queries", len(got.Results), len(numbers))
		return nil
	}
	lead := 0
	if timed != nil {
		lead = timed.lead
	}
	exact := search.RefineFactor > 0 || x.set.Spec.Index.Type == "IVF_FLAT" || x.set.Spec.Index.Type == "IVF_HNSW_FLAT"
	e.judge(numbers, lead, func(i int) dataset.Verdict {
		return x.truth.Judge(numbers[i], search.K, got.Results[i].IDs, got.Results[i].Distances, exact)
	})
	if timed == nil || e.fault != "" {
		return nil
	}
	round := timed.round
	for len(e.durations) <= round {
		e.durations, e.native, e.wall = append(e.durations, nil), append(e.native, nil), append(e.wall, 0)
	}
	durations := got.DurationsNS
	if s.Kind == spec.Matrix {
		durations = []int64{got.WallNS}
	}
	e.durations[round] = append(e.durations[round], durations[lead:]...)
	e.native[round] = append(e.native[round], got.NativeNS[min(lead, len(got.NativeNS)):]...)
	e.wall[round] += got.WallNS
	e.cpu += time.Duration(got.CPUNS)
	if c.Engine == spec.LanceRay {
		e.cpu += host.Measure(e.process.PID()).CPU - before.CPU - time.Duration(got.CPUNS)
	}
	e.calls += len(numbers)
	if s.Kind != spec.ColdStorage {
		e.bytes.add(got.BytesRead)
		e.requests.add(got.Requests)
	}
	e.partitions.add(got.PartitionsSearched)
	e.segmentsRead.add(got.SegmentsSearched)
	return nil
}

// searchOf is the scenario's search as one contender makes it.
func searchOf(s spec.Search, c spec.Contender) engine.Search {
	e := engine.Search{
		Column: "vec", K: s.K, NProbes: s.NProbes, RefineFactor: s.RefineFactor, EF: s.EF, Columns: s.Columns,
		QueryParallelism: c.QueryParallelism, SearchEffort: c.SearchEffort, Strategy: c.Strategy, Path: c.Path, Probing: c.Probing,
	}
	if c.NProbes > 0 {
		e.NProbes = c.NProbes
	}
	if s.Filter > 0 {
		column := "cat"
		if s.FilterIndex {
			column = "cat_ix"
		}
		e.Filter = fmt.Sprintf("%s < %d", column, s.Filter)
	}
	return e
}

// conclude turns the entries into lines: a sample for those that met the floor, and for the others what happened instead.
func (x *execution) conclude() {
	s, run := x.scenario, x.runner.RunID
	for _, e := range x.entries {
		c, floor := e.contender, x.scenario.Floor(e.contender)
		recall := math.NaN()
		if e.judged > 0 {
			recall = e.recallSum / float64(e.judged)
		}
		var unavailable *unavailableError
		switch {
		case errors.As(e.err, &unavailable):
			x.lines = append(x.lines, record.Unavailable{
				Type: record.TypeUnavailable, Run: run, Scenario: s.ID, Contender: c, Reason: x.runner.clean(e.err.Error()),
			})
		case e.err != nil:
			x.failures++
			x.lines = append(x.lines, record.Failure{
				Type: record.TypeFailure, Run: run, Scenario: s.ID, Contender: &c, Reason: x.runner.clean(e.err.Error()),
			})
		case e.fault != "" || !spec.Meets(recall, floor):
			rejection := record.Rejection{Type: record.TypeRejection, Run: run, Scenario: s.ID, Contender: c, Floor: floor, Reason: e.fault}
			if e.fault == "" {
				rejection.Recall, rejection.Reason = &recall, fmt.Sprintf("recall %.4f is below %.4f", recall, floor)
			}
			if c.Engine == spec.LanceKNN {
				x.rejectedOwn++
			}
			x.runner.Progress("    %-42s rejected: %s", c.Name, rejection.Reason)
			x.lines = append(x.lines, rejection)
		default:
			x.runner.Progress("    %-42s p50 %9.3f ms   recall %.4f", c.Name, float64(e.median())/1e6, recall)
			x.lines = append(x.lines, record.Sample{
				Type: record.TypeSample, Run: run, Scenario: s.ID, Contender: c, Versions: e.versions, Budget: x.runner.budget(c),
				Recall: recall, Floor: floor, DurationsNS: e.durations, WallNS: e.wall, StartNS: e.startNS, OpenNS: e.openNS, NativeNS: trimmed(e.native),
				QueriesPerRound: s.Queries, CPUSeconds: e.cpu.Seconds(), PeakRSSBytes: e.tree.PeakBytes, Processes: e.tree.Processes,
				BytesPerQuery: e.bytes.per(e.calls), RequestsPerQuery: e.requests.per(e.calls),
				PartitionsPerQuery: e.partitions.per(e.calls), SegmentsPerQuery: e.segmentsRead.per(e.calls),
			})
		}
	}
}

func trimmed(rounds [][]int64) [][]int64 {
	for _, r := range rounds {
		if len(r) > 0 {
			return rounds
		}
	}
	return nil
}

// median is of the calls, or of start, open and query together where the process is new.
func (e *entry) median() int64 {
	all := slices.Concat(e.durations...)
	if len(e.startNS) == len(all) {
		for i := range all {
			all[i] += e.startNS[i] + e.openNS[i]
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}
