package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/vecfile"
	"github.com/lanceknn/lanceknn/distributed"
)

// cli runs a command line in this process.
func cli(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = console{in: strings.NewReader(""), out: &out, err: &errs}.run(t.Context(), args)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	queries := filepath.Join(t.TempDir(), "q.npy")
	require.NoError(t, os.WriteFile(queries, vecfile.NPY([]float32{1, 2}, 1, 2), 0o644))
	search := func(more ...string) []string {
		return append([]string{"search", "x.lance", "--column", "v", "--vector", "[1,2]"}, more...)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown command":     {[]string{"serch"}, `unknown command "serch": did you mean "search"?`},
		"unknown index":       {[]string{"index", "drop", "x"}, `unknown command "drop"`},
		"unknown flag":        {search("--nprobe", "3"), "unknown flag: --nprobe"},
		"not a number":        {search("--k", "ten"), `invalid argument "ten"`},
		"no uri":              {[]string{"search", "--column", "v", "--vector", "[1]"}, "the dataset's URI is missing"},
		"two uris":            {[]string{"plan", "a", "b"}, `"b" follows it`},
		"empty uri":           {[]string{"index", "list", ""}, "the dataset's URI is empty"},
		"no column":           {[]string{"search", "x", "--vector", "[1]"}, "--column is needed"},
		"no vector":           {[]string{"plan", "x", "--column", "v"}, "one of --vector and --vectors is needed"},
		"two vectors":         {search("--vectors", queries), "one of --vector and --vectors is needed"},
		"vector is no JSON":   {[]string{"search", "x", "--column", "v", "--vector", "1,2"}, "--vector:"},
		"k":                   {search("--k", "0"), "--k 0: at least 1 is needed"},
		"negative":            {search("--offset", "-1"), "--offset -1 is negative"},
		"negative time":       {search("--timeout", "-1s"), "--timeout -1s is negative"},
		"metric":              {search("--metric", "euclid"), `--metric "euclid": want l2, cosine, dot or hamming`},
		"strategy":            {search("--strategy", "rows"), `--strategy "rows": want auto, single, segments, queries or grid`},
		"unindexed":           {search("--unindexed", "maybe"), `--unindexed "maybe": want require, scan or skip`},
		"output":              {search("--output", "xml"), `--output "xml": want table, json or arrow`},
		"version":             {search("--version", "0"), "--version 0: versions count from 1"},
		"version too large":   {search("--version", "99999999999999999999"), "versions count from 1"},
		"tag and branch":      {search("--version", "v1", "--branch", "dev"), "leave out --branch"},
		"index without col":   {[]string{"index", "build", "x"}, "--column is needed"},
		"index type":          {[]string{"index", "build", "x", "--column", "v", "--type", "HNSW"}, `--type "HNSW": want IVF_PQ`},
		"index metric":        {[]string{"index", "build", "x", "--column", "v", "--metric", "?"}, `--metric "?"`},
		"index segments":      {[]string{"index", "build", "x", "--column", "v", "--segments", "0"}, "--segments 0: at least 1"},
		"index partitions":    {[]string{"index", "build", "x", "--column", "v", "--partitions", "-1"}, "neither may be negative"},
		"index output":        {[]string{"index", "list", "x", "--output", "arrow"}, "want table or json"},
		"gen rows":            {[]string{"gen", "x", "--rows", "0"}, "at least 1"},
		"gen fragments":       {[]string{"gen", "x", "--rows", "10", "--fragments", "6"}, "5 would hold them all"},
		"gen query count":     {[]string{"gen", "x", "--query-count", "0"}, "--query-count 0"},
		"demo argument":       {[]string{"demo", "x"}, "demo takes no argument"},
		"demo recall":         {[]string{"demo", "--min-recall", "1.5"}, "not between 0 and 1"},
		"demo rows":           {[]string{"demo", "--rows", "7", "--segments", "8"}, "cannot divide 7 rows into 8 fragments"},
		"version's arguments": {[]string{"version", "2"}, "version takes no argument"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := cli(t, c.args...)
			require.Equal(t, exitUsage, code, stderr)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
			require.Contains(t, stderr, "--help)")
			require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
		})
	}
}

func TestStorageOptions_AreNeverRepeated(t *testing.T) {
	for _, args := range [][]string{
		{"search", "x", "--column", "v", "--vector", "[1]", "--storage-option", "secret_access_key:hunter2"},
		{"search", "x", "--column", "v", "--vector", "[1]", "--storage-option", "=hunter2"},
		{"gen", "x", "--storage-option", "hunter2"},
		{"index", "list", "x", "--storage-option", "hunter2"},
		{"index", "build", "x", "--column", "v", "--storage-option", "hunter2"},
	} {
		code, _, stderr := cli(t, args...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, stderr, "--storage-option number 1 is not of the form KEY=VALUE")
		require.NotContains(t, stderr, "hunter2")
	}
	s := storageFlags{pairs: []string{"a=b=c", "d="}}
	options, err := s.options()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b=c", "d": ""}, options)
}

func TestFailures_ExitWithOneLine(t *testing.T) {
	code, stdout, stderr := cli(t, "search", "x.lance", "--column", "v", "--vectors", filepath.Join(t.TempDir(), "absent.npy"))
	require.Equal(t, exitFailure, code)
	require.Empty(t, stdout)
	require.Regexp(t, `^lanceknn: .*absent\.npy: no such file or directory\n$`, stderr)
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"index"}, {"search", "--help"}, {"demo", "-h"}} {
		code, stdout, stderr := cli(t, args...)
		require.Equal(t, exitOK, code)
		require.Contains(t, stdout, "Usage:")
		require.Empty(t, stderr)
	}
	_, help, _ := cli(t, "search", "--help")
	for _, flag := range []string{
		"column", "vector", "vectors", "k", "index-name", "metric", "nprobes", "min-nprobes", "max-nprobes", "search-effort",
		"refine-factor", "ef", "distance-min", "distance-max", "offset", "filter", "columns", "version", "storage-option",
		"unindexed", "strategy", "max-tasks", "threads", "timeout", "output",
	} {
		require.Contains(t, help, "--"+flag+" ")
	}
}

func parseSearch(t *testing.T, args ...string) searchJob {
	t.Helper()
	var f searchFlags
	var job searchJob
	cmd := &cobra.Command{RunE: func(cmd *cobra.Command, args []string) (err error) {
		job, err = f.parse(cmd, args[0])
		return err
	}}
	f.register(cmd)
	cmd.SetArgs(args)
	require.NoError(t, cmd.Execute())
	return job
}

func TestSearchFlags_ReachTheLibrary(t *testing.T) {
	job := parseSearch(t, "s3://b/t.lance", "--column", "v", "--vector", "[1, 2]", "--k", "3", "--offset", "4", "--index-name", "i",
		"--metric", "Cosine", "--nprobes", "5", "--min-nprobes", "6", "--max-nprobes", "7", "--search-effort", "0", "--refine-factor", "8",
		"--ef", "9", "--distance-min", "0", "--distance-max", "1.5", "--filter", "a = 'x,y'", "--columns", "a,b.c", "--version", "12",
		"--storage-option", "region=r", "--unindexed", "scan", "--strategy", "grid", "--max-tasks", "10", "--threads", "11",
		"--timeout", "2s", "--output", "json", "--no-index")
	require.Equal(t, "s3://b/t.lance", job.uri)
	require.Equal(t, binding.OpenOptions{Version: 12, StorageOptions: map[string]string{"region": "r"}}, job.open)
	effort, low, high := 0.0, float32(0), float32(1.5)
	require.Equal(t, distributed.Query{
		Column: "v", K: 3, Offset: 4, Filter: "a = 'x,y'", Columns: []string{"a", "b.c"}, Metric: binding.Cosine,
		NProbes: 5, MinNProbes: 6, MaxNProbes: 7, SearchEffort: &effort, EF: 9, RefineFactor: 8,
		DistanceMin: &low, DistanceMax: &high, NoIndex: true,
	}, job.query)
	require.Equal(t, distributed.Options{
		IndexName: "i", Strategy: distributed.Grid, Unindexed: distributed.Scan, MaxTasks: 10, Threads: 11,
	}, job.options)
	require.Equal(t, vecfile.Matrix{Data: []float64{1, 2}, Shape: []int{2}}, job.matrix)
	require.Equal(t, 2*time.Second, job.timeout)
	require.Equal(t, "json", job.output)
}

func TestSearchFlags_Defaults(t *testing.T) {
	job := parseSearch(t, "t", "--column", "v", "--vector", "[1]", "--version", "nightly")
	require.Equal(t, binding.OpenOptions{Tag: "nightly"}, job.open)
	require.Equal(t, distributed.Query{Column: "v", K: 10}, job.query)
	require.Equal(t, distributed.Options{}, job.options)
}

func TestQueryVectors_FollowTheColumn(t *testing.T) {
	list := vecfile.Matrix{Data: []float64{1, 2, 3, 4}, Shape: []int{2, 2}}
	nested := vecfile.Matrix{Data: []float64{1, 2, 3, 4}, Shape: []int{2, 1, 2}}
	floats := binding.ColumnInfo{Path: "v", Type: binding.Float32, Dim: 2}

	got, err := queryVectors(list, floats)
	require.NoError(t, err)
	require.Equal(t, distributed.Float64(list.Data, 2), got)
	_, err = queryVectors(nested, floats)
	require.ErrorContains(t, err, "nested three deep")

	multi := floats
	multi.Multivector = true
	got, err = queryVectors(list, multi)
	require.NoError(t, err)
	require.Equal(t, distributed.MultiVector(distributed.Float64(list.Data, 2), 2), got, "a list is one query of a multivector column")
	got, err = queryVectors(nested, multi)
	require.NoError(t, err)
	require.Equal(t, distributed.MultiVector(distributed.Float64(list.Data, 2), 1), got)

	bits := binding.ColumnInfo{Path: "v", Type: binding.Uint8, Dim: 2}
	got, err = queryVectors(list, bits)
	require.NoError(t, err)
	require.Equal(t, distributed.Uint8([]byte{1, 2, 3, 4}, 2), got)
	for _, bad := range []float64{0.5, -1, 256} {
		_, err = queryVectors(vecfile.Matrix{Data: []float64{0, 0, 0, bad}, Shape: []int{2, 2}}, bits)
		require.ErrorContains(t, err, "query 1, position 1")
	}
}

func TestListIndexes(t *testing.T) {
	d := &binding.Description{
		Fragments: []binding.Fragment{{ID: 0, PhysicalRows: 10}, {ID: 1, PhysicalRows: 10, DeletedRows: 4}, {ID: 5, PhysicalRows: 7}},
		Indexes: []binding.VectorIndex{
			{Name: "a", Column: "v", Type: "IVF_PQ", Metric: binding.L2, Segments: []binding.Segment{
				{Fragments: []uint32{0, 3}, Partitions: 2}, {Fragments: []uint32{1}, Partitions: 3},
			}},
			{Name: "b", Column: "w", Type: "IVF_FLAT", Metric: binding.Dot, Segments: []binding.Segment{{NoBitmap: true, Partitions: 1}}},
		},
	}
	var out bytes.Buffer
	c := console{out: &out}
	require.NoError(t, c.listIndexes(d, "table"))
	require.Equal(t, ""+
		"name  column  type      metric  segments  partitions  covered rows  live rows\n"+
		"a     v       IVF_PQ    l2             2           5            16         23\n"+
		"b     w       IVF_FLAT  dot            1           1            23         23\n", out.String())
	out.Reset()
	require.NoError(t, c.listIndexes(d, "json"))
	require.JSONEq(t, `[
		{"name":"a","column":"v","type":"IVF_PQ","metric":"l2","live_rows":23,"covered_rows":16,"segments":[
			{"uuid":"00000000-0000-0000-0000-000000000000","fragments":[0,3],"live_rows":10,"partitions":2},
			{"uuid":"00000000-0000-0000-0000-000000000000","fragments":[1],"live_rows":6,"partitions":3}]},
		{"name":"b","column":"w","type":"IVF_FLAT","metric":"dot","live_rows":23,"covered_rows":23,"segments":[
			{"uuid":"00000000-0000-0000-0000-000000000000","fragments":null,"live_rows":23,"partitions":1}]}]`, out.String())
	out.Reset()
	require.NoError(t, c.listIndexes(&binding.Description{}, "json"))
	require.Equal(t, "[]\n", out.String())
}

func TestExplain(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, "interrupted", explain(ended, context.Canceled))
	require.Equal(t, "no result within 2s", explain(t.Context(), errors.Join(errors.New("search"), timeoutError{2 * time.Second})))
	require.Equal(t, "open: gone", explain(t.Context(), errors.New("binding: open: gone")))
	coverage := &distributed.CoverageError{Index: "i", Column: "v", Fragments: []uint32{3}, Rows: 5, LiveRows: 10}
	require.Equal(t, `index "i" on "v" does not cover 5 of 10 live rows: index them, or pass --unindexed scan or --unindexed skip`,
		explain(t.Context(), coverage))
	require.Equal(t, "a; b", oneLine("a\n\nb\n"))
}
