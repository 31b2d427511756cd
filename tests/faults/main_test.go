// Package faults holds what happens when something goes wrong around a search: versions that go, sizes beyond reason,
// credentials, leaks, many callers at once, stores and namespaces.
package faults

import (
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }

var scan = distributed.Options{Unindexed: distributed.Scan}

func random(seed uint64, rows, dim int) lab.Table {
	return lab.Random(lab.Rand(seed), binding.Float32, rows, dim)
}

func queries(seed uint64, n, dim int) [][]float64 {
	return random(seed, n, dim).Vectors
}
