package faults

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

// Filters that overflowed the native stack, which ends the process, and filters of which Lance reads only the beginning.
func TestFilter_RefusedBeforeItHarms(t *testing.T) {
	rng := lab.Rand(77)
	d := lab.Create(t, lab.Random(rng, binding.Float32, 200, 8), lab.Rows(100))
	ds := d.Open(0)
	a := lab.Ask{Queries: [][]float64{lab.RandomVector(rng, binding.Float32, 8)}, K: 5}
	for name, filter := range map[string]string{
		"plus":        "id < 0" + strings.Repeat(" + id", 2000),
		"is not true": "id < 4" + strings.Repeat(" is not true", 2000),
		"left over":   "id < 2 garbage",
		"no and":      "id < 2 id > 100",
		"closes":      "id < 2 ) or (true",
		"semicolon":   "id < 2; drop table x",
		"unknown":     "no_such_column > 1",
		"nul":         "id < 2\x00 or true",
	} {
		t.Run(name, func(t *testing.T) {
			q := a.Question(t, d)
			q.Filter = filter
			_, err := distributed.VectorSearch(t.Context(), ds, q, distributed.Options{})
			require.ErrorIs(t, err, binding.ErrInvalidArgument)
			var argument *distributed.ArgumentError
			require.ErrorAs(t, err, &argument, "planning finds it")
			require.Equal(t, "Filter", argument.Name)
			require.Less(t, len(err.Error()), 1000, "an error does not repeat the whole filter")
			_, err = ds.Delete(t.Context(), filter)
			require.ErrorIs(t, err, binding.ErrInvalidArgument)
		})
	}
	require.Equal(t, ds.Version(), d.Open(0).Version(), "nothing was deleted")
}
