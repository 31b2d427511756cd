package distributed

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

var oneQuery = Query{Column: "vec", Vectors: at(0), K: 3}

func withMetric(m binding.Metric) Query {
	q := oneQuery
	q.Metric = m
	return q
}

// twoIndexes has an L2 and a cosine index, made in either order.
func twoIndexes(cosineFirst bool) *table {
	tab := line(10, 10)
	names := []string{"v_l2", "v_cos"}
	metrics := []binding.Metric{binding.L2, binding.Cosine}
	if cosineFirst {
		names[0], names[1], metrics[0], metrics[1] = names[1], names[0], metrics[1], metrics[0]
	}
	tab.index(names[0], []uint32{0}, []uint32{1}).index(names[1], []uint32{0}, []uint32{1})
	for i := range tab.description.Indexes {
		tab.description.Indexes[i].Metric = metrics[i]
		for j := range tab.description.Indexes[i].Segments {
			tab.description.Indexes[i].Segments[j].Metric = metrics[i]
		}
	}
	return tab
}

func TestIndex_TwoOnOneColumnAreChosenByMetric(t *testing.T) {
	for _, cosineFirst := range []bool{false, true} {
		tab := twoIndexes(cosineFirst)
		for _, c := range []struct {
			asked, want binding.Metric
			index       string
		}{
			{binding.L2, binding.L2, "v_l2"},
			{binding.Cosine, binding.Cosine, "v_cos"},
			{binding.MetricUnset, binding.Cosine, "v_cos"}, // equal coverage: first by name, in any order of making
		} {
			q := withMetric(c.asked)
			q.Vectors = at(1)
			p := tab.plan(t, q, Options{})
			for _, task := range p.Tasks() {
				require.Equal(t, c.index, task.Index)
				require.Equal(t, c.want, task.Metric)
			}
		}
		p := tab.plan(t, withMetric(binding.Dot), Options{})
		require.Contains(t, p.Explain(), "index:    none: no index on \"vec\" fits")
		for _, task := range p.Tasks() {
			require.Equal(t, FlatTask, task.Kind)
			require.Equal(t, binding.Dot, task.Metric)
		}
	}
}

func TestIndex_WidestCoverageThenName(t *testing.T) {
	tab := line(10, 20, 10).index("a", []uint32{0}).index("c", []uint32{0}, []uint32{1}).index("b", []uint32{1}, []uint32{0})
	p := tab.plan(t, oneQuery, Options{Unindexed: Skip})
	require.Equal(t, "b", p.choice.layout.index.Name)

	_, err := tab.try(t.Context(), oneQuery, Options{})
	var c *CoverageError
	require.ErrorAs(t, err, &c)
	require.Equal(t, "b", c.Index)
}

func TestIndex_ExplicitNameWins(t *testing.T) {
	tab := line(10, 20, 10).index("wide", []uint32{0}, []uint32{1}).index("narrow", []uint32{0})
	p := tab.plan(t, oneQuery, Options{IndexName: "narrow", Unindexed: Skip})
	require.Equal(t, "narrow", p.choice.layout.index.Name)
	require.Equal(t, []binding.SegmentID{segmentID(2)}, p.Tasks()[0].Segments)
	require.Contains(t, p.Explain(), "chosen by name")
}

func TestIndex_EveryRejectionIsExplained(t *testing.T) {
	tab := twoIndexes(false).index("z_l2", []uint32{0}, []uint32{1})
	for metric, want := range map[binding.Metric]struct{ name, why string }{
		binding.Dot:         {"", `no index on "vec" fits: "v_l2" has metric l2; "v_cos" has metric cosine; "z_l2" has metric l2`},
		binding.Cosine:      {"v_cos", `the only one that fits: "v_l2" has metric l2; "z_l2" has metric l2`},
		binding.L2:          {"v_l2", `covers most rows of 2 that fit, or is the first of those by name; "v_cos" has metric cosine`},
		binding.MetricUnset: {"v_cos", `covers most rows of 3 that fit, or is the first of those by name`},
	} {
		q := withMetric(metric)
		q.Vectors = at(1)
		p := tab.plan(t, q, Options{})
		name, why := p.Index()
		require.Equal(t, want.name, name)
		require.Equal(t, want.why, why)
		require.Contains(t, p.Explain(), want.why+"\n")
	}
}

func TestIndex_NameThatDoesNotFit(t *testing.T) {
	tab := line(10).index("good", []uint32{0}).index("other", []uint32{0})
	tab.description.Indexes[1].FieldID = 99
	tab.description.Indexes[1].Column = "elsewhere"
	for _, c := range []struct {
		name    string
		metric  binding.Metric
		message string
	}{
		{"nope", 0, `no usable index named "nope" for column "vec": "good" (IVF_FLAT, l2, on "vec") has another name; "other" (IVF_FLAT, l2, on "elsewhere") has another name`},
		{"other", 0, "is on another column"},
		{"good", binding.Cosine, "has metric l2"},
	} {
		err := tab.planError(t, withMetric(c.metric), Options{IndexName: c.name})
		var x *IndexError
		require.ErrorAs(t, err, &x)
		require.ErrorIs(t, err, ErrIndex)
		require.Equal(t, c.name, x.Name)
		require.Len(t, x.Candidates, 2)
		for _, candidate := range x.Candidates {
			require.NotEmpty(t, candidate.Reason)
		}
		require.ErrorContains(t, err, c.message)
	}
	err := line(10).planError(t, oneQuery, Options{IndexName: "nope"})
	require.ErrorContains(t, err, "the dataset has no vector index")
}

func TestIndex_NoIndexWithANameIsRefused(t *testing.T) {
	q := oneQuery
	q.NoIndex = true
	var a *ArgumentError
	require.ErrorAs(t, line(10).index("x", []uint32{0}).planError(t, q, Options{IndexName: "x"}), &a)
}

func TestIndex_MixedMetricsRefused(t *testing.T) {
	tab := line(10, 10).index("x", []uint32{0}, []uint32{1})
	tab.description.Indexes[0].Segments[1].Metric = binding.Cosine
	for _, q := range []Query{oneQuery, withMetric(binding.L2)} {
		for _, name := range []string{"", "x"} {
			err := tab.planError(t, q, Options{IndexName: name})
			var s *SegmentError
			require.ErrorAs(t, err, &s)
			require.ErrorIs(t, err, ErrIndex)
			require.Equal(t, []binding.SegmentID{segmentID(1)}, s.Segments)
			require.ErrorContains(t, err, "metric is cosine, but that of the other segments is l2")
		}
	}
	// A segment that covers nothing alive is not searched, so its metric does not matter.
	tab = line(10, 10).index("x", []uint32{0}, []uint32{1}, []uint32{9})
	tab.description.Indexes[0].Segments[2].Metric = binding.Cosine
	tab.plan(t, oneQuery, Options{})
}

func TestIndex_SegmentWithAProblem(t *testing.T) {
	tab := line(10, 10).index("x", []uint32{0}, []uint32{1})
	tab.description.Indexes[0].Segments[1].Problem = "its file is of a version from the future"
	err := tab.planError(t, oneQuery, Options{})
	var s *SegmentError
	require.ErrorAs(t, err, &s)
	require.ErrorContains(t, err, "version from the future")
	require.Equal(t, []binding.SegmentID{segmentID(1)}, s.Segments)

	tab.index("sound", []uint32{0}, []uint32{1}).reopened()
	p := tab.plan(t, oneQuery, Options{})
	require.Equal(t, "sound", p.choice.layout.index.Name)
	require.ErrorAs(t, tab.planError(t, oneQuery, Options{IndexName: "x"}), &s)

	tab.description.Indexes[1].Segments[0].Problem = "also broken"
	var x *IndexError
	require.ErrorAs(t, tab.reopened().planError(t, oneQuery, Options{}), &x)
	require.Len(t, x.Candidates, 2)
}

func TestMetric_ResolvedOnceAndGivenToEveryTask(t *testing.T) {
	for _, m := range []binding.Metric{binding.L2, binding.Cosine, binding.Dot} {
		tab := line(10, 10, 10).index("x", []uint32{0}, []uint32{1}).metric(m)
		p := tab.plan(t, Query{Column: "vec", Vectors: at(3), K: 3}, Options{Strategy: Segments, Unindexed: Scan, Threads: 3})
		require.Len(t, p.Tasks(), 3)
		for _, task := range p.Tasks() {
			require.Equal(t, m, task.Metric, "%s", task.Kind)
			require.Equal(t, m, task.request().Metric)
		}
	}
	for _, c := range []struct {
		values binding.ValueType
		v      Vectors
		want   binding.Metric
	}{{binding.Float32, at(1), binding.L2}, {binding.Uint8, Uint8([]byte{1, 0, 0, 0}, 4), binding.Hamming}} {
		tab := line(10)
		tab.column.Type = c.values
		p := tab.plan(t, Query{Column: "vec", Vectors: c.v, K: 1}, Options{})
		require.Equal(t, c.want, p.Tasks()[0].Metric)
	}
}

func TestMetric_MustSuitTheColumn(t *testing.T) {
	var a *ArgumentError
	require.ErrorAs(t, line(10).planError(t, withMetric(binding.Hamming), Options{}), &a)
	require.Equal(t, "Metric", a.Name)
	tab := line(10)
	tab.column.Type = binding.Uint8
	for _, m := range []binding.Metric{binding.L2, binding.Cosine, binding.Dot} {
		require.ErrorAs(t, tab.planError(t, Query{Column: "vec", Vectors: Uint8(make([]byte, 4), 4), K: 1, Metric: m}, Options{}), &a)
		require.ErrorContains(t, a, "use hamming")
	}
}
