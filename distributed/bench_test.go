package distributed

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// instant answers every search at once with k candidates a query, so that what is measured is this package.
type instant struct{ *table }

func (f instant) Search(_ context.Context, r binding.SearchRequest) (*binding.Candidates, error) {
	n := r.Vectors.Queries * r.K
	c := &binding.Candidates{Query: make([]uint32, n), Distance: make([]float32, n), RowID: make([]uint64, n)}
	seed := uint64(0)
	for _, id := range r.Segments {
		seed = seed*31 + uint64(id[3])
	}
	for i := range n {
		c.Query[i], c.Distance[i], c.RowID[i] = uint32(i/r.K), float32(i%r.K)+float32(seed%7)/8, seed<<32|uint64(i%r.K)
	}
	return c, nil
}

func manySegments(n int) *table {
	sizes, segments := make([]int, n), make([][]uint32, n)
	for i := range n {
		sizes[i], segments[i] = 100, []uint32{uint32(i)}
	}
	tab := line(sizes...).index("x", segments...)
	tab.direct = true
	return tab
}

var benchQuery = Query{Column: "vec", Vectors: at(1), K: 10}

// The whole of a warm query but for the native call, the plan included.
func TestSearch_AllocatesLittle(t *testing.T) {
	for _, c := range []struct {
		o    Options
		most float64
	}{
		{Options{Threads: 4}, 30},
		{Options{Threads: 4, Strategy: Single}, 30},
		{Options{Threads: 4, Strategy: Segments, MaxTasks: 8}, 60},
	} {
		tab := manySegments(8)
		run := func() {
			p, err := newPlan(context.Background(), instant{tab}, benchQuery, c.o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Execute(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Neighbors(0)) != 10 {
				t.Fatal("wrong answer")
			}
			r.Release()
		}
		run()
		allocations := testing.AllocsPerRun(50, run)
		t.Logf("%s: %v allocations", c.o.Strategy, allocations)
		if !raceEnabled {
			require.LessOrEqual(t, allocations, c.most)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, segments := range []int{8, 512} {
		for _, s := range []Strategy{Auto, Segments} {
			for _, queries := range []int{1, 64} {
				b.Run(fmt.Sprintf("segments=%d/strategy=%s/queries=%d", segments, s, queries), func(b *testing.B) {
					tab := manySegments(segments)
					q := Query{Column: "vec", Vectors: Float32(make([]float32, 4*queries), 4), K: 10}
					o := Options{Threads: 4, Strategy: s, MaxTasks: 8}
					b.ReportAllocs()
					for b.Loop() {
						p, err := newPlan(context.Background(), instant{tab}, q, o)
						if err != nil {
							b.Fatal(err)
						}
						r, err := p.Execute(context.Background())
						if err != nil {
							b.Fatal(err)
						}
						r.Release()
					}
				})
			}
		}
	}
}

func BenchmarkNewCatalog(b *testing.B) {
	for _, segments := range []int{8, 512} {
		b.Run(fmt.Sprintf("segments=%d", segments), func(b *testing.B) {
			tab := manySegments(segments)
			for b.Loop() {
				newCatalog(&tab.description)
			}
		})
	}
}

func BenchmarkCopyVectors(b *testing.B) {
	v := Float32(make([]float32, 64*768), 768)
	column := columnOf(binding.Float32, 768, false)
	b.SetBytes(64 * 768 * 4)
	for b.Loop() {
		if _, err := v.copyFor(column); err != nil {
			b.Fatal(err)
		}
	}
}
