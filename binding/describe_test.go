package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func collect() { runtime.GC() }

func TestDescribe(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	got, err := d.Describe(t.Context())
	require.NoError(t, err)
	first, err := ParseSegmentID("00112233-4455-6677-8899-AABBCCDDEEFF")
	require.NoError(t, err)
	last, err := ParseSegmentID("ffffffff-ffff-ffff-ffff-ffffffffffff")
	require.NoError(t, err)
	require.Equal(t, &Description{
		URI: "mem", Version: 7, StableRowIDs: true,
		Fragments: []Fragment{{ID: 2, PhysicalRows: 10}, {ID: 4, PhysicalRows: 20, DeletedRows: 5}},
		Indexes: []VectorIndex{{
			Name: "vec_idx", Column: "vec", FieldID: 3, Type: "IVF_PQ", Metric: Cosine,
			Segments: []Segment{
				{ID: first, Fragments: []uint32{2, 9}, Type: "IVF_PQ", Metric: Cosine, Partitions: 16, DatasetVersion: 5},
				{ID: last, NoBitmap: true, Type: "IVF_PQ", Metric: Cosine, Partitions: 8, DatasetVersion: 6, Problem: "old"},
			},
		}},
		OtherIndexes: []ScalarIndex{{Name: "c", Column: "category", Type: "BTREE"}},
		Monolithic:   []string{"reuse"},
	}, got)
	require.EqualValues(t, 15, got.Fragments[1].LiveRows())

	again, err := d.Describe(t.Context())
	require.NoError(t, err)
	require.Same(t, got, again)
	require.EqualValues(t, 1, f.describes())
}

func TestDescribe_IsSharedWhileInFlight(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.block(1)
	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := d.Describe(impatient)
		left <- err
	}()
	f.awaitBlocked(t, 1)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := d.Describe(t.Context())
			if err != nil || got.Version != 7 {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	require.Eventually(t, func() bool {
		d.description.lock.Lock()
		defer d.description.lock.Unlock()
		return d.description.run.waiting == 9
	}, 10*time.Second, time.Millisecond)
	leave()
	require.ErrorIs(t, <-left, context.Canceled)
	require.EqualValues(t, 1, f.blocked(), "one that leaves must not stop the work of the others")
	f.block(0)
	group.Wait()
	require.EqualValues(t, 1, f.describes())
}

func TestDescribe_StopsWhenNobodyWaits(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.block(1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := d.Describe(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, f.blocked())
	f.block(0)
	_, err = d.Describe(t.Context())
	require.NoError(t, err, "the next one starts anew")
}

func TestDescribe_FailureIsNotKept(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	f.fail(int32(CodeIO), "disk")
	_, err := d.Describe(t.Context())
	require.ErrorIs(t, err, ErrIO)
	f.fail(0, "")
	_, err = d.Describe(t.Context())
	require.NoError(t, err)
}

func TestColumn(t *testing.T) {
	f := newFake(t)
	d := f.openDataset(t)
	for range 3 {
		got, err := d.Column(t.Context(), "vec")
		require.NoError(t, err)
		require.Equal(t, ColumnInfo{FieldID: 3, Path: "vec", Type: Float16, Dim: 128, Multivector: true}, got)
	}
	require.EqualValues(t, 1, f.describes())
	for i := range 5 {
		_, err := d.Column(t.Context(), fmt.Sprintf("no %d", i))
		require.ErrorIs(t, err, ErrNotFound)
	}
	known := 0
	d.columns.Range(func(any, any) bool { known++; return true })
	require.Equal(t, 1, known, "wrong names are not kept")
	_, err := d.Column(t.Context(), "")
	require.ErrorIs(t, err, ErrInvalidArgument)
}

func TestSegmentID(t *testing.T) {
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	id, err := ParseSegmentID(text)
	require.NoError(t, err)
	require.Equal(t, SegmentID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}, id)
	require.Equal(t, text, id.String())
	encoded, err := json.Marshal([]SegmentID{id})
	require.NoError(t, err)
	require.Equal(t, `["`+text+`"]`, string(encoded))
	for _, bad := range []string{
		"", "00112233445566778899aabbccddeeff", text + "0", "0011223-34455-6677-8899-aabbccddeeff", "g" + text[1:], "00112233-4455-6677-8899-aabbccddee-f",
	} {
		_, err := ParseSegmentID(bad)
		require.ErrorIs(t, err, ErrInvalidArgument, bad)
		require.ErrorContains(t, err, fmt.Sprintf("%q", bad))
	}
}

func TestNames_RoundTrip(t *testing.T) {
	for _, m := range []Metric{MetricUnset, L2, Cosine, Dot, Hamming} {
		got, err := ParseMetric(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	require.Empty(t, MetricUnset.String())
	require.Equal(t, "hamming", Hamming.String())
	_, err := ParseMetric("euclid")
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.ErrorContains(t, err, `unknown metric "euclid"; known are [l2 cosine dot hamming]`)
	require.Equal(t, "metric(9)", Metric(9).String())
	for _, m := range []ApproxMode{ApproxNormal, ApproxFast, ApproxAccurate} {
		got, err := ParseApproxMode(m.String())
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
	sizes := map[ValueType]int{Float16: 2, Float32: 4, Float64: 8, Uint8: 1, 0: 0, 7: 0}
	for valueType, size := range sizes {
		require.Equal(t, size, valueType.Size())
	}
}
