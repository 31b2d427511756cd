// Package reports turns public bug reports of the faults that a split-and-merge vector search has had elsewhere into
// tests of this library: TestReport07 is report A07, and so on. README.md lists their outcomes.
package reports

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

func TestMain(m *testing.M) { lab.Main(m) }

// scan is the policy that searches fragments no segment covers flat.
var scan = distributed.Options{Unindexed: distributed.Scan}

// skip is the policy that leaves them out.
var skip = distributed.Options{Unindexed: distributed.Skip}

// only keeps the rows with one of the ids.
func only(ids ...int64) func(oracle.Row) bool {
	set := map[int64]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return func(r oracle.Row) bool { return set[r.ID] }
}

// ask is a search for one vector, answered in every way; it checks ids and distances against values known beforehand.
func known(t *testing.T, a lab.Ask, d *lab.Dataset, version uint64, ids []int64, distances []float64) {
	t.Helper()
	rows := d.Live(version)
	ranked := a.Ranked(d, rows)
	n := min(a.K, len(ranked[0]))
	require.Equal(t, ids, lab.IDs(ranked[0][:n]), "the oracle itself")
	if distances != nil {
		require.InDeltaSlice(t, distances, lab.Distances(ranked[0][:n]), 1e-4, "the oracle itself")
	}
	ds := d.Open(version)
	a.Exact(t, d, ds, rows)
}
