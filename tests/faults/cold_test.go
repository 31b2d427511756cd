package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
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
