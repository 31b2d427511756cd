package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/cmd/lanceknn/internal/synth"
)

// needLibrary fails a test that runs without the native library.
func needLibrary(t *testing.T) {
	t.Helper()
	require.NoError(t, binding.Load(), "these tests need the native library: run make native")
}

// ok runs a command line that must succeed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := cli(t, args...)
	require.Equal(t, exitOK, code, "%v: %s", args, stderr)
	require.Empty(t, stderr)
	return stdout
}

// failed runs a command line that must fail with one line.
func failed(t *testing.T, args ...string) string {
	t.Helper()
	return ends(t, exitFailure, args...)
}

// refused runs a command line that must be refused for what was typed.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	stderr := ends(t, exitUsage, args...)
	require.Contains(t, stderr, "--help)")
	return stderr
}

func ends(t *testing.T, want int, args ...string) string {
	t.Helper()
	code, stdout, stderr := cli(t, args...)
	require.Equal(t, want, code, "%v: %s", args, stderr)
	require.Empty(t, stdout)
	require.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %q", stderr)
	return stderr
}

const (
	testRows = 2000
	testDim  = 16
)

// table is a dataset on disk and its rows in memory.
type table struct {
	uri, queryFile   string
	vectors, queries []float32
	categories       []int32
}

func newTable(t *testing.T, fragments int) table {
	t.Helper()
	needLibrary(t)
	dir := t.TempDir()
	tab := table{uri: filepath.Join(dir, "t.lance"), queryFile: filepath.Join(dir, "q.npy")}
	ok(t, "gen", tab.uri, "--rows", strconv.Itoa(testRows), "--dim", strconv.Itoa(testDim), "--fragments", strconv.Itoa(fragments),
		"--seed", "3", "--queries", tab.queryFile, "--query-count", "5")
	space, err := synth.New(synth.Config{Rows: testRows, Dim: testDim, Seed: 3})
	require.NoError(t, err)
	tab.vectors, tab.queries = space.Vectors(2), space.Queries(5)
	for i := range space.Blocks() {
		tab.categories = append(tab.categories, space.Block(i).Categories...)
	}
	return tab
}

// found is the JSON of a search.
type found struct {
	Version  uint64  `json:"version"`
	Index    *string `json:"index"`
	Strategy string  `json:"strategy"`
	Tasks    int     `json:"tasks"`
	Coverage struct {
		Live    uint64 `json:"live_rows"`
		Covered uint64 `json:"covered_rows"`
	} `json:"coverage"`
	Queries []struct {
		ID        int `json:"query_id"`
		Neighbors []struct {
			RowID    uint64  `json:"_rowid"`
			Distance float64 `json:"_distance"`
			ID       int     `json:"id"`
			Category int32   `json:"category"`
			Title    string  `json:"title"`
		} `json:"neighbors"`
	} `json:"queries"`
	Elapsed float64 `json:"elapsed_ms"`
}

func parseFound(t *testing.T, text string) found {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var f found
	require.NoError(t, d.Decode(&f), text)
	return f
}

// expect gives the rows that brute force finds among those that pass.
func (tab table) expect(query, k int, pass func(row int) bool) []int {
	var rows []int
	for _, row := range nearestRows(tab.vectors, tab.queries[query*testDim:(query+1)*testDim], testRows) {
		if len(rows) < k && pass(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

func all(int) bool { return true }

func (tab table) requireExact(t *testing.T, f found, k int, pass func(int) bool) {
	t.Helper()
	require.Len(t, f.Queries, len(tab.queries)/testDim)
	for q, answer := range f.Queries {
		require.Equal(t, q, answer.ID)
		var rows []int
		for _, n := range answer.Neighbors {
			rows = append(rows, n.ID)
			want := squaredDistance(tab.vectors[n.ID*testDim:(n.ID+1)*testDim], tab.queries[q*testDim:(q+1)*testDim])
			require.InEpsilon(t, want, n.Distance, 1e-4)
			require.Equal(t, tab.categories[n.ID], n.Category)
			require.True(t, strings.HasSuffix(n.Title, " "+strconv.Itoa(n.ID)), n.Title)
		}
		require.Equal(t, tab.expect(q, k, pass), rows)
	}
}

func TestSearch_EveryStrategyIsExactOnAFlatIndex(t *testing.T) {
	tab := newTable(t, 4)
	require.Regexp(t, `^built IVF_FLAT on vec in 4 segments, .*version 2\n$`,
		ok(t, "index", "build", tab.uri, "--column", "vec", "--type", "ivf_flat", "--segments", "4", "--partitions", "4", "--name", "by_segment"))
	base := []string{"search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--columns", "id,category,title", "--nprobes", "4", "--output", "json"}
	for _, strategy := range []string{"auto", "single", "segments", "queries", "grid"} {
		f := parseFound(t, ok(t, append(base, "--strategy", strategy, "--k", "7")...))
		tab.requireExact(t, f, 7, all)
		require.Equal(t, uint64(2), f.Version)
		require.Equal(t, "by_segment", *f.Index)
		require.Equal(t, uint64(testRows), f.Coverage.Live)
		require.Equal(t, uint64(testRows), f.Coverage.Covered)
		require.Positive(t, f.Tasks)
		require.Positive(t, f.Elapsed)
		if strategy != "auto" {
			require.Equal(t, strategy, f.Strategy)
		}
		f = parseFound(t, ok(t, append(base, "--strategy", strategy, "--filter", "category < 30")...))
		tab.requireExact(t, f, 10, func(row int) bool { return tab.categories[row] < 30 })
	}
}

func TestSearch_WithoutAnIndexIsExact(t *testing.T) {
	tab := newTable(t, 2)
	f := parseFound(t, ok(t, "search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--columns", "id,category,title",
		"--no-index", "--output", "json"))
	tab.requireExact(t, f, 10, all)
	require.Nil(t, f.Index)
}

func TestSearch_OffsetAndDistances(t *testing.T) {
	tab := newTable(t, 2)
	base := []string{"search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--columns", "id,category,title", "--no-index", "--output", "json"}
	whole := parseFound(t, ok(t, append(base, "--k", "10")...))
	page := parseFound(t, ok(t, append(base, "--k", "4", "--offset", "3")...))
	for q := range whole.Queries {
		require.Equal(t, whole.Queries[q].Neighbors[3:7], page.Queries[q].Neighbors)
	}
	low, high := whole.Queries[0].Neighbors[2].Distance, whole.Queries[0].Neighbors[8].Distance
	within := parseFound(t, ok(t, append(base, "--k", "10", "--distance-min", fmt.Sprint(low), "--distance-max", fmt.Sprint(high))...))
	require.Equal(t, whole.Queries[0].Neighbors[2:8], within.Queries[0].Neighbors, "the lower bound belongs to the range, the upper does not")
}

func TestSearch_Outputs(t *testing.T) {
	tab := newTable(t, 2)
	base := []string{"search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--columns", "title", "--no-index", "--k", "2"}
	lines := strings.Split(strings.TrimSpace(ok(t, base...)), "\n")
	require.Len(t, lines, 1+2*5)
	require.Equal(t, []string{"_query_id", "_distance", "_rowid", "title"}, strings.Fields(lines[0]))

	r, err := ipc.NewReader(strings.NewReader(ok(t, append(base, "--output", "arrow")...)))
	require.NoError(t, err)
	defer r.Release()
	require.True(t, r.Next())
	require.Equal(t, int64(10), r.Record().NumRows())
	require.Equal(t, []int32{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, r.Record().Column(0).(*array.Int32).Int32Values())

	var out, errs bytes.Buffer
	code := console{out: &out, err: &errs, outTerminal: true}.run(t.Context(), append(base, "--output", "arrow"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs.String(), "send it to a file or a pipe")
}

func TestSearch_UnindexedRows(t *testing.T) {
	tab := newTable(t, 2)
	ok(t, "index", "build", tab.uri, "--column", "vec", "--type", "IVF_FLAT", "--segments", "2", "--partitions", "2")
	space, err := synth.New(synth.Config{Rows: 100, Dim: testDim, Seed: 9})
	require.NoError(t, err)
	_, err = binding.Write(t.Context(), tab.uri, space.Reader(100, nil), binding.WriteOptions{Mode: binding.Append})
	require.NoError(t, err)

	base := []string{"search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--nprobes", "2", "--output", "json"}
	require.Equal(t, "lanceknn: index \"vec_idx\" on \"vec\" does not cover 100 of 2100 live rows: index them, or pass --unindexed scan or --unindexed skip\n",
		failed(t, base...))
	f := parseFound(t, ok(t, append(base, "--unindexed", "scan")...))
	require.Equal(t, uint64(2100), f.Coverage.Covered)
	code, stdout, stderr := cli(t, append(base, "--unindexed", "skip")...)
	require.Equal(t, exitOK, code)
	require.Equal(t, uint64(2000), parseFound(t, stdout).Coverage.Covered)
	require.Contains(t, stderr, "searched 2000 of 2100 rows")
	// The version before the rows were written is covered.
	require.Equal(t, uint64(2), parseFound(t, ok(t, append(base, "--version", "2")...)).Version)
}

func TestPlan_ExplainsAndDoesNotSearch(t *testing.T) {
	tab := newTable(t, 4)
	ok(t, "index", "build", tab.uri, "--column", "vec", "--segments", "4", "--partitions", "2", "--sub-vectors", "4")
	text := ok(t, "plan", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--strategy", "segments", "--max-tasks", "2")
	require.Contains(t, text, "vec_idx")
	require.Contains(t, text, "segments")
	require.True(t, strings.HasSuffix(text, "\n"))
}

func TestIndex_EveryTypeBuildsListsAndSearches(t *testing.T) {
	tab := newTable(t, 2)
	for _, kind := range indexTypes {
		for _, segments := range []string{"1", "2"} {
			name := kind + "_" + segments
			ok(t, "index", "build", tab.uri, "--column", "vec", "--type", kind, "--segments", segments, "--partitions", "2", "--name", name)
			f := parseFound(t, ok(t, "search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--columns", "id,category,title",
				"--index-name", name, "--nprobes", "2", "--refine-factor", "50", "--ef", "500", "--output", "json"))
			require.Equal(t, name, *f.Index)
			tab.requireExact(t, f, 10, all)
		}
	}
	var list []listedIndex
	require.NoError(t, json.Unmarshal([]byte(ok(t, "index", "list", tab.uri, "--output", "json")), &list))
	require.Len(t, list, 2*len(indexTypes))
	for _, index := range list {
		require.Equal(t, "vec", index.Column)
		require.Equal(t, "l2", index.Metric)
		require.Equal(t, uint64(testRows), index.CoveredRows)
		require.True(t, strings.HasPrefix(index.Name, index.Type+"_"), "%s is of type %s", index.Name, index.Type)
		require.True(t, strings.HasSuffix(index.Name, "_"+strconv.Itoa(len(index.Segments))))
	}
	require.Contains(t, refused(t, "index", "build", tab.uri, "--column", "vec", "--name", "IVF_PQ_1"), `has an index "IVF_PQ_1"`)
	require.Contains(t, refused(t, "index", "build", tab.uri, "--column", "vec", "--segments", "3"), "3 segments need as many fragments")
	ok(t, "index", "build", tab.uri, "--column", "vec", "--type", "IVF_FLAT", "--name", "IVF_PQ_1", "--replace")
	require.Contains(t, ok(t, "index", "list", tab.uri), "IVF_PQ_1         vec     IVF_FLAT ")
}

func TestGen_Overwrites(t *testing.T) {
	tab := newTable(t, 1)
	require.Contains(t, failed(t, "gen", tab.uri, "--rows", "10", "--dim", "4", "--fragments", "1"), "exists")
	require.Equal(t, "wrote 10 rows of dimension 4 in 2 fragments to "+tab.uri+", version 2\n",
		ok(t, "gen", tab.uri, "--rows", "10", "--dim", "4", "--fragments", "2", "--overwrite"))
}

func TestSearch_Failures(t *testing.T) {
	tab := newTable(t, 1)
	base := []string{"search", tab.uri, "--vectors", tab.queryFile}
	absent := filepath.Join(t.TempDir(), "absent.lance")
	require.Contains(t, failed(t, "search", absent, "--column", "vec", "--vectors", tab.queryFile), strconv.Quote(absent))
	require.Contains(t, failed(t, append(base, "--column", "vec", "--version", "77")...), "77")
	require.Contains(t, failed(t, append(base, "--column", "vec", "--version", "no-such-tag")...), "no-such-tag")
	require.Equal(t, "lanceknn: no result within 1ns\n", failed(t, append(base, "--column", "vec", "--timeout", "1ns")...))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, exitFailure, console{out: &out, err: &errs}.run(ctx, append(base, "--column", "vec")))
	require.Equal(t, "lanceknn: interrupted\n", errs.String())
}

func TestSearch_WhatWasTypedIsRefused(t *testing.T) {
	tab := newTable(t, 1)
	ok(t, "index", "build", tab.uri, "--column", "vec", "--type", "IVF_HNSW_SQ", "--partitions", "1")
	base := []string{"search", tab.uri, "--vectors", tab.queryFile, "--column"}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"column":         {append(base, "nothing"), `--column: "nothing" cannot be searched: column "nothing" does not exist`},
		"not a vector":   {append(base, "id"), `--column: "id" cannot be searched`},
		"index name":     {append(base, "vec", "--index-name", "none"), `no usable index named "none"`},
		"columns":        {append(base, "vec", "--columns", "no_such_column"), "--columns: "},
		"columns twice":  {append(base, "vec", "--columns", "id,id"), "--columns: \"id\" is requested twice"},
		"filter":         {append(base, "vec", "--filter", "no_such_column > 1"), `--filter: "no_such_column > 1": `},
		"effort":         {append(base, "vec", "--search-effort", "3"), "--search-effort: 3 is outside 0 to 1"},
		"metric":         {append(base, "vec", "--metric", "hamming"), "--metric: "},
		"probes":         {append(base, "vec", "--min-nprobes", "3", "--max-nprobes", "2"), "--min-nprobes: 3 is more than"},
		"distances":      {append(base, "vec", "--distance-min", "3", "--distance-max", "2"), "--distance-min: 3 is not below"},
		"ef":             {append(base, "vec", "--ef", "3"), "--ef: 3 is less than"},
		"threads":        {append(base, "vec", "--threads", "99999999999"), "--threads: 99999999999 is not"},
		"no index":       {append(base, "vec", "--no-index", "--index-name", "vec_idx"), "--no-index: set together"},
		"dimension":      {[]string{"plan", tab.uri, "--column", "vec", "--vector", "[1, 2]"}, "--vector: query vectors have dimension 2"},
		"value":          {[]string{"search", tab.uri, "--column", "vec", "--vector", "[1e300" + strings.Repeat(", 1", testDim-1) + "]"}, "query 0: value 1e+300"},
		"nesting":        {[]string{"search", tab.uri, "--column", "vec", "--vector", "[[[1, 2]]]"}, "nested three deep"},
		"segments":       {[]string{"index", "build", tab.uri, "--column", "vec", "--name", "x", "--segments", "3"}, "--segments: 3 segments need"},
		"indexed column": {[]string{"index", "build", tab.uri, "--column", "nothing"}, "--column: "},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, refused(t, c.args...), c.want) })
	}
	require.Contains(t, failed(t, "index", "build", tab.uri, "--column", "vec"), `has an index "vec_idx"`, "nobody typed that name")
}

func TestSearch_SaysWhyNoIndexWasUsed(t *testing.T) {
	tab := newTable(t, 1)
	base := []string{"search", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--output", "json"}
	says := func(want string, more ...string) {
		t.Helper()
		code, stdout, stderr := cli(t, append(base, more...)...)
		require.Equal(t, exitOK, code)
		require.Equal(t, want, stderr)
		require.Nil(t, parseFound(t, stdout).Index)
	}
	says("lanceknn: no index was used: there is no vector index on \"vec\"\n")
	says("", "--no-index")
	ok(t, "index", "build", tab.uri, "--column", "vec", "--type", "IVF_FLAT", "--partitions", "2")
	says("lanceknn: no index was used: no index on \"vec\" fits: \"vec_idx\" has metric l2\n", "--metric", "cosine")
	require.Contains(t, ok(t, "plan", tab.uri, "--column", "vec", "--vectors", tab.queryFile, "--metric", "cosine"),
		`index:    none: no index on "vec" fits: "vec_idx" has metric l2`)
	ok(t, base...)
}

func TestVersion(t *testing.T) {
	needLibrary(t)
	require.Contains(t, ok(t, "version"), "lance 14.0.2")
}

func TestDemo_PassesItsOwnChecks(t *testing.T) {
	needLibrary(t)
	args := []string{"demo", "--rows", "8000", "--dim", "32", "--segments", "4", "--queries", "8", "--rounds", "1", "--nprobes", "4", "--min-recall", "0.9", "--python", ""}
	out := ok(t, args...)
	require.Contains(t, out, "all checks passed")
	for _, strategy := range []string{"single", "segments", "queries", "grid", "auto"} {
		require.Equal(t, 4, strings.Count(out, "\n"+strategy+" "), "a row in each table:\n%s", out)
	}
	code, _, stderr := cli(t, append(args, "--min-recall", "1", "--refine-factor", "1", "--nprobes", "1")...)
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "failed, the first: recall")
}
