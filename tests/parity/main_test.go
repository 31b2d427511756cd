// Package parity holds the rules of a search on the real library: every strategy and every grouping gives the rows and
// distances of brute force where the search is exact, and of Lance's own single scan where it is not.
package parity

import (
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

func TestMain(m *testing.M) { lab.Main(m) }

var scan = distributed.Options{Unindexed: distributed.Scan}

func queries(seed uint64, typ binding.ValueType, n, dim int) [][]float64 {
	rng := lab.Rand(seed)
	var out [][]float64
	for range n {
		out = append(out, lab.RandomVector(rng, typ, dim))
	}
	return out
}

// apart gives n fragments of rows, with the ids of each following those of the one before.
func apart(seed uint64, typ binding.ValueType, dim int, rows ...int) []lab.Table {
	rng := lab.Rand(seed)
	var tables []lab.Table
	from := int64(0)
	for _, n := range rows {
		t := lab.Random(rng, typ, n, dim)
		for i := range int64(n) {
			t.IDs = append(t.IDs, from+i)
		}
		from += int64(n)
		tables = append(tables, t)
	}
	return tables
}

func third(r oracle.Row) bool { return r.ID%3 == 0 }
