package distributed

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func richTask(t *testing.T, o Options) Task {
	tab := line(20, 20, 20).index("x", []uint32{0}, []uint32{1, 2})
	tab.options = binding.OpenOptions{
		Tag: "prod", StorageOptions: map[string]string{"aws_secret_access_key": "hunter2"},
		Namespace: &binding.Namespace{Impl: "rest", Properties: map[string]string{"token": "hunter3"}, TableID: []string{"a", "b"}},
	}
	q := Query{
		Column: "vec", Vectors: at(1, 2, 3), K: 5, Offset: 1, RefineFactor: 2, Filter: "category = 3", Metric: binding.L2,
		NProbes: 4, MinNProbes: 2, MaxNProbes: 9, SearchEffort: ptr(0.25), EF: 100, DistanceMin: ptr(float32(-1)), DistanceMax: ptr(float32(1e9)),
		ApproxMode: binding.ApproxAccurate, QueryParallelism: -1,
	}
	o.Strategy, o.MaxTasks, o.Threads, o.Probing, o.Path = Grid, 4, 2, binding.ProbingPerSegment, binding.PathDirect
	tasks := tab.plan(t, q, o).Tasks()
	require.Len(t, tasks, 4)
	return tasks[3]
}

func TestTask_CarriesEverythingAWorkerNeeds(t *testing.T) {
	task := richTask(t, Options{})
	r := task.request()
	require.Equal(t, "s3://bucket/t.lance", task.URI)
	require.Equal(t, uint64(42), task.Version)
	require.Equal(t, uint64(42), task.Open.Version)
	require.Equal(t, "prod", task.Open.Tag)
	require.Equal(t, "x", task.Index)
	require.Equal(t, 2, task.FirstQuery)
	require.Equal(t, []float64{3, 0, 0, 0}, values(task.Vectors, 0))
	require.Equal(t, binding.SearchRequest{
		Column: "vec", Filter: "category = 3", Segments: task.Segments, Vectors: task.Vectors, K: 12, NProbes: 4, MinNProbes: 2, MaxNProbes: 9,
		SearchEffort: ptr(0.25), EF: 100, DistanceMin: ptr(float32(-1)), DistanceMax: ptr(float32(1e9)), Metric: binding.L2, QueryParallelism: -1,
		ApproxMode: binding.ApproxAccurate, Path: binding.PathDirect, Probing: binding.ProbingPerSegment, Threads: 1,
	}, r)
}

func TestTask_IsAPlainValue(t *testing.T) {
	task := richTask(t, Options{TaskCredentials: true})
	task.Bounds = Distances{1.5, float32(math.Inf(1)), -2}

	text, err := json.Marshal(task)
	require.NoError(t, err)
	var fromJSON Task
	require.NoError(t, json.Unmarshal(text, &fromJSON))
	require.Equal(t, task, fromJSON)

	var wire bytes.Buffer
	require.NoError(t, gob.NewEncoder(&wire).Encode(task))
	var fromGob Task
	require.NoError(t, gob.NewDecoder(&wire).Decode(&fromGob))
	require.Equal(t, task, fromGob)

	result := TaskResult{Query: []uint32{1}, Distance: Distances{float32(math.Inf(1))}, RowID: []uint64{math.MaxUint64}, Stats: binding.SearchStats{BytesRead: 7}}
	text, err = json.Marshal(result)
	require.NoError(t, err)
	var back TaskResult
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, result, back)
	require.Error(t, json.Unmarshal([]byte(`{"Distance":"AAA="}`), &back), "not a whole number of float32")
}

func TestTask_CredentialsTravelOnlyWhenAskedAndAreNeverPrinted(t *testing.T) {
	task := richTask(t, Options{})
	text, err := json.Marshal(task)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter")
	require.Equal(t, []string{"a", "b"}, task.Open.Namespace.TableID)

	task = richTask(t, Options{TaskCredentials: true})
	require.Equal(t, "hunter2", task.Open.StorageOptions["aws_secret_access_key"])
	require.Equal(t, "hunter3", task.Open.Namespace.Properties["token"])
	task.URI = "s3://user:hunter4@bucket/t?sig=hunter5"
	log, logged := captured()
	log.Info("task", "task", task)
	for _, printed := range []string{fmt.Sprint(task), fmt.Sprintf("%+v %#v", task, task), logged.String()} {
		require.NotContains(t, printed, "hunter")
	}
}

func TestPublicURI(t *testing.T) {
	for uri, want := range map[string]string{
		"/data/x.lance":                   "/data/x.lance",
		"/data/what?.lance":               "/data/what?.lance",
		"s3://bucket/x.lance":             "s3://bucket/x.lance",
		"s3://key:secret@bucket/x.lance":  "s3://bucket/x.lance",
		"az://c/x.lance?sig=secret&a=b":   "az://c/x.lance",
		"https://h/x#secret":              "https://h/x",
		"s3://key:sec%ret@bucket/x.lance": "s3://...",
		"gs://bucket/a%20b":               "gs://bucket/a%20b",
	} {
		require.Equal(t, want, publicURI(uri))
	}
}

func TestExplain_SaysWhatAndWhy(t *testing.T) {
	tab := line(1000, 500, 300, 200, 50).index("by_title", []uint32{0}, []uint32{1}, []uint32{2}, []uint32{3}, []uint32{99}).quantised()
	tab.description.URI = "s3://user:hunter2@bucket/t.lance?sig=hunter3"
	tab.options.StorageOptions = map[string]string{"aws_secret_access_key": "hunter4"}
	q := Query{Column: "vec", Vectors: at(1, 2, 3), K: 10, Offset: 5, RefineFactor: 3, Filter: "category = 3", Columns: []string{"title"}}
	p := tab.plan(t, q, Options{Unindexed: Scan, Strategy: Segments, MaxTasks: 3, Threads: 3, TaskCredentials: true})
	require.Equal(t, `dataset:  s3://bucket/t.lance, version 42, 2050 live rows in 5 fragments
query:    3 query vectors of dimension 4 (float32) on "vec", k 10, offset 5, refine factor 3
filter:   category = 3 (before neighbours are chosen)
index:    "by_title", IVF_PQ, l2, 5 segments: the only one on "vec"
metric:   l2
coverage: 2000 of 2050 live rows are in the index; fragments 4 with 50 live rows are outside: searched flat
units:    4, of 200 to 1000 live rows; 1 segment without live rows dropped
strategy: segments: segments asked for
path:     auto, decided by each task
distance: exact: the best 45 index candidates of all tasks are re-scored once, after the merge
tasks:    3, at most 3 at once
  task 0: index, 1 segment a0000000, fragments 0, 1000 rows, queries 0-2, k 45, 1 thread
  task 1: index, 3 segments a0000001, a0000002, a0000003, fragments 1-3, 1000 rows, queries 0-2, k 45, 1 thread
  task 2: flat, fragments 4, 50 rows, queries 0-2, k 15, 1 thread
`, p.Explain())
}

func TestFormatFragments(t *testing.T) {
	require.Equal(t, "none", formatFragments(nil))
	require.Equal(t, "3", formatFragments([]uint32{3}))
	require.Equal(t, "0-2, 5, 7-8", formatFragments([]uint32{0, 1, 2, 5, 7, 8}))
	var many []uint32
	for i := range uint32(100) {
		many = append(many, 2*i)
	}
	require.Equal(t, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, and 88 more", formatFragments(many))
}
