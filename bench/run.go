package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/report"
	"github.com/lanceknn/lanceknn/bench/internal/runner"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

const smoke = "smoke"

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}

// selection is the flags that choose a profile's scenarios.
type selection struct {
	profile, only string
}

func (s *selection) register(f *flag.FlagSet) {
	f.StringVar(&s.profile, "profile", "quick", "quick, full, smoke (tiny tables, to try the harness) or calibrate (data for `bench probe` alone)")
	f.StringVar(&s.only, "only", "", "run only scenarios whose id matches this regular expression")
}

func (s *selection) choose() (spec.Profile, error) {
	p, err := spec.Profiles(s.profile)
	if err != nil {
		return p, err
	}
	pattern, err := regexp.Compile(s.only)
	if err != nil {
		return p, fmt.Errorf("-only: %w", err)
	}
	if len(p.Scenarios) == 0 {
		return p, nil
	}
	p.Scenarios = slices.DeleteFunc(p.Scenarios, func(x spec.Scenario) bool { return !pattern.MatchString(x.ID) })
	if len(p.Scenarios) == 0 {
		return p, fmt.Errorf("no scenario of profile %s matches %q: see `go run ./bench list`", s.profile, s.only)
	}
	p.Data = slices.DeleteFunc(p.Data, func(d spec.Data) bool {
		return !slices.ContainsFunc(p.Scenarios, func(x spec.Scenario) bool { return x.Data == d.Name })
	})
	return p, nil
}

func listCommand(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bench list", flag.ContinueOnError)
	var chosen selection
	chosen.register(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := chosen.choose()
	if err != nil {
		return err
	}
	for _, s := range p.Scenarios {
		fmt.Printf("%-40s %-12s %-26s %2d contenders  %s\n", s.ID, s.Kind, s.Data, len(s.Contenders), s.Title)
	}
	return nil
}

// store is where data sets are kept, with the interpreter that makes them.
func store(ctx context.Context, cache string) (*dataset.Store, error) {
	python, err := host.Python(ctx, cache)
	if err != nil {
		return nil, err
	}
	return &dataset.Store{
		Root: filepath.Join(cache, "bench-data"), Python: python, Log: os.Stderr,
		TextPython: func(ctx context.Context) (string, error) { return host.TextPython(ctx, cache) },
	}, nil
}

func prepareCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench prepare", flag.ContinueOnError)
	var chosen selection
	chosen.register(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := chosen.choose()
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
	return prepare(ctx, cache, s, p)
}

// prepare makes everything that needs the network or much time, so that none of it happens while something is measured.
func prepare(ctx context.Context, cache string, s *dataset.Store, p spec.Profile) error {
	uses := func(c spec.Contender) bool { return c.Engine == spec.LanceRay }
	if slices.ContainsFunc(p.Scenarios, func(x spec.Scenario) bool { return slices.ContainsFunc(x.Contenders, uses) }) {
		if _, err := host.RayPython(ctx, cache); err != nil {
			progress("lance-ray is not available: %v", err)
		}
	}
	for _, d := range p.Data {
		begin := time.Now()
		if _, err := s.Prepare(ctx, d); err != nil {
			return err
		}
		progress("data %-28s ready (%.1f s)", d.Name, time.Since(begin).Seconds())
	}
	return nil
}

func runCommand(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench run", flag.ContinueOnError)
	var chosen selection
	chosen.register(flags)
	out := flags.String("out", "", "results file (default bench/results/<date>-<profile>.jsonl; smoke: a file in the cache)")
	threads := flags.Int("threads", runtime.NumCPU(), "size of each native CPU pool (LANCE_CPU_THREADS), the same for every contender")
	fresh := flags.Bool("fresh", false, "run scenarios again that the results file holds already")
	quiet := flags.Float64("quiet", runner.Quiet, "share of the machine that others may use before figures are marked, and taken again by the next run")
	withReport := flags.Bool("report", true, "write bench/REPORT.md and its plots at the end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	p, err := chosen.choose()
	if err != nil {
		return err
	}
	if len(p.Scenarios) == 0 {
		return fmt.Errorf("profile %s has no scenarios: use `go run ./bench probe -profile %s`", p.Name, p.Name)
	}
	root, err := host.Root()
	if err != nil {
		return err
	}
	cache, err := host.Cache()
	if err != nil {
		return err
	}
	if *out == "" {
		folder := filepath.Join(root, "bench", "results")
		if p.Name == smoke {
			folder = filepath.Join(cache, "bench-logs")
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		*out = filepath.Join(folder, time.Now().Format(time.DateOnly)+"-"+p.Name+".jsonl")
	}
	data, err := store(ctx, cache)
	if err != nil {
		return err
	}
	if err := prepare(ctx, cache, data, p); err != nil {
		return err
	}
	r := &runner.Runner{
		RunID: time.Now().UTC().Format("20060102T150405Z"), Out: *out, Work: filepath.Join(cache, "bench-logs"), Cores: runtime.NumCPU(), Threads: *threads,
		Store: data, Fresh: *fresh, Quiet: *quiet, Progress: progress,
		RayPython: func(ctx context.Context) (string, error) { return host.RayPython(ctx, cache) },
	}
	if r.Self, err = os.Executable(); err != nil {
		return err
	}
	if r.Library, err = host.FindLibrary(root); err != nil {
		return err
	}
	if r.Sources, err = host.Identify(root); err != nil {
		return err
	}
	if err := open(ctx, r, p); err != nil {
		return err
	}
	outcome, err := r.Run(ctx, p)
	progress("%d scenarios run, %d kept, %d contenders failed, %d of this library's rejected, %d scenarios not quiet; results in %s",
		outcome.Done, outcome.Skipped, outcome.Failed, outcome.Rejected, outcome.Noisy, filepath.Base(*out))
	if err != nil {
		return fmt.Errorf("%w; run the same command again to go on from here", err)
	}
	if *withReport && p.Name != smoke {
		if err := reportOn(root, nil); err != nil {
			return err
		}
		progress("report in bench/REPORT.md")
	}
	if outcome.Failed+outcome.Rejected > 0 {
		return errors.New("some of the answers were missing or not good enough; see the results file")
	}
	return nil
}

// open checks that the worker runs, and writes the run's own line.
func open(ctx context.Context, r *runner.Runner, p spec.Profile) error {
	hello, err := r.Hello(ctx)
	if err != nil {
		return err
	}
	environment := host.Describe()
	environment.Rustc = hello.Versions["rustc"]
	return record.Append(r.Out, record.Run{
		Type: record.TypeRun, ID: r.RunID, Started: time.Now().UTC().Format(time.RFC3339), Profile: p.Name,
		Environment: environment, Sources: r.Sources, Library: r.Library, BuildInfo: hello.Versions,
	})
}

func reportCommand(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bench report", flag.ContinueOnError)
	in := flags.String("in", "", "results files, separated by commas (default: the newest of each profile in bench/results)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := host.Root()
	if err != nil {
		return err
	}
	var inputs []string
	if *in != "" {
		inputs = strings.Split(*in, ",")
	}
	return reportOn(root, inputs)
}

func reportOn(root string, inputs []string) error {
	folder := filepath.Join(root, "bench")
	if len(inputs) == 0 {
		for _, profile := range []string{"quick", "full"} {
			found, err := filepath.Glob(filepath.Join(folder, "results", "*-"+profile+".jsonl"))
			if err != nil {
				return err
			}
			if len(found) > 0 {
				inputs = append(inputs, slices.Max(found)) // names begin with the date
			}
		}
	}
	if len(inputs) == 0 {
		return errors.New("no results file in bench/results: run `go run ./bench -profile quick` first, or name one with -in")
	}
	return report.Write(filepath.Join(folder, "REPORT.md"), filepath.Join(folder, "plots"), inputs)
}
