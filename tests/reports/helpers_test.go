package reports

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

// vectors for the binding, which takes them as bytes.
func vectors(d *lab.Dataset, queries ...[]float64) binding.Vectors {
	typ := d.Table.Type
	if typ == 0 {
		typ = binding.Float32
	}
	return binding.Vectors{Data: lab.EncodeVectors(typ, queries...), Type: typ, Queries: len(queries), Dim: len(queries[0])}
}

// rowIDs of the first query.
func rowIDs(r *distributed.Result) []uint64 {
	var out []uint64
	for _, n := range r.Neighbors(0) {
		out = append(out, n.RowID)
	}
	return out
}

// plan of a question.
func plan(t *testing.T, a lab.Ask, d *lab.Dataset, ds *binding.Dataset) *distributed.Plan {
	t.Helper()
	p, err := distributed.NewPlan(t.Context(), ds, a.Question(t, d), a.Options)
	require.NoError(t, err)
	return p
}

// chosen is the index that answers a question.
func chosen(t *testing.T, a lab.Ask, d *lab.Dataset, ds *binding.Dataset) string {
	t.Helper()
	_, stats, err := lab.Search(ds, a.Question(t, d), a.Options)
	require.NoError(t, err)
	require.Contains(t, plan(t, a, d, ds).Explain(), stats.Index)
	return stats.Index
}

// scheduled are the fragments that a plan searches.
func scheduled(t *testing.T, a lab.Ask, d *lab.Dataset, ds *binding.Dataset) []uint32 {
	t.Helper()
	var fragments []uint32
	for _, task := range plan(t, a, d, ds).Tasks() {
		fragments = append(fragments, task.Fragments...)
	}
	return fragments
}

func covered(t *testing.T, s distributed.Stats, rows, live uint64) {
	t.Helper()
	require.Equal(t, [2]uint64{rows, live}, [2]uint64{s.CoveredRows, s.LiveRows}, "covered and live rows")
}

// partial checks that a result names one segment as missing, with its rows.
func partial(t *testing.T, s distributed.Stats, gone binding.Segment, rows uint64) {
	t.Helper()
	require.Len(t, s.Missing, 1)
	require.Equal(t, []binding.SegmentID{gone.ID}, s.Missing[0].Segments)
	require.Equal(t, gone.Fragments, s.Missing[0].Fragments)
	require.Equal(t, s.LiveRows-rows, s.CoveredRows)
}
