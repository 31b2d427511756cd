package faults

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

// TestOpen_MissingDataset pins the words of Lance that the binding puts its own in place of.
func TestOpen_MissingDataset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.lance")
	for _, uri := range []string{path, "file://" + path, "memory://bucket/absent.lance"} {
		for _, o := range []binding.OpenOptions{{}, {Version: 3}, {Tag: "v"}, {Branch: "b"}} {
			_, err := binding.Open(t.Context(), uri, o)
			require.ErrorIs(t, err, binding.ErrNotFound)
			require.ErrorContains(t, err, "no dataset is at "+strconv.Quote(uri), "%v", o)
		}
	}
}

func TestBuild_NothingToTrainOn(t *testing.T) {
	d := lab.Create(t, lab.Table{Dim: 8, Vectors: make([][]float64, 300)})
	build := func(kind string) error {
		_, err := distributed.BuildIndex(t.Context(), d.Open(0), distributed.BuildOptions{Column: "vec", Type: kind})
		return err
	}
	for _, kind := range []string{"IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ"} {
		err := build(kind)
		var segment *distributed.SegmentBuildError
		require.ErrorAs(t, err, &segment)
		require.ErrorIs(t, err, binding.ErrInvalidArgument)
		require.ErrorContains(t, err, `column "vec" holds no vectors to train on`, kind)
	}
	for _, kind := range []string{"IVF_PQ", "IVF_HNSW_PQ"} {
		require.ErrorContains(t, build(kind), "fragments [0] hold too few vectors to train", kind)
	}
	_, err := d.Open(0).CreateIndex(t.Context(), binding.IndexOptions{Column: "vec", Type: "IVF_FLAT"})
	require.ErrorIs(t, err, binding.ErrInvalidArgument)
	require.ErrorContains(t, err, `column "vec" holds no vectors to train on`)

	d.Delete("true")
	require.ErrorContains(t, build("IVF_FLAT"), "dataset: it has no live rows")
}
