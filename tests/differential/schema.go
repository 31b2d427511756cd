package differential

import (
	"fmt"
	"math/rand/v2"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

// schema is what the rows of a case look like.
type schema struct {
	lab.Table
	multi      bool
	clustered  bool
	duplicates bool
	nulls      bool
	nullCoords bool
	notFinite  bool
	pool       [][]float64 // vectors that come again
	centres    [][]float64
	next       int64 // id of the next row
}

func newSchema(rng *rand.Rand) *schema {
	s := &schema{}
	s.Dim = []int{4, 8, 12, 16, 24, 32}[rng.IntN(6)]
	s.Type = pick(rng, binding.Float32, binding.Float32, binding.Float32, binding.Float16, binding.Float64, binding.Uint8)
	s.Name = pick(rng, "vec", "vec", "vec", "My Vec", "VEC")
	if rng.IntN(5) == 0 {
		s.Name, s.Parent = pick(rng, "vec", "a.b"), pick(rng, "meta", "Meta Data")
	}
	if s.Type == binding.Float32 && rng.IntN(5) == 0 {
		s.multi, s.Name, s.Parent = true, "vec", ""
	}
	s.clustered = rng.IntN(2) == 0
	s.duplicates = rng.IntN(3) == 0
	s.nulls = rng.IntN(3) == 0
	float := s.Type != binding.Uint8 && !s.multi
	s.notFinite = float && rng.IntN(5) == 0
	s.nullCoords = float && rng.IntN(8) == 0
	for range 12 {
		s.centres = append(s.centres, lab.RandomVector(rng, s.Type, s.Dim))
		s.pool = append(s.pool, lab.RandomVector(rng, s.Type, s.Dim))
	}
	return s
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

func (s *schema) String() string {
	return fmt.Sprintf("%v x %d, column %s, multivector %v, clustered %v, duplicates %v, nulls %v, null coordinates %v, not finite %v",
		s.Type, s.Dim, s.Column(), s.multi, s.clustered, s.duplicates, s.nulls, s.nullCoords, s.notFinite)
}

// vector is a random vector, always finite.
func (s *schema) vector(rng *rand.Rand) []float64 {
	switch {
	case s.duplicates && rng.IntN(4) == 0:
		return s.pool[rng.IntN(len(s.pool))]
	case s.clustered && s.Type != binding.Uint8:
		v := make([]float64, s.Dim)
		for i, c := range s.centres[rng.IntN(len(s.centres))] {
			v[i] = c + 0.2*rng.NormFloat64()
		}
		return lab.Round(s.Type, v)
	}
	return lab.RandomVector(rng, s.Type, s.Dim)
}

// rows makes a table of n rows, with new ids or with the given ones.
func (s *schema) rows(rng *rand.Rand, n int, ids ...int64) lab.Table {
	t := s.Table
	t.IDs, t.Vectors, t.Multi, t.Category = nil, nil, nil, nil
	t.Nulls = map[[2]int]bool{}
	for i := range n {
		if len(ids) > 0 {
			t.IDs = append(t.IDs, ids[i])
		} else {
			t.IDs = append(t.IDs, s.next)
			s.next++
		}
		t.Category = append(t.Category, int32(rng.IntN(20)))
		null := s.nulls && rng.IntN(20) == 0
		if s.multi {
			var row [][]float64
			for range 1 + rng.IntN(3) {
				row = append(row, s.vector(rng))
			}
			if null {
				row = nil
			}
			t.Multi = append(t.Multi, row)
			continue
		}
		v := s.vector(rng)
		switch {
		case null:
			v = nil
		case s.notFinite && rng.IntN(25) == 0:
			v = append([]float64(nil), v...)
			v[rng.IntN(len(v))] = pick(rng, lab.NaN, lab.Inf, -lab.Inf)
		case s.nullCoords && rng.IntN(25) == 0:
			t.Nulls[[2]int{i, rng.IntN(len(v))}] = true
		}
		t.Vectors = append(t.Vectors, v)
	}
	return t
}
