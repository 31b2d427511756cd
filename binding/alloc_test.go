//go:build !asan && !race

package binding

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A warm search of a service is many small calls: what it allocates is paid on each of them.
func TestSearch_AllocatesLittle(t *testing.T) {
	d := newFake(t).openDataset(t)
	request := someSearch()
	request.Filter, request.Segments = "category = 3", []SegmentID{{1}, {2}}
	const results = 4 // Candidates and its three slices
	for name, c := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		most float64
	}{
		"background": {func() (context.Context, context.CancelFunc) { return context.Background(), func() {} }, results + 2},
		"cancellable": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Hour)
		}, results + 8},
	} {
		ctx, cancel := c.ctx()
		allocations := testing.AllocsPerRun(200, func() {
			if _, err := d.Search(ctx, request); err != nil {
				t.Fatal(err)
			}
		})
		cancel()
		t.Logf("%s: %v allocations", name, allocations)
		require.LessOrEqual(t, allocations, c.most, name)
	}
}
