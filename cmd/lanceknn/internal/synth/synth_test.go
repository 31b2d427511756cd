package synth

import (
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/stretchr/testify/require"
)

func space(t *testing.T, cfg Config) *Space {
	t.Helper()
	s, err := New(cfg)
	require.NoError(t, err)
	return s
}

// read collects a table through its reader.
func read(t *testing.T, s *Space, perFragment int) (ids []int64, categories []int32, titles []string, vectors []float32) {
	t.Helper()
	progress := 0
	r := s.Reader(perFragment, func(n int) { progress += n })
	defer r.Release()
	for r.Next() {
		rec := r.Record()
		first := len(ids)
		ids = append(ids, rec.Column(0).(*array.Int64).Int64Values()...)
		require.Equal(t, first/perFragment, (len(ids)-1)/perFragment, "a record crosses a fragment")
		categories = append(categories, rec.Column(1).(*array.Int32).Int32Values()...)
		for i := range int(rec.NumRows()) {
			titles = append(titles, rec.Column(2).(*array.String).Value(i))
		}
		vectors = append(vectors, rec.Column(3).(*array.FixedSizeList).ListValues().(*array.Float32).Float32Values()...)
	}
	require.NoError(t, r.Err())
	require.Equal(t, len(ids), progress)
	return ids, categories, titles, vectors
}

func TestReader_SameRowsWhateverTheFragments(t *testing.T) {
	s := space(t, Config{Rows: 10_000, Dim: 7, Seed: 5})
	ids, categories, titles, vectors := read(t, s, 10_000)
	require.Len(t, ids, 10_000)
	for i, id := range ids {
		require.Equal(t, int64(i), id)
	}
	require.GreaterOrEqual(t, slices.Min(categories), int32(0))
	require.Equal(t, int32(99), slices.Max(categories))
	ids2, categories2, titles2, vectors2 := read(t, s, 1234)
	require.Equal(t, ids, ids2)
	require.Equal(t, categories, categories2)
	require.Equal(t, titles, titles2)
	require.Equal(t, vectors, vectors2)
	require.Equal(t, vectors, s.Vectors(3))

	_, _, _, other := read(t, space(t, Config{Rows: 10_000, Dim: 7, Seed: 6}), 10_000)
	require.NotEqual(t, vectors[:70], other[:70])
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return sum
}

// nearest is the row that is nearest to a query.
func nearest(vectors, query []float32) int {
	best, at := math.Inf(1), 0
	for i := range len(vectors) / len(query) {
		if d := distance(vectors[i*len(query):(i+1)*len(query)], query); d < best {
			best, at = d, i
		}
	}
	return at
}

func TestSorted_ClustersFollowRows(t *testing.T) {
	const rows, dim = 20_000, 32
	halves := func(sorted bool) (near int) {
		s := space(t, Config{Rows: rows, Dim: dim, Seed: 1, Sorted: sorted})
		vectors := s.Vectors(2)
		// Rows of one cluster are neighbours: with sorted rows they lie in the same hundredth of the table.
		for i := 50; i < rows; i += 997 {
			query := slices.Clone(vectors[i*dim : (i+1)*dim])
			vectors[i*dim] = 1e6
			if j := nearest(vectors, query); abs(i-j) < rows/100 {
				near++
			}
			vectors[i*dim] = query[0]
		}
		return near
	}
	require.GreaterOrEqual(t, halves(true), 15)
	require.LessOrEqual(t, halves(false), 3)
}

func abs(n int) int { return max(n, -n) }

func TestQueries_AreNewAndNearTheRows(t *testing.T) {
	s := space(t, Config{Rows: 5000, Dim: 64, Seed: 2})
	vectors, queries := s.Vectors(2), s.Queries(20)
	require.Equal(t, queries, s.Queries(20))
	require.Equal(t, queries[:5*64], s.Queries(5))
	for i := range 20 {
		q := queries[i*64 : (i+1)*64]
		near, far := 0.0, 0.0
		row := nearest(vectors, q)
		near = distance(vectors[row*64:(row+1)*64], q)
		for j := range 50 {
			far += distance(vectors[j*64:(j+1)*64], q) / 50
		}
		require.Positive(t, near, "a query must not be a row")
		require.Less(t, near, far/2, "a query has neighbours")
	}
}

func TestNew_Refuses(t *testing.T) {
	for _, cfg := range []Config{{Rows: 0, Dim: 1}, {Rows: 1, Dim: 0}} {
		_, err := New(cfg)
		require.ErrorContains(t, err, "at least 1")
	}
}

func TestFragmentRows(t *testing.T) {
	for _, c := range []struct{ rows, n, want int }{{200_000, 8, 25_000}, {10, 3, 4}, {9, 5, 2}, {1, 1, 1}} {
		got, err := FragmentRows(c.rows, c.n)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct {
		rows, n int
		want    string
	}{{10, 6, "5 would hold"}, {3, 4, "cannot divide"}, {3, 0, "cannot divide"}} {
		_, err := FragmentRows(c.rows, c.n)
		require.ErrorContains(t, err, c.want)
	}
}
