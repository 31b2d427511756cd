package distributed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

// factory builds segments in name only.
type factory struct {
	*table
	fail    func(binding.IndexOptions) error
	lock    sync.Mutex
	built   []binding.IndexOptions
	now     int
	most    int
	name    string
	commits []string
}

func (f *factory) CreateIndexSegment(ctx context.Context, o binding.IndexOptions) (binding.IndexSegment, error) {
	f.lock.Lock()
	f.built = append(f.built, o)
	f.now++
	f.most = max(f.most, f.now)
	f.lock.Unlock()
	defer func() { f.lock.Lock(); f.now--; f.lock.Unlock() }()
	time.Sleep(time.Millisecond)
	if f.fail != nil {
		if err := f.fail(o); err != nil {
			return binding.IndexSegment{}, err
		}
	}
	if ctx.Err() != nil {
		return binding.IndexSegment{}, ctx.Err()
	}
	var s binding.IndexSegment
	return s, s.UnmarshalJSON(fmt.Appendf(nil, `{"first":%d}`, o.Fragments[0]))
}

func (f *factory) CommitIndexSegments(_ context.Context, name, column string, segments []binding.IndexSegment) (uint64, error) {
	f.name = name + " on " + column
	for _, s := range segments {
		text, err := json.Marshal(s)
		if err != nil {
			return 0, err
		}
		f.commits = append(f.commits, string(text))
	}
	return f.Version() + 1, nil
}

func (f *factory) groups() [][]uint32 {
	var groups [][]uint32
	for _, o := range f.built {
		groups = append(groups, o.Fragments)
	}
	slices.SortFunc(groups, func(a, b []uint32) int { return int(a[0]) - int(b[0]) })
	return groups
}

func TestBuildIndex(t *testing.T) {
	f := &factory{table: line(10, 10, 10, 10, 0, 10, 10).delete(3)}
	version, err := buildIndex(t.Context(), f, BuildOptions{
		Column: "vec", Type: "IVF_PQ", Metric: binding.Cosine, Partitions: 7, SubVectors: 2, Segments: 3, Parallelism: 2,
	})
	require.NoError(t, err)
	require.Equal(t, uint64(43), version)
	require.Equal(t, [][]uint32{{0, 1}, {2, 5}, {6}}, f.groups(), "runs of fragments with live rows")
	require.LessOrEqual(t, f.most, 2)
	require.Equal(t, "vec_idx on vec", f.name)
	require.Equal(t, []string{`{"first":0}`, `{"first":2}`, `{"first":6}`}, f.commits)
	for _, o := range f.built {
		require.Equal(t, binding.IndexOptions{Column: "vec", Name: "vec_idx", Type: "IVF_PQ", Metric: binding.Cosine, Partitions: 7, SubVectors: 2, Fragments: o.Fragments}, o)
	}
}

func TestBuildIndex_GroupsAreRunsOfAboutEqualRows(t *testing.T) {
	for _, c := range []struct {
		rows []int
		n    int
		want [][]uint32
	}{
		{[]int{5, 5, 5, 5}, 0, [][]uint32{{0, 1, 2, 3}}},
		{[]int{5, 5, 5, 5}, 2, [][]uint32{{0, 1}, {2, 3}}},
		{[]int{5, 5, 5, 5}, 4, [][]uint32{{0}, {1}, {2}, {3}}},
		{[]int{100, 1, 1, 1}, 2, [][]uint32{{0}, {1, 2, 3}}},
		{[]int{1, 1, 1, 100}, 3, [][]uint32{{0, 1}, {2}, {3}}},
		{[]int{1, 1, 1, 100}, 4, [][]uint32{{0}, {1}, {2}, {3}}},
		{[]int{30, 10, 20, 20, 10, 30}, 3, [][]uint32{{0, 1}, {2, 3}, {4, 5}}},
	} {
		o := BuildOptions{Segments: c.n}
		groups, err := o.groups(liveFragments(line(c.rows...).description.Fragments))
		require.NoError(t, err)
		require.Equal(t, c.want, groups, "%v in %d", c.rows, c.n)
	}
}

// Every cut of a few fragments into runs, tried.
func TestBuildIndex_NoCutHasAShorterLongestRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 300 {
		rows := make([]int, 1+rng.IntN(9))
		for i := range rows {
			rows[i] = 1 + rng.IntN(30)
		}
		n := 1 + rng.IntN(len(rows))
		shortest := math.MaxInt
		for cuts := range 1 << (len(rows) - 1) {
			if bits.OnesCount(uint(cuts)) != n-1 {
				continue
			}
			longest, run := 0, 0
			for i, r := range rows {
				run += r
				longest = max(longest, run)
				if cuts>>i&1 == 1 {
					run = 0
				}
			}
			shortest = min(shortest, longest)
		}
		o := BuildOptions{Segments: n}
		groups, err := o.groups(liveFragments(line(rows...).description.Fragments))
		require.NoError(t, err)
		require.Len(t, groups, n)
		longest := 0
		for _, g := range groups {
			run := 0
			for _, id := range g {
				run += rows[id]
			}
			longest = max(longest, run)
		}
		require.Equal(t, shortest, longest, "%v in %d: %v", rows, n, groups)
		require.Len(t, slices.Concat(groups...), len(rows))
	}
}

func TestBuildIndex_Refusals(t *testing.T) {
	for name, c := range map[string]struct {
		tab *table
		o   BuildOptions
		is  error
		msg string
	}{
		"no column":        {line(5), BuildOptions{Type: "IVF_PQ"}, nil, "no vector column"},
		"no type":          {line(5), BuildOptions{Column: "vec"}, nil, "no index type"},
		"unknown column":   {line(5), BuildOptions{Column: "nope", Type: "IVF_PQ"}, binding.ErrNotFound, "nope"},
		"too many":         {line(5, 5, 0), BuildOptions{Column: "vec", Type: "IVF_PQ", Segments: 3}, nil, "3 segments need as many fragments with live rows, and there are 2"},
		"empty":            {line(0), BuildOptions{Column: "vec", Type: "IVF_PQ"}, nil, "dataset: it has no live rows"},
		"deleted":          {line(5).delete(0), BuildOptions{Column: "vec", Type: "IVF_PQ", Segments: 2}, nil, "dataset: it has no live rows"},
		"negative":         {line(5), BuildOptions{Column: "vec", Type: "IVF_PQ", Segments: -1}, nil, "is negative"},
		"negative at once": {line(5), BuildOptions{Column: "vec", Type: "IVF_PQ", Parallelism: -1}, nil, "is negative"},
		"metric":           {line(5), BuildOptions{Column: "vec", Type: "IVF_PQ", Metric: 9}, nil, "unknown metric"},
		"name taken":       {line(5).index("vec_idx", []uint32{0}), BuildOptions{Column: "vec", Type: "IVF_PQ"}, binding.ErrAlreadyExists, "vec_idx"},
	} {
		t.Run(name, func(t *testing.T) {
			c.tab.column.Dim = 4
			f := &factory{table: c.tab}
			_, err := buildIndex(t.Context(), f, c.o)
			var a *ArgumentError
			require.ErrorAs(t, err, &a)
			require.ErrorContains(t, err, c.msg)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.Empty(t, f.built)
		})
	}
	f := &factory{table: line(5).index("vec_idx", []uint32{0})}
	_, err := buildIndex(t.Context(), f, BuildOptions{Column: "vec", Type: "IVF_PQ", Replace: true})
	require.NoError(t, err)
	_, err = BuildIndex(t.Context(), nil, BuildOptions{})
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
}

func TestBuildIndex_FailureCommitsNothing(t *testing.T) {
	broken := errors.New("out of disk")
	f := &factory{table: line(5, 5, 5)}
	f.fail = func(o binding.IndexOptions) error {
		if o.Fragments[0] == 1 {
			return broken
		}
		return nil
	}
	_, err := buildIndex(t.Context(), f, BuildOptions{Column: "vec", Type: "IVF_PQ", Segments: 3})
	var s *SegmentBuildError
	require.ErrorAs(t, err, &s)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, s.Segment)
	require.Equal(t, []uint32{1}, s.Fragments)
	require.Empty(t, f.commits)

	ctx, cancel := context.WithCancel(t.Context())
	f.fail = func(binding.IndexOptions) error { cancel(); return nil }
	_, err = buildIndex(ctx, f, BuildOptions{Column: "vec", Type: "IVF_PQ", Segments: 3})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, f.commits)
	_, err = buildIndex(ctx, f, BuildOptions{Column: "vec", Type: "IVF_PQ"})
	require.ErrorIs(t, err, context.Canceled)
}
