package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/s3"
)

// TestStore_ColdSegmentsAreOpenedTogether: a first search waits for the store as often as one segment needs, not as often as all of them do.
// Segments for dot are what takes most requests to open, since rows are read to measure them, and deletions are read too.
func TestStore_ColdSegmentsAreOpenedTogether(t *testing.T) {
	const segments, delay = 24, 50 * time.Millisecond
	store := s3.Start(t, key)
	d := lab.InStore(t, store.URI("t.lance"), store.Options(key, secret), random(31, 24*60, 8), lab.Rows(60))
	groups := make([][]int, segments)
	for i := range groups {
		groups[i] = []int{i}
	}
	d.Index(lab.Index{Partitions: 2, Groups: groups, Metric: "dot"})
	d.Delete("id % 7 = 3")
	ds, rows := d.Open(0), d.Live(0)
	a := lab.Ask{Queries: queries(32, 1, 8), K: 10, Metric: oracle.Dot, Ways: lab.FewWays()[2:3]}
	a.Query.SearchEffort = lab.Ptr(1.0)

	store.Delay(delay)
	before, start := store.Requests(), time.Now()
	a.Exact(t, d, ds, rows)
	waits := int(time.Since(start) / delay)
	store.Delay(0)
	t.Logf("%d requests in the time of %d", store.Requests()-before, waits)
	require.Less(t, waits, 2*segments)

	// A cache that keeps nothing does not make it read anything twice.
	for _, bytes := range []uint64{0, 1} {
		other := lab.Open(t, d.URI, binding.OpenOptions{StorageOptions: store.Options(key, secret), IndexCacheBytes: bytes})
		before = store.Requests()
		_, err := other.Describe(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, store.Requests()-before, int64(2*segments+8), "cache of %d bytes", bytes)
	}
}

// TestStore_SegmentCutShort: a file that lost its end is a segment's defect, which Describe and errors name; the store's outage is nobody's.
func TestStore_SegmentCutShort(t *testing.T) {
	for _, file := range []string{"index.idx", "auxiliary.idx"} {
		for name, change := range map[string]func([]byte) []byte{
			"half": func(b []byte) []byte { return b[:len(b)/2] }, "a byte": func(b []byte) []byte { return b[:len(b)-1] }, "empty": func([]byte) []byte { return nil },
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				store := s3.Start(t, key)
				d := lab.InStore(t, store.URI("t.lance"), store.Options(key, secret), random(33, 600, 8), lab.Rows(300))
				d.Index(lab.Index{Partitions: 2, Groups: [][]int{{0}, {1}}})
				sound, err := d.Open(0).Describe(t.Context())
				require.NoError(t, err)
				damaged := sound.Indexes[0].Segments[1].ID
				store.Change(t, "t.lance/_indices/"+damaged.String(), "/"+file, change)

				ds := d.Open(0)
				got, err := ds.Describe(t.Context())
				require.NoError(t, err)
				for _, s := range got.Indexes[0].Segments {
					if s.ID == damaged {
						require.Contains(t, s.Problem, file+" has ")
					} else {
						require.Empty(t, s.Problem)
					}
				}
				a := lab.Ask{Queries: queries(34, 1, 8), K: 5}
				_, _, err = lab.Search(ds, a.Question(t, d), distributed.Options{})
				require.ErrorContains(t, err, damaged.String()[:8]+": cannot open it: "+file)

				later := d.Open(0)
				store.Revoke(key)
				_, err = later.Describe(t.Context())
				require.ErrorIs(t, err, binding.ErrIO)
			})
		}
	}
}
