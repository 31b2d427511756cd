package lab

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// Way is one way to run the same search.
type Way struct {
	Strategy distributed.Strategy
	Path     binding.Path
	MaxTasks int
}

func (w Way) String() string {
	path := "auto"
	if w.Path == binding.PathScanner {
		path = "scanner"
	}
	return fmt.Sprintf("%v-%s-%d", w.Strategy, path, w.MaxTasks)
}

// Apply puts a way into options.
func (w Way) Apply(o distributed.Options) distributed.Options {
	o.Strategy, o.Path, o.MaxTasks = w.Strategy, w.Path, w.MaxTasks
	return o
}

// Ways are the strategies, on both paths, in groups of several sizes.
func Ways() []Way {
	var ways []Way
	for _, path := range []binding.Path{binding.PathAuto, binding.PathScanner} {
		ways = append(ways, Way{distributed.Single, path, 0}, Way{distributed.Auto, path, 0})
		for _, tasks := range []int{0, 1, 2, 3, 64} {
			ways = append(ways, Way{distributed.Segments, path, tasks})
		}
		for _, tasks := range []int{0, 2} {
			ways = append(ways, Way{distributed.Queries, path, tasks}, Way{distributed.Grid, path, 2 + 2*tasks})
		}
	}
	return ways
}

// FewWays are those of Ways that differ most, for tests with many inputs.
func FewWays() []Way {
	return []Way{
		{distributed.Single, binding.PathScanner, 0},
		{distributed.Single, binding.PathAuto, 0},
		{distributed.Auto, binding.PathAuto, 0},
		{distributed.Segments, binding.PathAuto, 64},
		{distributed.Segments, binding.PathScanner, 2},
		{distributed.Queries, binding.PathAuto, 2},
		{distributed.Grid, binding.PathAuto, 4},
		{distributed.Grid, binding.PathScanner, 4},
	}
}

// Answers are the neighbours of each query.
type Answers [][]oracle.Hit

// Search runs one search and checks that its forms of result agree.
func Search(ds *binding.Dataset, q distributed.Query, o distributed.Options) (Answers, distributed.Stats, error) {
	return SearchContext(context.Background(), ds, q, o)
}

// SearchContext is Search under a context.
func SearchContext(ctx context.Context, ds *binding.Dataset, q distributed.Query, o distributed.Options) (Answers, distributed.Stats, error) {
	if q.Columns == nil {
		q.Columns = []string{"id"}
	}
	res, err := distributed.VectorSearch(ctx, ds, q, o)
	if err != nil {
		return nil, distributed.Stats{}, err
	}
	defer res.Release()
	answers, err := read(res)
	return answers, res.Stats, err
}

// read takes the answers out of the record of a result, and compares them with Neighbors.
func read(res *distributed.Result) (Answers, error) {
	record := res.Record()
	answers := make(Answers, res.Len())
	fields := record.Schema().Fields()
	for i, name := range []string{"_query_id", "_distance", "_rowid"} {
		if fields[i].Name != name {
			return nil, fmt.Errorf("column %d of the result is %q, not %q", i, fields[i].Name, name)
		}
	}
	queries := record.Column(0).(*array.Int32)
	distances := record.Column(1).(*array.Float32)
	rowIDs := record.Column(2).(*array.Uint64)
	var ids *array.Int64
	if found := record.Schema().FieldIndices("id"); len(found) > 0 {
		ids = record.Column(found[0]).(*array.Int64)
	}
	for i := range int(record.NumRows()) {
		hit := oracle.Hit{RowID: rowIDs.Value(i), Distance: float64(distances.Value(i)), ID: -1}
		if ids != nil {
			hit.ID = ids.Value(i)
		}
		q := queries.Value(i)
		if i > 0 && q < queries.Value(i-1) {
			return nil, fmt.Errorf("row %d of the result: query %d after %d", i, q, queries.Value(i-1))
		}
		answers[q] = append(answers[q], hit)
	}
	for q, hits := range answers {
		neighbors := res.Neighbors(q)
		if len(neighbors) != len(hits) {
			return nil, fmt.Errorf("query %d: %d neighbors but %d rows in the record", q, len(neighbors), len(hits))
		}
		for i, n := range neighbors {
			if n.RowID != hits[i].RowID || float64(n.Distance) != hits[i].Distance {
				return nil, fmt.Errorf("query %d: neighbor %d is %+v, the record has %+v", q, i, n, hits[i])
			}
		}
	}
	return answers, nil
}

// Each searches in each of the ways and hands every answer to check.
func Each(t *testing.T, ds *binding.Dataset, q distributed.Query, o distributed.Options, ways []Way, check func(t *testing.T, got Answers, stats distributed.Stats)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way.String(), func(t *testing.T) {
			got, stats, err := Search(ds, q, way.Apply(o))
			require.NoError(t, err)
			check(t, got, stats)
		})
	}
}

// EachFails searches in each of the ways, and hands every error to check.
func EachFails(t *testing.T, ds *binding.Dataset, q distributed.Query, o distributed.Options, ways []Way, check func(t *testing.T, err error)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way.String(), func(t *testing.T) {
			got, _, err := Search(ds, q, way.Apply(o))
			require.Error(t, err, "answered %v", got)
			check(t, err)
		})
	}
}

// QueryVectors are query vectors for the library in a type.
func QueryVectors(typ binding.ValueType, queries [][]float64, multi [][][]float64) distributed.Vectors {
	perQuery := 0
	if multi != nil {
		perQuery = len(multi[0])
		queries = nil
		for _, q := range multi {
			queries = append(queries, q...)
		}
	}
	dim := len(queries[0])
	var v distributed.Vectors
	switch typ {
	case binding.Float16:
		v = distributed.Float16(flatten(queries, oracle.HalfBits), dim)
	case binding.Float64:
		v = distributed.Float64(flatten(queries, func(x float64) float64 { return x }), dim)
	case binding.Uint8:
		v = distributed.Uint8(flatten(queries, func(x float64) byte { return byte(x) }), dim)
	default:
		v = distributed.Float32(flatten(queries, func(x float64) float32 { return float32(x) }), dim)
	}
	if multi != nil {
		v = distributed.MultiVector(v, perQuery)
	}
	return v
}

func flatten[T any](rows [][]float64, convert func(float64) T) []T {
	var out []T
	for _, row := range rows {
		for _, x := range row {
			out = append(out, convert(x))
		}
	}
	return out
}

// IDs of the hits, in order.
func IDs(hits []oracle.Hit) []int64 {
	ids := make([]int64, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	return ids
}

// Distances of the hits, in order.
func Distances(hits []oracle.Hit) []float64 {
	d := make([]float64, len(hits))
	for i, h := range hits {
		d[i] = h.Distance
	}
	return d
}

func appendValue(out []byte, typ binding.ValueType, x float64) []byte {
	switch typ {
	case binding.Float16:
		return binary.LittleEndian.AppendUint16(out, oracle.HalfBits(x))
	case binding.Float64:
		return binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
	case binding.Uint8:
		return append(out, uint8(x))
	default:
		return binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
	}
}
