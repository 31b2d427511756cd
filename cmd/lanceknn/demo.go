package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/synth"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/vecfile"
	"github.com/lanceknn/lanceknn/distributed"
)

type demoFlags struct {
	rows, dim, segments, queries int
	k, refineFactor, nprobes     int
	rounds                       int
	minRecall                    float64
	dir, python                  string
}

func (c console) demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Search a generated dataset through every strategy and check the answers",
		Long: `Write a dataset of clustered vectors, build a segmented IVF_PQ index, and search it for single queries and for a matrix of them
through every strategy, once with a fixed number of probes and once with the defaults. Each answer is checked against exact
search (recall) and, where the probes are fixed, against Lance's own single scan, whose rows and distances a split search must
give. If --python names an interpreter that has pylance, it takes part. Fails if a check does.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("demo takes no argument, got %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return c.demo(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVar(&f.rows, "rows", 200_000, "rows of the dataset")
	flags.IntVar(&f.dim, "dim", 128, "dimension of the vectors")
	flags.IntVar(&f.segments, "segments", 8, "fragments of the dataset and segments of the index")
	flags.IntVar(&f.queries, "queries", 64, "query vectors")
	flags.IntVar(&f.k, "k", 10, "neighbours per query")
	flags.IntVar(&f.refineFactor, "refine-factor", 10, "re-score k times this many candidates exactly")
	flags.IntVar(&f.nprobes, "nprobes", 8, "partitions to read in each segment, where they are fixed")
	flags.IntVar(&f.rounds, "rounds", 5, "timed rounds after one that warms up")
	flags.Float64Var(&f.minRecall, "min-recall", 0.98, "fail below this recall")
	flags.StringVar(&f.dir, "dir", "", "keep the dataset and the queries in this `FOLDER` (default: a temporary one, removed)")
	flags.StringVar(&f.python, "python", os.Getenv("LANCEKNN_PYTHON"), "Python `INTERPRETER` with pylance and numpy")
	return cmd
}

func (f demoFlags) check() error {
	for _, n := range []struct {
		name  string
		value int
	}{
		{"rows", f.rows},
		{"dim", f.dim},
		{"segments", f.segments},
		{"queries", f.queries},
		{"k", f.k},
		{"refine-factor", f.refineFactor},
		{"nprobes", f.nprobes},
		{"rounds", f.rounds},
	} {
		if n.value < 1 {
			return usagef("--%s %d: at least 1 is needed", n.name, n.value)
		}
	}
	if !(f.minRecall >= 0 && f.minRecall <= 1) {
		return usagef("--min-recall %v is not between 0 and 1", f.minRecall)
	}
	if _, err := synth.FragmentRows(f.rows, f.segments); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// demoData is a dataset and what is known about it from outside Lance.
type demoData struct {
	uri, queryFile string
	queries        []float32 // one after the other, dim values each
	truth          [][]int   // the nearest row numbers of each query
	perFragment    int
}

// row turns a row id, which without stable row ids is fragment and offset, into the row's number.
func (d demoData) row(rowID uint64) int {
	return int(rowID>>32)*d.perFragment + int(rowID&math.MaxUint32)
}

const demoColumn = "vec"

func (c console) demo(ctx context.Context, f demoFlags) (err error) {
	dir := f.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "lanceknn-demo-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	data, err := c.demoWrite(ctx, f, dir)
	if err != nil {
		return err
	}
	ds, err := binding.Open(ctx, data.uri, binding.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ds.Close()) }()
	d := &demoRun{console: c, flags: f, data: data, ds: ds}
	if f.python == "" {
		fmt.Fprintln(c.out, "pylance   left out: no Python interpreter was given")
	} else if d.pylance, err = startPylance(ctx, f.python, pylanceSetup{
		URI: data.uri, Queries: data.queryFile, Column: demoColumn, K: f.k, RefineFactor: f.refineFactor,
	}); err != nil {
		return err
	} else {
		defer d.pylance.close()
	}
	return d.run(ctx)
}

// demoWrite makes the dataset, its index and the true neighbours, and says how long each took.
func (c console) demoWrite(ctx context.Context, f demoFlags, dir string) (demoData, error) {
	data := demoData{uri: filepath.Join(dir, "demo.lance"), queryFile: filepath.Join(dir, "queries.npy")}
	space, err := synth.New(synth.Config{Rows: f.rows, Dim: f.dim, Seed: 1})
	if err != nil {
		return demoData{}, err
	}
	if data.perFragment, err = synth.FragmentRows(f.rows, f.segments); err != nil {
		return demoData{}, err
	}
	start := time.Now()
	if _, err := c.write(ctx, data.uri, space, f.rows, data.perFragment, binding.WriteOptions{Mode: binding.Overwrite}); err != nil {
		return demoData{}, err
	}
	fmt.Fprintf(c.out, "dataset   %d x %d float32 in %s, written in %s\n", f.rows, f.dim, plural(f.segments, "fragment"), since(start))

	start = time.Now()
	partitions := max(1, int(math.Sqrt(float64(data.perFragment))))
	if _, err := c.buildIndex(ctx, data.uri, nil, distributed.BuildOptions{
		Column: demoColumn, Type: "IVF_PQ", Metric: binding.L2, Segments: f.segments, Partitions: partitions,
	}); err != nil {
		return demoData{}, err
	}
	fmt.Fprintf(c.out, "index     IVF_PQ in %s of %s, built in %s\n", plural(f.segments, "segment"), plural(partitions, "partition"), since(start))

	start = time.Now()
	bar := c.progress("searching exactly", -1)
	data.queries = space.Queries(f.queries)
	data.truth = exactNeighbors(space.Vectors(runtime.GOMAXPROCS(0)), data.queries, f.dim, f.k, runtime.GOMAXPROCS(0))
	bar.done()
	if err := os.WriteFile(data.queryFile, vecfile.NPY(data.queries, f.queries, f.dim), 0o644); err != nil {
		return demoData{}, err
	}
	fmt.Fprintf(c.out, "truth     %d nearest rows of %s by scoring every row in float64, in %s\n",
		f.k, plural(f.queries, "query vector"), since(start))
	return data, nil
}

func since(start time.Time) time.Duration { return time.Since(start).Round(10 * time.Millisecond) }
