package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/engine"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
	"github.com/lanceknn/lanceknn/bench/internal/worker"
)

// probePoint is one setting of the knob on one data set.
type probePoint struct {
	Data           string   `json:"data"`
	Queries        string   `json:"queries"`
	K              int      `json:"k"`
	Effort         *float64 `json:"search_effort"` // nil: nothing set
	P50MS          float64  `json:"p50_ms"`
	P95MS          float64  `json:"p95_ms"`
	Recall         float64  `json:"recall"`
	WorstRecall    float64  `json:"worst_recall"` // of one query
	Partitions     float64  `json:"partitions"`   // per query
	Segments       float64  `json:"segments"`
	NativeMS       float64  `json:"native_ms,omitempty"`
	QueriesBelow99 int      `json:"queries_below_99"`
}

// probe is one run of the command: data sets x k x values of the knob.
type probe struct {
	profile, data, set string
	efforts, ks        string
	search             engine.Search // but for what is swept
	filter, rounds     int
	asJSON             bool
	table              *tabwriter.Writer
}

func (p *probe) parse(args []string) error {
	f := flag.NewFlagSet("bench probe", flag.ContinueOnError)
	f.StringVar(&p.profile, "profile", "calibrate", "profile that names the data sets: calibrate, quick, full or smoke")
	f.StringVar(&p.data, "data", "", "data sets, separated by commas (default: all of the profile)")
	f.StringVar(&p.efforts, "efforts", "default,0,0.1,0.2,0.3,0.4,0.45,0.5,0.55,0.6,0.7,0.8,0.9,1", `values of the knob; "default" leaves it unset`)
	f.StringVar(&p.ks, "k", "10", "values of k, separated by commas")
	f.StringVar(&p.set, "queries", dataset.Calib, "query set: calib to choose constants, judge to see what they do")
	f.StringVar(&p.search.Strategy, "strategy", spec.Native, "native (one call of the binding), auto, single, segments, queries or grid")
	f.StringVar(&p.search.Probing, "probing", "shared", "shared, segment or auto")
	f.StringVar(&p.search.Path, "path", "auto", "auto, direct or scanner")
	f.IntVar(&p.search.RefineFactor, "refine", 0, "refine factor")
	f.IntVar(&p.search.EF, "ef", 0, "width of the search in an HNSW graph")
	f.IntVar(&p.search.NProbes, "nprobes", 0, "partitions per segment, with -efforts default")
	f.IntVar(&p.filter, "filter", 0, "threshold t of the filter `cat < t`, one of those of the data set")
	f.IntVar(&p.rounds, "rounds", 3, "timed passes over the queries")
	f.BoolVar(&p.asJSON, "json", false, "print JSON lines")
	return f.Parse(args)
}

// probeCommand sweeps the search effort, for choosing the default. It judges by the calib queries, which no result is judged by.
func probeCommand(ctx context.Context, args []string) error {
	var p probe
	if err := p.parse(args); err != nil {
		return err
	}
	profile, err := spec.Profiles(p.profile)
	if err != nil {
		return err
	}
	cache, err := host.Cache()
	if err != nil {
		return err
	}
	s, err := store(ctx, cache)
	if err != nil {
		return err
	}
	p.table = tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', tabwriter.AlignRight)
	if !p.asJSON {
		fmt.Fprintln(p.table, "data\tk\teffort\tp50 ms\tp95 ms\tnative ms\trecall\tworst\t<0.99\tpartitions\tsegments\t")
	}
	found := false
	for _, d := range profile.Data {
		if p.data != "" && !slices.Contains(strings.Split(p.data, ","), d.Name) {
			continue
		}
		found = true
		data, err := s.Prepare(ctx, d)
		if err != nil {
			return err
		}
		if err := p.sweep(ctx, data); err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if !found {
		return fmt.Errorf("profile %s has no data set %q", p.profile, p.data)
	}
	return nil
}

func (p *probe) sweep(ctx context.Context, data *dataset.Set) error {
	knobs, err := parseEfforts(p.efforts)
	if err != nil {
		return err
	}
	ks, err := parseInts(p.ks)
	if err != nil {
		return err
	}
	truth, err := data.Truth(p.set, spec.Search{Filter: p.filter}.Threshold())
	if err != nil {
		return err
	}
	w := worker.New()
	if err := openIn(w, data, p.set); err != nil {
		return errors.Join(err, w.Close())
	}
	search := p.search
	search.Column = "vec"
	if p.filter > 0 {
		search.Filter = fmt.Sprintf("cat < %d", p.filter)
	}
	for _, k := range ks {
		for _, knob := range knobs {
			if err := ctx.Err(); err != nil {
				return errors.Join(context.Cause(ctx), w.Close())
			}
			search.K, search.SearchEffort = k, knob
			point, err := measure(w, data, truth, p.set, search, p.rounds)
			if err == nil {
				err = p.print(point)
			}
			if err != nil {
				return errors.Join(fmt.Errorf("k = %d, effort %s: %w", k, effortName(knob), err), w.Close())
			}
		}
	}
	return errors.Join(w.Close(), p.table.Flush())
}

func (p *probe) print(x probePoint) error {
	if p.asJSON {
		return json.NewEncoder(os.Stdout).Encode(x)
	}
	_, err := fmt.Fprintf(p.table, "%s\t%d\t%s\t%.3f\t%.3f\t%.3f\t%.4f\t%.2f\t%d\t%.1f\t%.1f\t\n", x.Data, x.K, effortName(x.Effort), x.P50MS, x.P95MS, x.NativeMS,
		x.Recall, x.WorstRecall, x.QueriesBelow99, x.Partitions, x.Segments)
	return err
}

func openIn(w *worker.Worker, data *dataset.Set, set string) error {
	for _, r := range []engine.Request{
		{Op: "hello"},
		{Op: "load", Set: set, Path: data.QueryFile(set), Dim: data.Spec.Dim},
		{Op: "open", Handle: "table", URI: data.Table(), Version: data.Version},
	} {
		if _, err := w.Handle(r); err != nil {
			return fmt.Errorf("%s: %w", r.Op, err)
		}
	}
	return nil
}

// measure times one setting: one pass to warm, then the timed ones.
func measure(w *worker.Worker, data *dataset.Set, truth *dataset.Truth, set string, search engine.Search, rounds int) (probePoint, error) {
	if search.K > data.Spec.Depth {
		return probePoint{}, fmt.Errorf("the ground truth has a depth of %d, so k = %d cannot be judged", data.Spec.Depth, search.K)
	}
	numbers := make([]int, data.Spec.Queries)
	for i := range numbers {
		numbers[i] = i
	}
	point := probePoint{Data: data.Spec.Name, Queries: set, K: search.K, Effort: search.SearchEffort, WorstRecall: 1}
	var durations, native []int64
	for round := range rounds + 1 {
		reply, err := w.Handle(engine.Request{Op: "run", Handle: "table", Set: set, Mode: spec.Single, Queries: numbers, K: search.K, Search: &search})
		if err != nil {
			return point, err
		}
		if round == 0 {
			if err := point.judge(truth, reply, search.K); err != nil {
				return point, err
			}
			if reply.PartitionsSearched != nil {
				point.Partitions = float64(*reply.PartitionsSearched) / float64(len(numbers))
			}
			if reply.SegmentsSearched != nil {
				point.Segments = float64(*reply.SegmentsSearched) / float64(len(numbers))
			}
			continue
		}
		durations, native = append(durations, reply.DurationsNS...), append(native, reply.NativeNS...)
	}
	point.P50MS, point.P95MS, point.NativeMS = milliseconds(durations, 0.5), milliseconds(durations, 0.95), milliseconds(native, 0.5)
	return point, nil
}

func (p *probePoint) judge(truth *dataset.Truth, reply *engine.Reply, k int) error {
	judged := 0
	for q, result := range reply.Results {
		verdict := truth.Judge(q, k, result.IDs, result.Distances, false)
		if verdict.Fault != "" {
			return fmt.Errorf("query %d: %s", q, verdict.Fault)
		}
		if math.IsNaN(verdict.Recall) {
			continue
		}
		judged++
		p.Recall += verdict.Recall
		p.WorstRecall = min(p.WorstRecall, verdict.Recall)
		if verdict.Recall < 0.99 {
			p.QueriesBelow99++
		}
	}
	p.Recall /= float64(max(1, judged))
	return nil
}

func milliseconds(ns []int64, q float64) float64 {
	if len(ns) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ns))
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / 1e6
}

func effortName(effort *float64) string {
	if effort == nil {
		return "default"
	}
	return strconv.FormatFloat(*effort, 'g', -1, 64)
}

func parseEfforts(text string) ([]*float64, error) {
	var all []*float64
	for _, part := range strings.Split(text, ",") {
		if part == "default" {
			all = append(all, nil)
			continue
		}
		v, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, fmt.Errorf("-efforts: %w", err)
		}
		all = append(all, &v)
	}
	return all, nil
}

func parseInts(text string) ([]int, error) {
	var all []int
	for _, part := range strings.Split(text, ",") {
		v, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("-k: %w", err)
		}
		all = append(all, v)
	}
	return all, nil
}
