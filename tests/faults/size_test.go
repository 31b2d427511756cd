package faults

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// TestSizes_BeyondReason: Lance allocates heaps of k and k x refine unchecked, and a failed allocation aborts the
// process. Here every size is clamped to the rows there are or refused, in a process of its own.
func TestSizes_BeyondReason(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ", ""} {
		t.Run("kind="+kind, func(t *testing.T) {
			lab.Child(t, func() {
				d := lab.Create(t, random(3, 600, 8), lab.Rows(200))
				if kind != "" {
					i := lab.Index{Type: kind, Partitions: 2, Groups: [][]int{{0}, {1}, {2}}}
					if kind == "IVF_PQ" {
						i.SubVectors, i.Bits = 4, 4
					}
					d.Index(i)
				}
				ds, rows := d.Open(0), d.Live(0)
				huge := []int{1 << 20, 1<<31 - 1, 1 << 31, 1 << 32, 1 << 40, math.MaxInt64}
				for _, n := range huge {
					a := lab.Ask{Queries: queries(4, 2, 8), K: n, Options: scan}
					a.Query.RefineFactor = 1
					a.Exact(t, d, ds, rows)
					a.K, a.Offset = 10, n
					a.Exact(t, d, ds, rows)
					a.K, a.Offset = n, n
					a.Exact(t, d, ds, rows)
					a.K, a.Offset, a.Query.RefineFactor = 10, 0, n
					a.Exact(t, d, ds, rows)
					a.K, a.Query.RefineFactor = n, n
					a.Exact(t, d, ds, rows)
					// Numbers of probes and of an HNSW search's width are the caller's; no answer of other rows, and no crash.
					for _, change := range []func(q *distributed.Query){
						func(q *distributed.Query) { q.NProbes = n },
						func(q *distributed.Query) { q.MinNProbes = n },
						func(q *distributed.Query) { q.MaxNProbes = n },
						func(q *distributed.Query) { q.EF = n },
						func(q *distributed.Query) { q.QueryParallelism = n },
					} {
						b := lab.Ask{Queries: queries(4, 2, 8), K: 10, Options: scan}
						b.Query.RefineFactor = 60
						change(&b.Query)
						acceptable(t, b, d, ds, rows)
					}
				}
				for _, threads := range []int{1 << 20, math.MaxInt32} {
					a := lab.Ask{Queries: queries(4, 2, 8), K: 10, Options: scan}
					a.Query.RefineFactor = 60
					a.Options.Threads, a.Options.MaxTasks = threads, threads
					acceptable(t, a, d, ds, rows)
				}
				for name, r := range map[string]binding.SearchRequest{
					"k":      {K: math.MaxInt64},
					"refine": {K: 10, RefineFactor: math.MaxInt64},
					"both":   {K: 1 << 33, RefineFactor: 1 << 33},
					"flat":   {K: 1 << 40, NoIndex: true},
				} {
					for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
						r.Column, r.Path = "vec", path
						r.Vectors = binding.Vectors{Data: lab.EncodeVectors(binding.Float32, queries(4, 2, 8)...), Type: binding.Float32, Queries: 2, Dim: 8}
						found, err := ds.Search(t.Context(), r)
						require.NoError(t, err, name)
						require.LessOrEqual(t, len(found.RowID), 2*600, name)
					}
				}
				require.Less(t, residentKB(t), 1<<20, "kB")
			})
		})
	}
}

func residentKB(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var n int
	_, err = fmt.Sscan(after, &n)
	require.NoError(t, err)
	return n
}

// acceptable: the right answer, or an error that says which argument is wrong.
func acceptable(t *testing.T, a lab.Ask, d *lab.Dataset, ds *binding.Dataset, rows []oracle.Row) {
	t.Helper()
	ranked := a.Ranked(d, rows)
	for _, way := range lab.FewWays() {
		got, _, err := lab.Search(ds, a.Question(t, d), way.Apply(a.Options))
		if err != nil {
			require.ErrorIs(t, err, binding.ErrInvalidArgument, way)
			continue
		}
		for i := range ranked {
			require.NoError(t, oracle.CheckOrder(got[i]), way)
			require.GreaterOrEqual(t, oracle.Recall(got[i], ranked[i], a.Page(), oracle.Single), 0.5, way)
		}
	}
}
