package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/host"
	"github.com/lanceknn/lanceknn/bench/internal/record"
	"github.com/lanceknn/lanceknn/bench/internal/runner"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

// TestMain lets the test binary be the worker that the runner starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := workerCommand(context.Background(), nil); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// harness is a runner on tiny data, with real pylance and the real library.
func harness(t *testing.T) *runner.Runner {
	t.Helper()
	python := os.Getenv("LANCEKNN_PYTHON")
	if python == "" {
		t.Skip("LANCEKNN_PYTHON names no interpreter with pylance; `make test` makes one")
	}
	root, err := host.Root()
	require.NoError(t, err)
	library, err := host.FindLibrary(root)
	require.NoError(t, err)
	sources, err := host.Identify(root)
	require.NoError(t, err)
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return &runner.Runner{
		RunID: "test", Out: filepath.Join(dir, "out.jsonl"), Work: filepath.Join(dir, "work"), Cores: runtime.NumCPU(), Threads: runtime.NumCPU(),
		Sources: sources, Library: library, Self: os.Args[0], Progress: t.Logf, Quiet: 10,
		Store:     &dataset.Store{Root: filepath.Join(dir, "data"), Python: python, Log: log},
		RayPython: func(context.Context) (string, error) { return "", errors.New("not here") },
	}
}

func tiny() spec.Data {
	return spec.Data{
		Name: "tiny", Source: "clusters", Rows: 6000, Dim: 16, Latent: 8, Clusters: 20, Seed: 5, Segments: 4, FragmentsPerSegment: 2, Layout: spec.Following,
		Sizes: spec.Skewed, Index: spec.Index{Type: "IVF_FLAT"}, Metric: "l2", Queries: 8, Depth: 20, Filters: []int{100},
	}
}

func TestRun_RecordsRejectsAndResumes(t *testing.T) {
	r := harness(t)
	impossible, nothing := 1.5, 0.0
	contenders := []spec.Contender{
		{Name: "pylance", Engine: spec.Pylance, Reference: true, RecallFloor: &nothing},
		{Name: "lanceknn auto", Engine: spec.LanceKNN, Strategy: "auto", Default: true, NProbes: 100},
		{Name: "lanceknn native", Engine: spec.LanceKNN, Strategy: spec.Native, NProbes: 100},
		{Name: "never good enough", Engine: spec.LanceKNN, Strategy: "single", RecallFloor: &impossible},
		{Name: "lance-ray", Engine: spec.LanceRay},
		{Name: "no such strategy", Engine: spec.LanceKNN, Strategy: "none"},
	}
	scenario := func(id, kind string, s spec.Search, contenders ...spec.Contender) spec.Scenario {
		return spec.Scenario{ID: id, Kind: kind, Data: "tiny", Search: s, Contenders: contenders, Queries: 8, Block: 4, Rounds: 2, RecallFloor: 0.999, LatencyMS: 1}
	}
	both := contenders[:2]
	cold := scenario("storage", spec.ColdStorage, spec.Search{K: 10}, both...)
	cold.Queries, cold.Block = 2, 1
	start := cold
	start.ID, start.Kind = "process", spec.ColdProcess
	matrix := scenario("matrix", spec.Matrix, spec.Search{K: 10, Columns: []string{"id"}}, both...)
	matrix.Block = 8
	callers := scenario("callers", spec.Throughput, spec.Search{K: 5, RefineFactor: 2}, both...)
	callers.Block = 8
	for i := range callers.Contenders {
		callers.Contenders[i].Clients = 3
	}
	single := scenario("single", spec.Single, spec.Search{K: 10}, contenders...)
	single.LeadIn = 3
	p := spec.Profile{Name: "test", Data: []spec.Data{tiny()}, Scenarios: []spec.Scenario{
		single,
		scenario("filter", spec.Single, spec.Search{K: 10, Filter: 100, FilterIndex: true}, both...),
		matrix, callers, cold, start,
	}}
	outcome, err := r.Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, len(p.Scenarios), outcome.Done)
	require.Equal(t, 1, outcome.Rejected)
	require.Equal(t, 1, outcome.Failed)

	f, err := record.Read(r.Out)
	require.NoError(t, err)
	require.Len(t, f.Scenarios, len(p.Scenarios))
	recorded := f.Find("single")
	require.Len(t, recorded.Samples, 3)
	require.Len(t, recorded.Rejections, 1)
	require.Equal(t, "never good enough", recorded.Rejections[0].Contender.Name)
	require.Len(t, recorded.Unavailables, 1)
	require.Contains(t, recorded.Unavailables[0].Reason, "not here")
	require.Len(t, recorded.Failures, 1)
	require.Contains(t, recorded.Failures[0].Reason, "none")

	mine := recorded.Sample("lanceknn auto")
	require.InDelta(t, 1, mine.Recall, 1e-9, "every partition was probed")
	require.Len(t, mine.DurationsNS, 2)
	require.Len(t, mine.DurationsNS[0], 8, "what leads a turn in is not timed")
	require.Positive(t, mine.PeakRSSBytes)
	require.Positive(t, *mine.PartitionsPerQuery)
	native := recorded.Sample("lanceknn native")
	require.Len(t, native.NativeNS[1], 8)
	for i, inside := range native.NativeNS[1] {
		require.LessOrEqual(t, inside, native.DurationsNS[1][i])
	}

	require.Len(t, f.Find("matrix").Sample("lanceknn auto").DurationsNS[0], 1, "a matrix is one call")
	require.Equal(t, 3, f.Find("callers").Sample("pylance").Budget.Clients)
	for _, name := range []string{"pylance", "lanceknn auto"} {
		stored := f.Find("storage").Sample(name)
		require.NotNil(t, stored, name)
		require.Positive(t, *stored.RequestsPerQuery, name)
		require.Len(t, stored.OpenNS, 2)
		started := f.Find("process").Sample(name)
		require.NotNil(t, started, name)
		require.Len(t, started.StartNS, 2)
	}

	again, err := r.Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, again.Done, "only the scenario with a failure is run again")
	require.Equal(t, len(p.Scenarios)-1, again.Skipped)
	r.Library.SHA256 = "another"
	p.Scenarios = p.Scenarios[1:2]
	again, err = r.Run(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, 1, again.Done, "another library's figures are not this one's")
}

func TestPrepare_NoticesDamage(t *testing.T) {
	r := harness(t)
	set, err := r.Store.Prepare(t.Context(), tiny())
	require.NoError(t, err)
	again, err := r.Store.Prepare(t.Context(), tiny())
	require.NoError(t, err)
	require.Equal(t, set.Hash, again.Hash, "the second call finds what the first one made")
	require.NoError(t, os.Truncate(set.QueryFile(dataset.Judge), 4))
	_, err = r.Store.Prepare(t.Context(), tiny())
	require.ErrorContains(t, err, "remove it and prepare again")
}
