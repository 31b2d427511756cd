package binding

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestSearch_EverythingCrosses(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	effort, low, high := 0.25, float32(-1.5), float32(8)
	segments := []SegmentID{{0, 1, 2, 15: 15}, {255, 15: 254}}
	request := SearchRequest{
		Column: "a.`b c`", Filter: "category = 'ü'", Segments: segments, Fragments: []uint32{7, 0, math.MaxUint32},
		Vectors: Vectors{Data: float32s(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), Type: Float32, Queries: 2, PerQuery: 2, Dim: 3},
		K:       3, RefineFactor: 4, NProbes: 5, MinNProbes: 6, MaxNProbes: 7, SearchEffort: &effort, EF: 8, DistanceMin: &low, DistanceMax: &high,
		Metric: Hamming, QueryParallelism: -1, ApproxMode: ApproxAccurate, NoIndex: true, Path: PathDirect, Probing: ProbingShared, Threads: 9,
		Bounds: []float32{0.5, float32(math.Inf(1))},
	}
	want := map[string]string{
		"column": "a.`b c`", "filter": "category = 'ü'",
		"segments":  "0001020000000000000000000000000fff0000000000000000000000000000fe",
		"fragments": "7,0,4294967295,", "bounds": "0.5,inf,",
		"value_type": "2", "vectors_per_query": "2", "query_count": "2", "dim": "3", "k": "3", "refine_factor": "4",
		"nprobes": "5", "min_nprobes": "6", "max_nprobes": "7", "search_effort": "0.25", "ef": "8", "distance_lower": "-1.5", "distance_upper": "8",
		"metric": "4", "query_parallelism": "-1", "approx_mode": "2", "use_index": "0", "path": "2", "probing": "2", "threads": "9", "reserved": "0",
		"aligned": "1",
	}
	found, err := d.Search(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, want, f.recorded())
	require.Equal(t, []uint32{0, 0, 0, 1, 1, 1}, found.Query)
	require.Equal(t, []float32{1, 2, 3, 7, 8, 9}, found.Distance)
	base := uint64(1) << 32
	require.Equal(t, []uint64{base, base + 1, base + 2, base + 3, base + 4, base + 5}, found.RowID)
	require.Equal(t, SearchStats{
		Path: PathDirect, Exact: true, Metric: Dot, SegmentsSearched: 10, PartitionsRanked: 11, PartitionsSearched: 12, BytesRead: 13, Requests: 14,
		CacheHits: 15, CacheMisses: 16, Filter: 17, Rank: 18, Search: 19, Total: 20,
	}, found.Stats)

	got, err := d.Eligibility(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, want, f.recorded())
	require.Equal(t, Eligibility{Reasons: []string{"overlay", "multivector"}}, got)
}

func TestSearch_ZeroValuesAreUnset(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	_, err := d.Search(t.Context(), SearchRequest{Column: "v", K: 1, Vectors: Vectors{Data: []byte{1, 2, 3}, Type: Uint8, Queries: 1, Dim: 3}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"column": "v", "filter": "", "segments": "", "fragments": "", "bounds": "",
		"value_type": "4", "vectors_per_query": "0", "query_count": "1", "dim": "3", "k": "1", "refine_factor": "0",
		"nprobes": "-1", "min_nprobes": "-1", "max_nprobes": "-1", "search_effort": "nan", "ef": "-1", "distance_lower": "nan", "distance_upper": "nan",
		"metric": "0", "query_parallelism": "0", "approx_mode": "0", "use_index": "1", "path": "0", "probing": "0", "threads": "0", "reserved": "0",
		"aligned": f.recorded()["aligned"],
	}, f.recorded())
}

func TestSearch_NothingFound(t *testing.T) {
	d := newFake(t).openDataset(t)
	request := someSearch()
	request.K = 999
	found, err := d.Search(t.Context(), request)
	require.NoError(t, err)
	require.Empty(t, found.Query)
	require.Empty(t, found.Distance)
	require.Empty(t, found.RowID)
}

func TestSearch_UnalignedVectorsAreReadRight(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	values := float32s(1, 2, 10, 20)
	shifted := append(make([]byte, 1, 1+len(values)), values...)[1:]
	request := someSearch()
	request.Vectors.Data = shifted
	found, err := d.Search(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 10, 11}, found.Distance)
	require.Equal(t, "1", f.recorded()["aligned"])
}

func TestSearch_InvalidRequests(t *testing.T) {
	d := newFake(t).openDataset(t)
	nan, nan32 := math.NaN(), float32(math.NaN())
	for message, change := range map[string]func(*SearchRequest){
		"column is empty":                      func(r *SearchRequest) { r.Column = "" },
		"k is 0":                               func(r *SearchRequest) { r.K = 0 },
		"k is -1":                              func(r *SearchRequest) { r.K = -1 },
		"segments is empty":                    func(r *SearchRequest) { r.Segments = []SegmentID{} },
		"fragments is empty":                   func(r *SearchRequest) { r.Fragments = []uint32{} },
		"nprobes is -2":                        func(r *SearchRequest) { r.NProbes = -2 },
		"minimum nprobes is -2":                func(r *SearchRequest) { r.MinNProbes = -2 },
		"maximum nprobes is -2":                func(r *SearchRequest) { r.MaxNProbes = -2 },
		"ef is -1":                             func(r *SearchRequest) { r.EF = -1 },
		"refine factor is -1":                  func(r *SearchRequest) { r.RefineFactor = -1 },
		"threads is -1":                        func(r *SearchRequest) { r.Threads = -1 },
		"threads is 4294967296":                func(r *SearchRequest) { r.Threads = 1 << 32 },
		"query parallelism is 4294967296":      func(r *SearchRequest) { r.QueryParallelism = 1 << 32 },
		"search effort is NaN":                 func(r *SearchRequest) { r.SearchEffort = &nan },
		"a bound of the distance range is NaN": func(r *SearchRequest) { r.DistanceMax = &nan32 },
		"1 bounds for 2 queries":               func(r *SearchRequest) { r.Bounds = []float32{1} },
		"bound of query 1 is NaN":              func(r *SearchRequest) { r.Bounds = []float32{1, nan32} },
		"unknown value type 0":                 func(r *SearchRequest) { r.Vectors.Type = 0 },
		"number of queries is 0":               func(r *SearchRequest) { r.Vectors.Queries = 0 },
		"dimension 0":                          func(r *SearchRequest) { r.Vectors.Dim = 0 },
		"vectors per query is -1":              func(r *SearchRequest) { r.Vectors.PerQuery = -1 },
		"have 16 bytes; shape 2 x 1 x 3 of float32 needs 24": func(r *SearchRequest) { r.Vectors.Dim = 3 },
		"have 16 bytes; shape 2 x 3 x 2 of float32 needs 48": func(r *SearchRequest) { r.Vectors.PerQuery = 3 },
		"too large": func(r *SearchRequest) { r.Vectors.Queries, r.Vectors.Dim = math.MaxInt, math.MaxInt },
	} {
		request := someSearch()
		change(&request)
		_, err := d.Search(t.Context(), request)
		require.ErrorIs(t, err, ErrInvalidArgument, message)
		require.ErrorContains(t, err, message)
	}
}

func TestEligibility_NeedsNoVectors(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	got, err := d.Eligibility(t.Context(), SearchRequest{Column: "vec", K: 1, Vectors: Vectors{Type: Float32, Queries: 64, Dim: 128}})
	require.NoError(t, err)
	require.True(t, got.Direct)
	require.Equal(t, "64", f.recorded()["query_count"])
}

func TestCheckFilter_IsASearchForNoQuery(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	require.NoError(t, d.CheckFilter(t.Context(), "vec", "id < 1"))
	got := f.recorded()
	require.Equal(t, "id < 1", got["filter"])
	require.Equal(t, "0", got["query_count"])
	require.Equal(t, "1", got["k"])
	f.fail(int32(CodeInvalidArgument), "filter: no")
	defer f.fail(0, "")
	require.EqualError(t, d.CheckFilter(t.Context(), "vec", "id <"), "binding: check filter: filter: no")
}

func TestSearch_Concurrent(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range 100 {
				first := float32(100*g + i)
				found, err := d.Search(ctx, SearchRequest{Column: "vec", K: 2, Vectors: Vectors{Data: float32s(first), Type: Float32, Queries: 1, Dim: 1}})
				if err != nil || found.Distance[0] != first || found.Distance[1] != first+1 {
					t.Errorf("query %v: %v, %v", first, found, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestErrors_AreMapped(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	for code := CodeInvalidArgument; code <= CodeAlreadyExists; code++ {
		message := fmt.Sprintf("native message %d", code)
		f.fail(int32(code), message)
		_, err := d.Search(t.Context(), someSearch())
		var typed *Error
		require.ErrorAs(t, err, &typed)
		require.Equal(t, Error{Op: "search", Code: code, Message: message}, *typed)
		if code != CodeCancelled {
			require.ErrorIs(t, err, sentinels[code])
		}
	}
	f.fail(int32(CodeIO), "")
	_, err := d.Refine(t.Context(), RefineRequest{Column: "v", Metric: L2, Vectors: someSearch().Vectors})
	require.ErrorIs(t, err, ErrIO)
	f.fail(0, "")
}

func TestRefine(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	request := RefineRequest{Column: "vec", Metric: Cosine, Vectors: someSearch().Vectors, Query: []uint32{1, 0, 1}, RowID: []uint64{5, 6, 404}}
	got, err := d.Refine(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, []float32{1015, 7}, got[:2])
	require.True(t, isNaN(got[2]))
	require.Equal(t, map[string]string{
		"column": "vec", "metric": "2", "value_type": "2", "vectors_per_query": "0", "query_count": "2", "dim": "2", "len": "3",
	}, f.recorded())

	for message, change := range map[string]func(*RefineRequest){
		"column is empty":                    func(r *RefineRequest) { r.Column = "" },
		"metric is not set":                  func(r *RefineRequest) { r.Metric = MetricUnset },
		"3 queries for 2 row ids":            func(r *RefineRequest) { r.RowID = r.RowID[:2] },
		"pair 1 names query 2 of 2":          func(r *RefineRequest) { r.Query = []uint32{0, 2, 0} },
		"pair 0 names query 4294967295 of 2": func(r *RefineRequest) { r.Query = []uint32{math.MaxUint32, 0, 0} },
		"number of queries is 0":             func(r *RefineRequest) { r.Vectors.Queries = 0 },
	} {
		bad := request
		change(&bad)
		_, err := d.Refine(t.Context(), bad)
		require.ErrorIs(t, err, ErrInvalidArgument, message)
		require.ErrorContains(t, err, message)
	}
}

func TestVectors_Slice(t *testing.T) {
	v := Vectors{Data: float32s(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), Type: Float32, Queries: 3, PerQuery: 2, Dim: 2}
	s := v.Slice(1, 3)
	require.Equal(t, Vectors{Data: float32s(4, 5, 6, 7, 8, 9, 10, 11), Type: Float32, Queries: 2, PerQuery: 2, Dim: 2}, s)
	require.Same(t, &v.Data[16], unsafe.SliceData(s.Data))
	require.NoError(t, s.validate("x"))
	require.Equal(t, 0, v.Slice(3, 3).Queries)
	for _, r := range [][2]int{{-1, 1}, {2, 1}, {0, 4}} {
		require.Panics(t, func() { v.Slice(r[0], r[1]) })
	}
}

func BenchmarkSearch(b *testing.B) {
	d := newFake(b).openDataset(b)
	request := someSearch()
	b.Run("background", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Search(context.Background(), request); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cancellable", func(b *testing.B) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Search(ctx, request); err != nil {
				b.Fatal(err)
			}
		}
	})
}
