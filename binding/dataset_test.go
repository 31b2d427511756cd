package binding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpen_EverythingCrosses(t *testing.T) {
	f := newFake(t)
	o := OpenOptions{
		Version: 42, Branch: "dev", StorageOptions: map[string]string{"region": "here"},
		Namespace:       &Namespace{Impl: "dir", Properties: map[string]string{"root": "/r"}, TableID: []string{"a", "b"}},
		IndexCacheBytes: 1 << 40, MetadataCacheBytes: 3,
	}
	d, err := f.open(t.Context(), "s3://bucket/table", o)
	require.NoError(t, err)
	defer d.Close()
	require.JSONEq(t, `{"uri":"s3://bucket/table","version":42,"branch":"dev","storage_options":{"region":"here"},
		"namespace":{"impl":"dir","properties":{"root":"/r"},"table_id":["a","b"]},"index_cache_bytes":1099511627776,"metadata_cache_bytes":3}`, f.last())
	require.EqualValues(t, 42, d.Version())
	require.Equal(t, "s3://bucket/table", d.URI())
	require.Equal(t, o, d.OpenOptions())

	o.StorageOptions["region"] = "changed"
	d.OpenOptions().Namespace.TableID[0] = "changed"
	require.Equal(t, "here", d.OpenOptions().StorageOptions["region"], "the caller's map is copied")
	require.Equal(t, "a", d.OpenOptions().Namespace.TableID[0])
}

func TestOpen_LatestIsPinned(t *testing.T) {
	f := newFake(t)
	d, err := f.open(t.Context(), "mem://table", OpenOptions{})
	require.NoError(t, err)
	defer d.Close()
	require.JSONEq(t, `{"uri":"mem://table"}`, f.last())
	require.Equal(t, OpenOptions{Version: 7}, d.OpenOptions())
}

func TestOpen_TagThatMoved(t *testing.T) {
	f := newFake(t)
	d, err := f.open(t.Context(), "mem://table", OpenOptions{Tag: "best"})
	require.NoError(t, err)
	defer d.Close()
	require.JSONEq(t, `{"uri":"mem://table","tag":"best"}`, f.last())
	pinned := d.OpenOptions()
	require.Equal(t, OpenOptions{Tag: "best", Version: 7}, pinned)
	same, err := f.open(t.Context(), "mem://table", pinned)
	require.NoError(t, err)
	defer same.Close()
	pinned.Version = 6
	_, err = f.open(t.Context(), "mem://table", pinned)
	require.ErrorIs(t, err, ErrVersionGone)
	require.ErrorContains(t, err, `tag "best" of "mem://table" names version 7 now, not 6`)
}

func TestOpen_Invalid(t *testing.T) {
	f := newFake(t)
	for message, o := range map[string]OpenOptions{
		"neither a uri nor a namespace": {},
		"both tag":                      {Tag: "a", Branch: "b", Namespace: &Namespace{Impl: "dir"}},
	} {
		_, err := f.open(t.Context(), "", o)
		require.ErrorIs(t, err, ErrInvalidArgument)
		require.ErrorContains(t, err, message)
	}
}

func TestOpen_MissingDatasetIsNamedAsTheCallerDoes(t *testing.T) {
	f := newFake(t)
	f.fail(int32(CodeNotFound), "Dataset at path data/t.lance was not found: Not found: data/t.lance/_versions")
	defer f.fail(0, "")
	_, err := f.open(t.Context(), "s3://u5er:passw0rd@bucket/data/t.lance", OpenOptions{Version: 3})
	require.ErrorIs(t, err, ErrNotFound)
	require.EqualError(t, err, `binding: open: no dataset is at "s3://***:***@bucket/data/t.lance"; check the location`)
	f.fail(int32(CodeNotFound), `tag "x" does not exist in the dataset (the latest version is 2)`)
	_, err = f.open(t.Context(), "/data/t.lance", OpenOptions{Tag: "x"})
	require.ErrorContains(t, err, `tag "x" does not exist`)
}

func TestCreateIndex_NothingToTrainOn(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.fail(int32(CodeInternal), "Unprocessable: KMeans cannot train 1 centroids with 0 vectors; choose a smaller K (< 0)")
	defer f.fail(0, "")
	o := IndexOptions{Column: "vec", Type: "IVF_PQ"}
	_, err := d.CreateIndex(t.Context(), o)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, `create index: column "vec" holds no vectors to train on`)
	o.Fragments = []uint32{0}
	_, err = d.CreateIndexSegment(t.Context(), o)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, `create index segment: column "vec" holds no vectors to train on`)
	f.fail(int32(CodeInternal), "Unprocessable: KMeans cannot train 256 centroids with 10 vectors; choose a smaller K (< 10)")
	_, err = d.CreateIndexSegment(t.Context(), o)
	require.ErrorContains(t, err, "choose a smaller K")
}

func TestOpen_SecretsStayOutOfErrors(t *testing.T) {
	f := newFake(t)
	options := map[string]string{
		"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": `se/cr+et"quoted"`, "aws_session_token": "AKIAEXAMPLE-and-more",
		"region": "eu-west", "aws_skip_signature": "true", "account_key": "abc",
	}
	namespace := &Namespace{Impl: "rest", Properties: map[string]string{"header.Authorization": "Bearer xyzzy"}, TableID: []string{"t"}}
	message := `403 of s3://u5er:passw0rd@host/t?sig=s1gn4ture: AKIAEXAMPLE AKIAEXAMPLE-and-more se/cr+et"quoted" se%2Fcr%2Bet%22quoted%22 {"v":"se/cr+et\"quoted\""} Bearer xyzzy eu-west true abc`
	want := `403 of s3://***:***@host/t?sig=***: *** *** *** *** {"v":"***"} *** eu-west true abc`
	uri := "s3://u5er:passw0rd@host/t?sig=s1gn4ture"
	o := OpenOptions{StorageOptions: options, Namespace: namespace}

	d, err := f.open(t.Context(), uri, o)
	require.NoError(t, err)
	defer d.Close()
	f.fail(int32(CodeIO), message)
	defer f.fail(0, "")
	_, err = f.open(t.Context(), uri, o)
	require.EqualError(t, err, "binding: open: "+want)
	_, err = d.Search(t.Context(), someSearch())
	require.EqualError(t, err, "binding: search: "+want)
	_, err = d.Schema()
	require.EqualError(t, err, "binding: schema: "+want)
	f.fail(int32(CodeAlreadyExists), message)
	_, err = f.write(t.Context(), uri, nil, WriteOptions{StorageOptions: options, Namespace: namespace})
	require.EqualError(t, err, "binding: write: "+want)

	var log bytes.Buffer
	written := WriteOptions{StorageOptions: options, Namespace: namespace}
	for _, value := range []any{d, d.OpenOptions(), written, namespace} {
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", value)
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", value)
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			fmt.Fprintf(&log, format, value)
		}
	}
	for _, secret := range []string{"AKIA", "cr+et", "xyzzy", "passw0rd", "s1gn4ture"} {
		require.NotContains(t, log.String(), secret)
	}
	require.Contains(t, log.String(), "eu-west")
	text, err := json.Marshal(d.OpenOptions())
	require.NoError(t, err)
	require.Contains(t, string(text), "AKIAEXAMPLE", "a task on another machine needs the credentials")
}

func TestRequests_Cross(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	ctx := t.Context()
	crossed := func(entry, request string) {
		t.Helper()
		got := f.recorded()
		require.Equal(t, entry, got["entry"])
		require.JSONEq(t, request, got["request"])
	}

	require.NoError(t, d.Prewarm(ctx, PrewarmOptions{Column: "vec", Index: "i", Segments: []SegmentID{{15: 1}}, Filter: "a = 1"}))
	crossed("prewarm", `{"column":"vec","index":"i","segments":["00000000-0000-0000-0000-000000000001"],"filter":"a = 1"}`)
	require.NoError(t, d.Prewarm(ctx, PrewarmOptions{}))
	crossed("prewarm", `{}`)
	require.ErrorIs(t, d.Prewarm(ctx, PrewarmOptions{Segments: []SegmentID{}}), ErrInvalidArgument)

	version, err := d.Delete(ctx, "id = 'ä'")
	require.NoError(t, err)
	require.EqualValues(t, 101, version)
	require.Equal(t, map[string]string{"entry": "delete", "request": "id = 'ä'"}, f.recorded())
	_, err = d.Delete(ctx, "")
	require.ErrorIs(t, err, ErrInvalidArgument)

	compacted, err := d.Compact(ctx, CompactOptions{TargetRowsPerFragment: 100, KeepDeletions: true, DeferIndexRemap: true})
	require.NoError(t, err)
	require.Equal(t, CompactResult{Version: 102, FragmentsRemoved: 5, FragmentsAdded: 2}, compacted)
	crossed("compact", `{"target_rows_per_fragment":100,"materialize_deletions":false,"defer_index_remap":true}`)
	_, err = d.Compact(ctx, CompactOptions{})
	require.NoError(t, err)
	crossed("compact", `{"materialize_deletions":true}`)
	_, err = d.Compact(ctx, CompactOptions{TargetRowsPerFragment: -1})
	require.ErrorIs(t, err, ErrInvalidArgument)

	options := IndexOptions{
		Column: "vec", Type: "IVF_PQ", Name: "n", Metric: Cosine, Partitions: 1, SubVectors: 2, NumBits: 3, MaxLevel: 4, M: 5, EFConstruction: 6,
		SampleRate: 7, MaxIterations: 8, Replace: true,
	}
	version, err = d.CreateIndex(ctx, options)
	require.NoError(t, err)
	require.EqualValues(t, 103, version)
	const crossedOptions = `"column":"vec","type":"IVF_PQ","name":"n","metric":"cosine","partitions":1,"sub_vectors":2,"num_bits":3,"max_level":4,"m":5,"ef_construction":6,"sample_rate":7,"max_iterations":8,"replace":true`
	crossed("index_create", `{`+crossedOptions+`}`)
	_, err = d.CreateIndex(ctx, IndexOptions{Column: "vec", Type: "IVF_SQ"})
	require.NoError(t, err)
	crossed("index_create", `{"column":"vec","type":"IVF_SQ"}`)

	_, err = d.CreateIndexSegment(ctx, options)
	require.ErrorIs(t, err, ErrInvalidArgument)
	options.Fragments = []uint32{3, 4}
	_, err = d.CreateIndex(ctx, options)
	require.ErrorIs(t, err, ErrInvalidArgument)
	segment, err := d.CreateIndexSegment(ctx, options)
	require.NoError(t, err)
	crossed("index_create_segment", `{`+crossedOptions+`,"fragments":[3,4]}`)

	carried, err := json.Marshal(segment)
	require.NoError(t, err)
	var arrived IndexSegment
	require.NoError(t, json.Unmarshal(carried, &arrived))
	version, err = d.CommitIndexSegments(ctx, "n", "vec", []IndexSegment{segment, arrived})
	require.NoError(t, err)
	require.EqualValues(t, 104, version)
	crossed("index_commit_segments", `{"name":"n","column":"vec","segments":[{"opaque":[1,2]},{"opaque":[1,2]}]}`)

	version, err = d.CreateScalarIndex(ctx, ScalarIndexOptions{Column: "category", Type: "BITMAP", Name: "c", Replace: true})
	require.NoError(t, err)
	require.EqualValues(t, 105, version)
	crossed("scalar_index_create", `{"column":"category","type":"BITMAP","name":"c","replace":true}`)

	require.NoError(t, d.Tag(ctx, "best", 12))
	crossed("tag", `{"tag":"best","version":12}`)

	for _, call := range []func() error{
		func() error { _, err := d.CreateIndex(ctx, IndexOptions{Type: "IVF_PQ"}); return err },
		func() error { _, err := d.CreateIndex(ctx, IndexOptions{Column: "v"}); return err },
		func() error {
			_, err := d.CreateIndex(ctx, IndexOptions{Column: "v", Type: "IVF_PQ", M: -1})
			return err
		},
		func() error { _, err := d.CommitIndexSegments(ctx, "", "v", []IndexSegment{segment}); return err },
		func() error { _, err := d.CommitIndexSegments(ctx, "n", "", []IndexSegment{segment}); return err },
		func() error { _, err := d.CommitIndexSegments(ctx, "n", "v", nil); return err },
		func() error { _, err := d.CommitIndexSegments(ctx, "n", "v", []IndexSegment{{}}); return err },
		func() error { _, err := d.CreateScalarIndex(ctx, ScalarIndexOptions{Type: "BTREE"}); return err },
		func() error { _, err := d.CreateScalarIndex(ctx, ScalarIndexOptions{Column: "c"}); return err },
		func() error { return d.Tag(ctx, "", 1) },
		func() error { return d.Tag(ctx, "t", 0) },
	} {
		require.ErrorIs(t, call(), ErrInvalidArgument)
	}
}
