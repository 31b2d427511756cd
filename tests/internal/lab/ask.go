package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

// Ask is one search together with what the oracles need to answer it too.
type Ask struct {
	Metric  oracle.Metric // L2 when empty
	Omit    bool          // leave the metric out of the query: the index's must be taken
	Queries [][]float64
	Multi   [][][]float64 // of a multivector column, instead of Queries
	K       int
	Offset  int
	Filter  string
	Keep    func(oracle.Row) bool // what Filter means
	Lower   *float64
	Upper   *float64

	Query   distributed.Query // options beyond those above
	Options distributed.Options
	Ways    []Way            // FewWays when nil
	Tol     oracle.Tolerance // by the column's type when zero
}

func (a Ask) tolerance(d *Dataset) oracle.Tolerance {
	switch {
	case a.Tol != oracle.Tolerance{}:
		return a.Tol
	case d.Table.valueType() == binding.Float16:
		return oracle.Half
	}
	return oracle.Single
}

func (a Ask) metric() oracle.Metric { return or(a.Metric, oracle.L2) }

// Question is the query for the library.
func (a Ask) Question(t testing.TB, d *Dataset) distributed.Query {
	q := a.Query
	q.Column = or(q.Column, d.Table.Column())
	q.Vectors = d.vectors(a.Queries, a.Multi)
	q.K, q.Offset, q.Filter = a.K, a.Offset, a.Filter
	if !a.Omit {
		metric, err := binding.ParseMetric(string(a.metric()))
		require.NoError(t, err)
		q.Metric = metric
	}
	q.DistanceMin, q.DistanceMax = narrow(a.Lower), narrow(a.Upper)
	return q
}

func narrow(x *float64) *float32 {
	if x == nil {
		return nil
	}
	f := float32(*x)
	return &f
}

// vectors in the type of the column.
func (d *Dataset) vectors(queries [][]float64, multi [][][]float64) distributed.Vectors {
	return QueryVectors(d.Table.valueType(), queries, multi)
}

// Page is what the question asks for.
func (a Ask) Page() oracle.Page { return oracle.Page{Offset: a.Offset, K: a.K} }

// Ranked is the order of all rows for each query, by brute force.
func (a Ask) Ranked(d *Dataset, rows []oracle.Row) [][]oracle.Hit {
	n := max(len(a.Queries), len(a.Multi))
	ranked := make([][]oracle.Hit, n)
	for i := range ranked {
		q := oracle.Query{Metric: a.metric(), Keep: a.Keep, Lower: a.Lower, Upper: a.Upper}
		if a.Multi != nil {
			q.Multi = a.Multi[i]
		} else {
			q.Vector = Round(d.Table.valueType(), a.Queries[i])
		}
		ranked[i] = oracle.Rank(rows, q)
	}
	return ranked
}

// Exact searches in each way and compares with brute force over rows.
func (a Ask) Exact(t *testing.T, d *Dataset, ds *binding.Dataset, rows []oracle.Row) {
	t.Helper()
	ranked := a.Ranked(d, rows)
	Each(t, ds, a.Question(t, d), a.Options, a.ways(), func(t *testing.T, got Answers, _ distributed.Stats) {
		require.Len(t, got, len(ranked))
		for i := range ranked {
			require.NoError(t, oracle.CheckExact(got[i], ranked[i], a.Page(), a.tolerance(d)), "query %d", i)
		}
	})
}

// Recall searches in each way and compares with brute force over rows: true distances, and at least the given mean
// part of the neighbours.
func (a Ask) Recall(t *testing.T, d *Dataset, ds *binding.Dataset, rows []oracle.Row, least float64) {
	t.Helper()
	ranked := a.Ranked(d, rows)
	Each(t, ds, a.Question(t, d), a.Options, a.ways(), func(t *testing.T, got Answers, _ distributed.Stats) {
		require.Len(t, got, len(ranked))
		sum := 0.0
		for i := range ranked {
			require.NoError(t, oracle.CheckOrder(got[i]), "query %d", i)
			require.LessOrEqual(t, len(got[i]), a.K)
			sum += oracle.Recall(got[i], ranked[i], a.Page(), a.tolerance(d))
		}
		require.GreaterOrEqual(t, sum/float64(len(ranked)), least, "recall@%d", a.K)
	})
}

// Same searches in each way and compares with pylance's own scan of the whole dataset at the same version.
func (a Ask) Same(t *testing.T, d *Dataset, ds *binding.Dataset) {
	t.Helper()
	want, err := a.Pylance(d, ds.Version())
	require.NoError(t, err)
	a.SameAs(t, d, ds, want)
}

// SameAs is Same with the answers given.
func (a Ask) SameAs(t *testing.T, d *Dataset, ds *binding.Dataset, want Answers) {
	t.Helper()
	Each(t, ds, a.Question(t, d), a.Options, a.ways(), func(t *testing.T, got Answers, _ distributed.Stats) {
		require.Len(t, got, len(want))
		for i := range want {
			require.NoError(t, oracle.CheckSame(got[i], want[i], a.Page(), a.tolerance(d)), "query %d", i)
		}
	})
}

// Fails expects an error that is one of the targets in each way.
func (a Ask) Fails(t *testing.T, d *Dataset, ds *binding.Dataset, target error, contains ...string) {
	t.Helper()
	EachFails(t, ds, a.Question(t, d), a.Options, a.ways(), func(t *testing.T, err error) {
		if target != nil {
			require.ErrorIs(t, err, target)
		}
		for _, s := range contains {
			require.ErrorContains(t, err, s)
		}
	})
}

func (a Ask) ways() []Way {
	if a.Ways == nil {
		return FewWays()
	}
	return a.Ways
}

// Pylance answers the question with pylance's scans of the whole dataset, one for each query.
func (a Ask) Pylance(d *Dataset, version uint64) (Answers, error) {
	nearest := pylance.Args{"k": a.K + a.Offset, "use_index": !a.Query.NoIndex}
	if !a.Omit {
		nearest["metric"] = string(a.metric())
	}
	for name, value := range map[string]int{
		"nprobes": a.Query.NProbes, "minimum_nprobes": a.Query.MinNProbes, "maximum_nprobes": a.Query.MaxNProbes,
		"refine_factor": a.Query.RefineFactor, "ef": a.Query.EF, "query_parallelism": a.Query.QueryParallelism,
	} {
		if value != 0 {
			nearest[name] = value
		}
	}
	if a.Query.SearchEffort != nil {
		nearest["search_effort"] = *a.Query.SearchEffort
	}
	if a.Query.ApproxMode != binding.ApproxNormal {
		nearest["approx_mode"] = a.Query.ApproxMode.String()
	}
	if a.Lower != nil || a.Upper != nil {
		nearest["distance_range"] = []any{narrow(a.Lower), narrow(a.Upper)}
	}
	args := pylance.Args{
		"version": version, "column": or(a.Query.Column, d.Table.Column()), "id_column": "id",
		"filter": a.Filter, "prefilter": true, "nearest": nearest, "dim": d.Table.Dim,
		"value_type": d.Table.valueType().String(),
	}
	if a.Options.Unindexed == distributed.Skip {
		args["segments"] = d.Segments(version, a.Options.IndexName)
	}
	var flat [][]float64
	if a.Multi != nil {
		args["per_query"] = len(a.Multi[0])
		for _, q := range a.Multi {
			flat = append(flat, q...)
		}
	} else {
		flat = a.Queries
	}
	args["vectors"] = EncodeVectors(d.Table.valueType(), flat...)
	found, err := d.py.Nearest(d.args(args))
	if err != nil {
		return nil, err
	}
	answers := make(Answers, len(found))
	for i, f := range found {
		for j := range f.RowIDs {
			if j >= a.Offset {
				answers[i] = append(answers[i], oracle.Hit{RowID: f.RowIDs[j], ID: f.IDs[j], Distance: float64(f.Distances[j])})
			}
		}
	}
	return answers, nil
}

// Segments are the live segments of an index, to search just them. Lance's fast_search would be shorter, but leaves out
// more than rows outside the index: rows whose vector was overlaid, and rows outside a scalar index that a filter uses.
func (d *Dataset) Segments(version uint64, name string) []string {
	d.t.Helper()
	description := d.Describe(version)
	alive := map[int]bool{}
	for _, f := range description.Fragments {
		alive[f.ID] = true
	}
	ids := []string{}
	for _, index := range description.Indexes {
		if name != "" && index.Name != name || !strings.HasPrefix(index.Type, "IVF") {
			continue
		}
		for _, s := range index.Segments {
			if slices.ContainsFunc(s.Fragments, func(f int) bool { return alive[f] }) {
				ids = append(ids, s.UUID)
			}
		}
	}
	return ids
}

// Uncovered tells whether live fragments are outside every vector index.
func (d *Dataset) Uncovered(version uint64) bool {
	d.t.Helper()
	description := d.Describe(version)
	covered := map[int]bool{}
	for _, index := range description.Indexes {
		for _, s := range index.Segments {
			for _, f := range s.Fragments {
				covered[f] = covered[f] || strings.HasPrefix(index.Type, "IVF")
			}
		}
	}
	return slices.ContainsFunc(description.Fragments, func(f Fragment) bool { return !covered[f.ID] })
}

// Ptr is a pointer to a value.
func Ptr[T any](v T) *T { return &v }

// RightOrError is for what the engine itself cannot do: in each way the right answer or a typed error, never another
// answer and no panic.
func (a Ask) RightOrError(t *testing.T, d *Dataset, ds *binding.Dataset, rows []oracle.Row) {
	t.Helper()
	ranked := a.Ranked(d, rows)
	for _, way := range a.ways() {
		got, _, err := Search(ds, a.Question(t, d), way.Apply(a.Options))
		if err != nil {
			var typed *binding.Error
			require.ErrorAs(t, err, &typed, way)
			require.NotErrorIs(t, err, binding.ErrNativePanic, way)
			continue
		}
		for i := range ranked {
			require.NoError(t, oracle.CheckExact(got[i], ranked[i], a.Page(), a.tolerance(d)), "%v, query %d", way, i)
		}
	}
}
