package parity

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

func near(random *rand.Rand, centre []float64, spread float64) []float64 {
	v := make([]float64, len(centre))
	for i := range v {
		v[i] = centre[i] + random.NormFloat64()*spread
	}
	return lab.Round(binding.Float32, v)
}

// TestBounds_SpareTasksThatWaited: segments of clusters of their own, far apart, so that what one task found spares others most of theirs.
func TestBounds_SpareTasksThatWaited(t *testing.T) {
	const fragments, clusters, size, dim = 8, 12, 50, 16
	random := lab.Rand(5)
	table := lab.Table{Dim: dim}
	a := lab.Ask{K: 10, Query: distributed.Query{SearchEffort: lab.Ptr(0.7)}}
	for range fragments {
		for c := range clusters {
			centre := near(random, make([]float64, dim), 10)
			for range size {
				table.Vectors = append(table.Vectors, near(random, centre, 0.5))
			}
			if c%6 == 0 {
				a.Queries = append(a.Queries, near(random, centre, 0.5))
			}
		}
	}
	d := lab.Write(t, table, binding.WriteOptions{MaxRowsPerFile: clusters * size})
	_, err := distributed.BuildIndex(t.Context(), d.Open(0), distributed.BuildOptions{Column: "vec", Type: "IVF_FLAT", Partitions: 24, Segments: fragments})
	require.NoError(t, err)
	ds := d.Open(0)
	q, ranked := a.Question(t, d), a.Ranked(d, d.Live(0))
	_, _, err = lab.Search(ds, q, distributed.Options{}) // reading ahead from storage reads a few more
	require.NoError(t, err)
	for _, o := range []distributed.Options{
		{Strategy: distributed.Segments, MaxTasks: 8, Threads: 1},
		{Strategy: distributed.Segments, MaxTasks: 8, Threads: 2},
		{Strategy: distributed.Grid, MaxTasks: 8, Threads: 2},
	} {
		t.Run(fmt.Sprintf("%s/threads=%d", o.Strategy, o.Threads), func(t *testing.T) {
			plan, err := distributed.NewPlan(t.Context(), ds, q, o)
			require.NoError(t, err)
			require.Greater(t, len(plan.Tasks()), o.Threads)
			var without uint64
			for _, task := range plan.Tasks() {
				require.Nil(t, task.Bounds)
				found, err := distributed.RunTask(t.Context(), ds, task)
				require.NoError(t, err)
				without += found.Stats.PartitionsSearched
			}
			got, stats, err := lab.Search(ds, q, o)
			require.NoError(t, err)
			t.Logf("%d tasks read %d partitions, %d when each is by itself", stats.Tasks, stats.PartitionsSearched, without)
			require.Equal(t, stats.Tasks, stats.DirectTasks)
			require.LessOrEqual(t, stats.PartitionsSearched, without)
			if o.Threads == 1 { // otherwise who waits for whom is up to the machine
				require.Less(t, stats.PartitionsSearched, without*9/10)
			}
			for i := range a.Queries {
				require.Equal(t, lab.IDs(ranked[i][:a.K]), lab.IDs(got[i]), "query %d", i)
				require.NoError(t, oracle.CheckExact(got[i], ranked[i], a.Page(), oracle.Single), "query %d", i)
			}
		})
	}
}
