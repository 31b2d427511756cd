// Package differential compares searches of random datasets with pylance's single scan of the same version.
//
// A case is made from its seed alone. A failing one is repeated by
//
//	go test ./tests/differential -run TestDifferential -seed N
//
// and `make soak` runs thousands from a seed of its own.
package differential

import (
	"flag"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lanceknn/lanceknn/tests/internal/lab"
)

var (
	oneSeed = flag.Uint64("seed", 0, "run only the case of this seed")
	cases   = flag.Int("cases", 200, "number of cases")
	first   = flag.Uint64("first", 1, "seed of the first case; 0: by the clock")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if n, err := strconv.Atoi(os.Getenv("LANCEKNN_SOAK_CASES")); err == nil && n > 0 {
		*cases, *first = n, 0
	}
	if *first == 0 {
		*first = uint64(time.Now().UnixNano()) % 1e12
	}
	lab.Main(m)
}
