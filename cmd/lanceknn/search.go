package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/vecfile"
	"github.com/lanceknn/lanceknn/distributed"
)

// searchFlags are the flags of search and plan.
type searchFlags struct {
	column, vector, vectors           string
	k, offset                         int
	indexName, metric                 string
	nprobes, minNProbes, maxNProbes   int
	searchEffort                      float64
	refineFactor, ef                  int
	distanceMin, distanceMax          float32
	filter                            string
	columns                           []string
	version, branch                   string
	noIndex                           bool
	unindexed, strategy               string
	maxTasks, threads                 int
	timeout                           time.Duration
	output                            string
	storage                           storageFlags
	effortSet, minimumSet, maximumSet bool
}

func (f *searchFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.column, "column", "", "vector column to search, in Lance's syntax (back-ticks quote)")
	flags.StringVar(&f.vector, "vector", "", "one query vector as a JSON `ARRAY`")
	flags.StringVar(&f.vectors, "vectors", "", "query vectors in a .npy, .arrow or .json `FILE`")
	flags.IntVar(&f.k, "k", 10, "neighbours per query")
	flags.IntVar(&f.offset, "offset", 0, "neighbours to skip per query, after the global merge")
	flags.StringVar(&f.indexName, "index-name", "", "index to use (default: chosen by metric, coverage and name)")
	flags.StringVar(&f.metric, "metric", "", "l2, cosine, dot or hamming (default: the index's)")
	flags.IntVar(&f.nprobes, "nprobes", 0, "partitions to read in each segment")
	flags.IntVar(&f.minNProbes, "min-nprobes", 0, "partitions to read at least in each segment")
	flags.IntVar(&f.maxNProbes, "max-nprobes", 0, "partitions to read at most in each segment")
	flags.Float64Var(&f.searchEffort, "search-effort", 0, "recall against latency, in Lance's words")
	flags.IntVar(&f.refineFactor, "refine-factor", 0, "re-score k times this many candidates exactly")
	flags.IntVar(&f.ef, "ef", 0, "width of the search in an HNSW graph")
	flags.Float32Var(&f.distanceMin, "distance-min", 0, "leave out rows nearer than this")
	flags.Float32Var(&f.distanceMax, "distance-max", 0, "leave out rows at this distance and beyond")
	flags.StringVar(&f.filter, "filter", "", "`SQL` condition, applied before neighbours are chosen")
	flags.StringSliceVar(&f.columns, "columns", nil, "columns to return, separated by commas")
	flags.StringVar(&f.version, "version", "", "version `N` or tag (default: the latest version)")
	flags.StringVar(&f.branch, "branch", "", "branch (default: main)")
	flags.BoolVar(&f.noIndex, "no-index", false, "scan every row exactly")
	flags.StringVar(&f.unindexed, "unindexed", "require", "rows without an index: require (fail), scan or skip")
	flags.StringVar(&f.strategy, "strategy", "auto", "auto, single, segments, queries or grid")
	flags.IntVar(&f.maxTasks, "max-tasks", 0, "tasks at most (default: chosen by the library)")
	flags.IntVar(&f.threads, "threads", 0, "cores to use (default: all)")
	flags.DurationVar(&f.timeout, "timeout", 0, "give up after this `DURATION`, such as 2s")
	flags.StringVar(&f.output, "output", "table", "table, json or arrow (an IPC stream)")
	f.storage.register(flags)
}

func (c console) searchCommand() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "search URI",
		Short: "Find the nearest rows of query vectors",
		Example: `  lanceknn search demo.lance --column vec --vectors queries.npy --k 10 --filter "category < 50" --columns id,title
  lanceknn search demo.lance --column vec --vector '[0.1, 0.2]' --output json`,
		Args: oneURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.parse(cmd, args[0])
			if err != nil {
				return err
			}
			return c.search(cmd.Context(), s)
		},
	}
	f.register(cmd)
	return cmd
}

func (c console) planCommand() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "plan URI",
		Short: "Explain how a search would run, without running it",
		Long:  "Explain how a search would run, without running it. Takes the flags of search; --output is not used.",
		Args:  oneURI,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.parse(cmd, args[0])
			if err != nil {
				return err
			}
			return c.plan(cmd.Context(), s)
		},
	}
	f.register(cmd)
	return cmd
}

// searchJob is a search as the command line asked for it. Its query lacks the vectors, whose type depends on the column.
type searchJob struct {
	uri     string
	open    binding.OpenOptions
	query   distributed.Query
	options distributed.Options
	matrix  vecfile.Matrix
	timeout time.Duration
	output  string
}

// parse checks everything that can be checked without the dataset.
func (f *searchFlags) parse(cmd *cobra.Command, uri string) (searchJob, error) {
	if err := required(cmd, "column"); err != nil {
		return searchJob{}, err
	}
	set := cmd.Flags().Changed
	f.effortSet, f.minimumSet, f.maximumSet = set("search-effort"), set("distance-min"), set("distance-max")
	if set("vector") == set("vectors") {
		return searchJob{}, usagef("one of --vector and --vectors is needed")
	}
	if err := f.checkNumbers(); err != nil {
		return searchJob{}, err
	}
	job := searchJob{uri: uri, timeout: f.timeout, output: f.output}
	var err error
	if job.query, err = f.query(); err != nil {
		return searchJob{}, err
	}
	if job.options, err = f.options(); err != nil {
		return searchJob{}, err
	}
	if job.open, err = f.openOptions(); err != nil {
		return searchJob{}, err
	}
	if set("vector") {
		if job.matrix, err = vecfile.ParseJSON([]byte(f.vector)); err != nil {
			return searchJob{}, usagef("--vector: %v", err)
		}
		return job, nil
	}
	job.matrix, err = vecfile.Read(f.vectors)
	return job, err
}

func (f *searchFlags) checkNumbers() error {
	if f.k < 1 {
		return usagef("--k %d: at least 1 is needed", f.k)
	}
	for name, value := range map[string]int{
		"offset": f.offset, "nprobes": f.nprobes, "min-nprobes": f.minNProbes, "max-nprobes": f.maxNProbes,
		"refine-factor": f.refineFactor, "ef": f.ef, "max-tasks": f.maxTasks, "threads": f.threads,
	} {
		if value < 0 {
			return usagef("--%s %d is negative", name, value)
		}
	}
	if f.timeout < 0 {
		return usagef("--timeout %s is negative", f.timeout)
	}
	if f.version != "" && f.branch != "" && !isNumber(f.version) {
		return usagef("--version %s is a tag, which names its branch itself: leave out --branch", f.version)
	}
	switch f.output {
	case "table", "json", "arrow":
		return nil
	}
	return usagef("--output %q: want table, json or arrow", f.output)
}

func (f *searchFlags) query() (distributed.Query, error) {
	metric, err := binding.ParseMetric(strings.ToLower(f.metric))
	if err != nil {
		return distributed.Query{}, usagef("--metric %q: want l2, cosine, dot or hamming", f.metric)
	}
	q := distributed.Query{
		Column: f.column, K: f.k, Offset: f.offset, Filter: f.filter, Columns: f.columns, Metric: metric,
		NProbes: f.nprobes, MinNProbes: f.minNProbes, MaxNProbes: f.maxNProbes,
		EF: f.ef, RefineFactor: f.refineFactor, NoIndex: f.noIndex,
	}
	if f.effortSet {
		q.SearchEffort = &f.searchEffort
	}
	if f.minimumSet {
		q.DistanceMin = &f.distanceMin
	}
	if f.maximumSet {
		q.DistanceMax = &f.distanceMax
	}
	return q, nil
}

func (f *searchFlags) options() (distributed.Options, error) {
	strategy, err := distributed.ParseStrategy(f.strategy)
	if err != nil {
		return distributed.Options{}, usagef("--strategy %q: want auto, single, segments, queries or grid", f.strategy)
	}
	unindexed, err := distributed.ParseUnindexed(f.unindexed)
	if err != nil {
		return distributed.Options{}, usagef("--unindexed %q: want require, scan or skip", f.unindexed)
	}
	return distributed.Options{
		IndexName: f.indexName, Strategy: strategy, Unindexed: unindexed, MaxTasks: f.maxTasks, Threads: f.threads,
	}, nil
}

func (f *searchFlags) openOptions() (binding.OpenOptions, error) {
	storage, err := f.storage.options()
	if err != nil {
		return binding.OpenOptions{}, err
	}
	o := binding.OpenOptions{Branch: f.branch, StorageOptions: storage}
	switch {
	case f.version == "":
	case isNumber(f.version):
		if o.Version, err = strconv.ParseUint(f.version, 10, 64); err != nil || o.Version == 0 {
			return binding.OpenOptions{}, usagef("--version %s: versions count from 1", f.version)
		}
	default:
		o.Tag = f.version
	}
	return o, nil
}

// isNumber tells a version from a tag.
func isNumber(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}

// queryVectors gives a matrix the element type of the column, and, for a multivector column, takes a list of vectors as one
// query, as Lance does.
func queryVectors(m vecfile.Matrix, column binding.ColumnInfo) (distributed.Vectors, error) {
	if m.Depth() == 3 && !column.Multivector {
		return distributed.Vectors{}, usagef("the query vectors are nested three deep, but column %q holds one vector a row", column.Path)
	}
	vectors := distributed.Float64(m.Data, m.Dim())
	if column.Type == binding.Uint8 {
		bytes := make([]byte, len(m.Data))
		for i, v := range m.Data {
			if v != math.Trunc(v) || v < 0 || v > math.MaxUint8 {
				return distributed.Vectors{}, usagef("query %d, position %d: %v is not a uint8, which column %q holds",
					i/m.Dim(), i%m.Dim(), v, column.Path)
			}
			bytes[i] = byte(v)
		}
		vectors = distributed.Uint8(bytes, m.Dim())
	}
	if column.Multivector {
		perQuery := m.Vectors()
		if m.Depth() == 3 {
			perQuery = m.Shape[1]
		}
		vectors = distributed.MultiVector(vectors, perQuery)
	}
	return vectors, nil
}

// withPlan opens the dataset, plans the search and hands on the plan and when planning began.
func (c console) withPlan(ctx context.Context, job searchJob, use func(context.Context, *distributed.Plan, time.Time) error) (err error) {
	if job.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, job.timeout, timeoutError{job.timeout})
		defer cancel()
	}
	ds, err := binding.Open(ctx, job.uri, job.open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	// A column that cannot be searched is for NewPlan to refuse.
	if column, err := ds.Column(ctx, job.query.Column); err == nil {
		if job.query.Vectors, err = queryVectors(job.matrix, column); err != nil {
			return err
		}
	}
	start := time.Now()
	plan, err := distributed.NewPlan(ctx, ds, job.query, job.options)
	if err != nil {
		return err
	}
	return use(ctx, plan, start)
}

// timeoutError says how long was waited, which context's own error does not.
type timeoutError struct{ after time.Duration }

func (e timeoutError) Error() string   { return fmt.Sprintf("no result within %s", e.after) }
func (e timeoutError) Is(t error) bool { return t == context.DeadlineExceeded }

func (c console) plan(ctx context.Context, job searchJob) error {
	return c.withPlan(ctx, job, func(_ context.Context, plan *distributed.Plan, _ time.Time) error {
		_, err := io.WriteString(c.out, strings.TrimRight(plan.Explain(), "\n")+"\n")
		return err
	})
}

func (c console) search(ctx context.Context, job searchJob) error {
	if job.output == "arrow" && c.outTerminal {
		return usagef("--output arrow is binary: send it to a file or a pipe")
	}
	return c.withPlan(ctx, job, func(ctx context.Context, plan *distributed.Plan, start time.Time) error {
		bar := c.progress("searching", -1)
		result, err := plan.Execute(ctx)
		bar.done()
		if err != nil {
			return err
		}
		defer result.Release()
		a := newAnswer(result, time.Since(start))
		if !job.query.NoIndex {
			_, a.why = plan.Index()
		}
		return c.show(job.output, a)
	})
}
