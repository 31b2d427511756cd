package faults

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

func TestVersions_TagsAndBranches(t *testing.T) {
	ctx := t.Context()
	d := lab.Create(t, lab.Line(0, 100), lab.Rows(50))
	indexed := d.Index(lab.Index{Groups: [][]int{{0}, {1}}})
	d.Delete("id < 10")
	latest := d.Append(lab.Line(200, 210))
	ask := func(x float64) lab.Ask {
		return lab.Ask{Queries: [][]float64{{x, 0, 0, 0}}, K: 3, Options: scan}
	}
	open := func(o binding.OpenOptions) *binding.Dataset { return lab.Open(t, d.URI, o) }

	require.Equal(t, latest, open(binding.OpenOptions{}).Version())
	for version := uint64(1); version <= latest; version++ {
		ds := open(binding.OpenOptions{Version: version})
		require.Equal(t, version, ds.Version())
		a := ask(5)
		a.Exact(t, d, ds, d.Live(version))
	}

	require.NoError(t, open(binding.OpenOptions{}).Tag(ctx, "v-indexed", indexed))
	tagged := open(binding.OpenOptions{Tag: "v-indexed"})
	require.Equal(t, indexed, tagged.Version())
	ask(5).Exact(t, d, tagged, d.Live(indexed))
	require.NoError(t, tagged.Tag(ctx, "v-indexed", 1), "a tag moves")
	require.Equal(t, uint64(1), open(binding.OpenOptions{Tag: "v-indexed"}).Version())
	_, err := binding.Open(ctx, d.URI, binding.OpenOptions{Tag: "v-indexed", Version: indexed})
	require.ErrorIs(t, err, binding.ErrVersionGone, "the tag has moved")
	require.ErrorIs(t, tagged.Tag(ctx, "nowhere", 999), binding.ErrNotFound)

	var branch struct {
		Version uint64
		URI     string `json:"uri"`
	}
	record := lab.Line(1000, 1020).Record()
	defer record.Release()
	require.NoError(t, pylance.Shared(t).Call("branch", pylance.Args{"uri": d.URI, "branch": "side", "ipc": pylance.IPC(record)}, &branch))
	side := open(binding.OpenOptions{Branch: "side"})
	require.Equal(t, branch.Version, side.Version())
	got, _, err := lab.Search(side, ask(1003).Question(t, d), scan)
	require.NoError(t, err)
	require.Equal(t, []int64{1003, 1002, 1004}, lab.IDs(got[0]))
	got, _, err = lab.Search(open(binding.OpenOptions{}), ask(1003).Question(t, d), scan)
	require.NoError(t, err)
	require.Equal(t, []int64{209, 208, 207}, lab.IDs(got[0]), "the main branch does not see it")

	for _, o := range []struct {
		options binding.OpenOptions
		target  error
		says    string
	}{
		{binding.OpenOptions{Version: latest + 1}, binding.ErrNotFound, fmt.Sprint(latest + 1)},
		{binding.OpenOptions{Tag: "none"}, binding.ErrNotFound, "none"},
		{binding.OpenOptions{Branch: "none"}, binding.ErrNotFound, "none"},
		{binding.OpenOptions{Branch: "side", Version: 777}, binding.ErrNotFound, "777"},
	} {
		_, err := binding.Open(ctx, d.URI, o.options)
		require.ErrorIs(t, err, o.target, "%v", o.options)
		require.ErrorContains(t, err, o.says)
	}
	_, err = binding.Open(ctx, d.URI+"-not-there", binding.OpenOptions{})
	require.ErrorIs(t, err, binding.ErrNotFound)
}

// TestVersions_GoneBeforeExecution: a version cleaned up between plan and execution is an error of its own, never
// another version and never a part of the answer.
func TestVersions_GoneBeforeExecution(t *testing.T) {
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ"} {
		for _, way := range lab.Ways() {
			t.Run(kind+"/"+way.String(), func(t *testing.T) {
				d := lab.Create(t, lab.Line(0, 200), lab.Rows(50))
				d.Index(lab.Index{Type: kind, Groups: [][]int{{0}, {1}, {2}, {3}}})
				ds := d.Open(0)
				a := lab.Ask{Queries: [][]float64{{60, 0, 0, 0}}, K: 120}
				a.Query.RefineFactor = 1
				ranked := a.Ranked(d, d.Live(0))
				plan, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), way.Apply(distributed.Options{}))
				require.NoError(t, err)
				d.Do("write", pylance.Args{"mode": "overwrite", "ipc": overwritten()})
				d.Do("cleanup", nil)
				res, err := plan.Execute(t.Context())
				if err != nil {
					require.ErrorIs(t, err, binding.ErrVersionGone)
					return
				}
				defer res.Release() // planning had loaded everything: then the answer is that of the old version
				var got []oracle.Hit
				for _, n := range res.Neighbors(0) {
					got = append(got, oracle.Hit{RowID: n.RowID, Distance: float64(n.Distance)})
				}
				require.NoError(t, oracle.CheckExact(got, ranked[0], a.Page(), oracle.Single))
			})
		}
	}
	t.Run("task", func(t *testing.T) { // as a worker elsewhere would meet it
		d := lab.Create(t, lab.Line(0, 200), lab.Rows(50))
		d.Index(lab.Index{Groups: [][]int{{0}, {1}, {2}, {3}}})
		ds := d.Open(0)
		plan, err := distributed.NewPlan(t.Context(), ds, lab.Ask{Queries: [][]float64{{60, 0, 0, 0}}, K: 5}.Question(t, d), distributed.Options{Strategy: distributed.Segments, MaxTasks: 4})
		require.NoError(t, err)
		d.Do("write", pylance.Args{"mode": "overwrite", "ipc": overwritten()})
		d.Do("cleanup", nil)
		for _, task := range plan.Tasks() {
			_, err := binding.Open(t.Context(), task.URI, task.Open)
			require.ErrorIs(t, err, binding.ErrVersionGone)
			_, err = distributed.RunTask(t.Context(), d.Open(0), task)
			require.ErrorIs(t, err, binding.ErrVersionGone, "another version is refused")
		}
	})
}

func overwritten() string {
	record := lab.Line(5000, 5005).Record()
	defer record.Release()
	return pylance.IPC(record)
}

// TestVersions_TasksElsewhere: a task is a plain value; another handle that opens what it names gives the same answer.
func TestVersions_TasksElsewhere(t *testing.T) {
	d := lab.Create(t, random(1, 800, 8), lab.Rows(200))
	d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}, {2}, {3}}})
	pinned := d.Open(0)
	rows := d.Live(0)
	d.Append(lab.Table{Dim: 8, IDs: []int64{9000}, Vectors: queries(2, 1, 8)})
	a := lab.Ask{Queries: queries(2, 5, 8), K: 10}
	a.Query.NProbes = 2
	a.Options.Executor = elsewhere{t}
	a.Options.TaskCredentials = true
	a.Exact(t, d, pinned, rows)
}
