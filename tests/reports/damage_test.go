package reports

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// copyTree copies a dataset, so that each kind of damage meets it whole and no cache of an earlier one.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.lance")
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

func files(t *testing.T, root, under, suffix string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(filepath.Join(root, under), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, suffix) {
			found = append(found, path)
		}
		return err
	}))
	require.NotEmpty(t, found, "%s of %s", suffix, under)
	slices.Sort(found)
	return found
}

func TestReport33_FailureIsNotTheEnd(t *testing.T) {
	rng := lab.Rand(33)
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"} {
		d := lab.Create(t, lab.Random(rng, binding.Float32, 1200, 8), lab.Rows(300))
		d.Index(index(kind, oracle.L2, []int{0}, []int{1}, []int{2}, []int{3}))
		a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 8)}, K: 900}
		a.Query.RefineFactor, a.Query.EF = 1, 1800
		if kind != "IVF_HNSW_SQ" {
			a.Query.EF = 0
		}
		for _, way := range lab.FewWays() {
			t.Run(fmt.Sprintf("%s/index file/%v", kind, way), func(t *testing.T) {
				uri := copyTree(t, d.URI)
				ds := lab.Open(t, uri, binding.OpenOptions{})
				description, err := ds.Describe(t.Context())
				require.NoError(t, err)
				gone := description.Indexes[0].Segments[2]
				plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(distributed.Options{}))
				require.NoError(t, err)
				require.NoError(t, os.RemoveAll(filepath.Join(uri, "_indices", gone.ID.String())))
				res, err := plan.Execute(t.Context())
				if err == nil { // planning had loaded the whole index already
					require.Equal(t, distributed.Auto, way.Strategy)
					require.Len(t, res.Neighbors(0), 900)
					res.Release()
					return
				}
				var typed *binding.Error
				require.ErrorAs(t, err, &typed)
				if way.Strategy == distributed.Segments {
					var task *distributed.TaskError
					require.ErrorAs(t, err, &task)
					require.Contains(t, task.Segments, gone.ID)
				}
				if way.Strategy == distributed.Segments && way.MaxTasks > 3 { // opted in, the rest comes with what is missing
					o := way.Apply(distributed.Options{AllowPartial: true})
					got, stats, err := lab.Search(ds, a.Question(t, d), o)
					require.NoError(t, err)
					partial(t, stats, gone, 300)
					ranked := a
					ranked.Keep = func(r oracle.Row) bool { return r.ID < 600 || r.ID >= 900 }
					require.NoError(t, oracle.CheckExact(got[0], ranked.Ranked(d, d.Live(0))[0], oracle.Page{K: 900}, oracle.Single))
				}
			})
		}
		t.Run(kind+"/data file", func(t *testing.T) {
			uri := copyTree(t, d.URI)
			for _, way := range lab.FewWays() {
				ds := lab.Open(t, uri, binding.OpenOptions{})
				plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(distributed.Options{}))
				require.NoError(t, err)
				if data, err := filepath.Glob(filepath.Join(uri, "data", "*.lance")); err == nil && len(data) == 4 {
					require.NoError(t, os.Remove(data[1]))
				}
				_, err = plan.Execute(t.Context()) // the winners cannot be re-scored, nor their rows read
				require.Error(t, err, way)
			}
		})
	}
}

// TestReport35_Damage damages every kind of file. Whatever happens is an error or the right answer, and the process,
// of which each case has one of its own, lives and searches a sound dataset afterwards.
func TestReport35_Damage(t *testing.T) {
	damage := map[string]func(b []byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"half":      func(b []byte) []byte { return b[:len(b)/2] },
		"no footer": func(b []byte) []byte { return b[:max(0, len(b)-16)] },
		"footer":    func(b []byte) []byte { return flip(b, len(b)-40, len(b)) },
		"start":     func(b []byte) []byte { return flip(b, 0, min(64, len(b))) },
		"everywhere": func(b []byte) []byte {
			for i := 7; i < len(b); i += 61 {
				b[i] ^= 0xff
			}
			return b
		},
		"ones": func(b []byte) []byte {
			for i := range b {
				b[i] = 0xff
			}
			return b
		},
	}
	targets := map[string][2]string{
		"data": {"data", ".lance"}, "index": {"_indices", "index.idx"}, "auxiliary": {"_indices", "auxiliary.idx"}, "manifest": {"_versions", ".manifest"},
	}
	kinds := []string{"IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			lab.Child(t, func() {
				rng := lab.Rand(35)
				d := lab.Create(t, lab.Random(rng, binding.Float32, 600, 8), lab.Rows(300))
				d.Index(index(kind, oracle.L2, []int{0}, []int{1}))
				sound := d.Open(0)
				a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 8)}, K: 10}
				a.Query.RefineFactor = 60
				ranked := a.Ranked(d, d.Live(0))
				for target, where := range targets {
					for name, change := range damage {
						uri := copyTree(t, d.URI)
						all := files(t, uri, where[0], where[1])
						path := all[0] // of the manifests the newest, since their names count down
						b, err := os.ReadFile(path)
						require.NoError(t, err)
						require.NoError(t, os.WriteFile(path, change(b), 0o600))
						fmt.Println("damage:", target, name) // names the case if the process ends in it
						searchDamaged(t, a, d, uri, target+"/"+name)
						got, _, err := lab.Search(sound, a.Question(t, d), distributed.Options{})
						require.NoError(t, err)
						require.NoError(t, oracle.CheckExact(got[0], ranked[0], oracle.Page{K: 10}, oracle.Single))
					}
				}
			})
		})
	}
	t.Run("arguments", func(t *testing.T) {
		lab.Child(t, func() {
			d := lab.Fragments(t, lines(2)...)
			d.Index(index("IVF_FLAT", oracle.L2, []int{0}, []int{1}))
			ds := d.Open(0)
			description, err := ds.Describe(t.Context())
			require.NoError(t, err)
			good := func() binding.SearchRequest {
				return binding.SearchRequest{Column: "vec", K: 3, Vectors: vectors(d, origin(4)...)}
			}
			long := strings.Repeat("x", 1<<20)
			for name, change := range map[string]func(r *binding.SearchRequest){
				"empty column":     func(r *binding.SearchRequest) { r.Column = "" },
				"not UTF-8 column": func(r *binding.SearchRequest) { r.Column = "v\xff\xfe" },
				"NUL column":       func(r *binding.SearchRequest) { r.Column = "ve\x00c" },
				"long column":      func(r *binding.SearchRequest) { r.Column = long },
				"open back-tick":   func(r *binding.SearchRequest) { r.Column = "`vec" },
				"scalar column":    func(r *binding.SearchRequest) { r.Column = "id" },
				"not UTF-8 filter": func(r *binding.SearchRequest) { r.Filter = "id > \xff" },
				"long filter":      func(r *binding.SearchRequest) { r.Filter = long },
				"nested filter": func(r *binding.SearchRequest) {
					r.Filter = strings.Repeat("(", 100_000) + "id > 1" + strings.Repeat(")", 100_000)
				},
				"no vectors":          func(r *binding.SearchRequest) { r.Vectors = binding.Vectors{} },
				"short vectors":       func(r *binding.SearchRequest) { r.Vectors.Data = r.Vectors.Data[:15] },
				"other dimension":     func(r *binding.SearchRequest) { r.Vectors.Dim, r.Vectors.Queries = 2, 2 },
				"other type":          func(r *binding.SearchRequest) { r.Vectors.Type, r.Vectors.Dim = binding.Uint8, 16 },
				"unknown type":        func(r *binding.SearchRequest) { r.Vectors.Type = 9 },
				"multivector":         func(r *binding.SearchRequest) { r.Vectors.PerQuery, r.Vectors.Dim = 2, 2 },
				"huge shape":          func(r *binding.SearchRequest) { r.Vectors.Queries, r.Vectors.Dim = 1<<62, 1<<62 },
				"zero k":              func(r *binding.SearchRequest) { r.K = 0 },
				"negative k":          func(r *binding.SearchRequest) { r.K = -1 },
				"negative probes":     func(r *binding.SearchRequest) { r.NProbes = -2 },
				"probes out of order": func(r *binding.SearchRequest) { r.MinNProbes, r.MaxNProbes = 5, 2 },
				"effort":              func(r *binding.SearchRequest) { r.SearchEffort = lab.Ptr(7.0) },
				"parallelism":         func(r *binding.SearchRequest) { r.QueryParallelism = -7 },
				"unknown metric":      func(r *binding.SearchRequest) { r.Metric = 77 },
				"unknown path":        func(r *binding.SearchRequest) { r.Path = 77 },
				"unknown probing":     func(r *binding.SearchRequest) { r.Probing = 77 },
				"unknown mode":        func(r *binding.SearchRequest) { r.ApproxMode = 77 },
				"unknown segment":     func(r *binding.SearchRequest) { r.Segments = []binding.SegmentID{{1, 2, 3}} },
				"no segments":         func(r *binding.SearchRequest) { r.Segments = []binding.SegmentID{} },
				"unknown fragment":    func(r *binding.SearchRequest) { r.Fragments = []uint32{9999} },
				"bounds":              func(r *binding.SearchRequest) { r.Bounds = []float32{1, 2, 3} },
				"NaN bounds":          func(r *binding.SearchRequest) { r.Bounds = []float32{float32(lab.NaN)} },
			} {
				r := good()
				change(&r)
				_, err := ds.Search(t.Context(), r)
				var typed *binding.Error
				if !assert.ErrorAs(t, err, &typed, name) {
					continue
				}
				assert.NotErrorIs(t, err, binding.ErrNativePanic, name)
				assert.NotErrorIs(t, err, binding.ErrInternal, name)
				assert.Less(t, len(err.Error()), 2*len(r.Filter)+len(r.Column)+4096, name)
			}
			r := good()
			r.Segments = []binding.SegmentID{description.Indexes[0].Segments[0].ID, {9}}
			_, err = ds.Search(t.Context(), r)
			require.Error(t, err)
			for _, ids := range [][]uint64{{1 << 63}, {0, ^uint64(0)}, {5 << 32}} {
				_, err = ds.Take(t.Context(), ids, []string{"id"}, nil)
				require.ErrorIs(t, err, binding.ErrNotFound, "%v", ids)
			}
			for _, column := range []string{"", "no", "vec.x", "id\xff"} {
				_, err = ds.Take(t.Context(), []uint64{0}, []string{column}, nil)
				require.Error(t, err, "column %q", column)
			}
			for _, uri := range []string{"", "\xff", "nowhere://x/y", "/", "s3://", "http://", d.URI + "x"} {
				_, err = binding.Open(t.Context(), uri, binding.OpenOptions{})
				require.Error(t, err, "uri %q", uri)
			}
			for _, o := range []binding.OpenOptions{{Version: 1 << 60}, {Tag: "none"}, {Tag: "a/b\xff"}, {Branch: "none"}, {Tag: "a", Branch: "b"}} {
				_, err = binding.Open(t.Context(), d.URI, o)
				require.Error(t, err, "%v", o)
			}
			got, err := ds.Search(t.Context(), good())
			require.NoError(t, err)
			require.Equal(t, []float32{0, 1, 4}, got.Distance)
		})
	})
}

func flip(b []byte, from, to int) []byte {
	for i := max(0, from); i < to; i++ {
		b[i] ^= 0xa5
	}
	return b
}

// searchDamaged opens and searches in several ways. Values may be damaged where nothing guards them, so an answer is
// judged by its form only; every error must be typed.
func searchDamaged(t *testing.T, a lab.Ask, d *lab.Dataset, uri, name string) {
	t.Helper()
	ctx := context.Background()
	ds, err := binding.Open(ctx, uri, binding.OpenOptions{})
	if err != nil {
		var typed *binding.Error
		require.ErrorAs(t, err, &typed, name)
		return
	}
	defer ds.Close()
	for _, way := range lab.FewWays() {
		got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(distributed.Options{}))
		if err != nil {
			var typed *binding.Error
			require.True(t, errors.As(err, &typed) || errors.Is(err, distributed.ErrIndex), "%s %v: %v", name, way, err)
			continue
		}
		require.NoError(t, oracle.CheckOrder(got[0]), "%s %v", name, way)
	}
}
