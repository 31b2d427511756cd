package distributed

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
)

func TestCatalog_IsSharedAndGoesWithItsDescription(t *testing.T) {
	key := func() weak.Pointer[binding.Description] {
		d := &binding.Description{Fragments: []binding.Fragment{{ID: 1, PhysicalRows: 4}}, Monolithic: []string{"why"}}
		first := catalogOf(d)
		require.Same(t, first, catalogOf(d))
		runtime.KeepAlive(d)
		return weak.Make(d)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		_, held := catalogs.Load(key)
		return !held
	}, 5*time.Second, time.Millisecond)
}
