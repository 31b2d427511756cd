package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/distributed"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
)

// tally counts what was compared, so that a run that compares nothing does not pass unnoticed.
type tally struct {
	same, exact, recalled, refused, searches int
	ours, theirs                             float64 // recall, summed
}

func TestDifferential(t *testing.T) {
	seeds := make([]uint64, 0, *cases)
	for i := range *cases {
		seeds = append(seeds, *first+uint64(i))
	}
	if *oneSeed != 0 {
		seeds = []uint64{*oneSeed}
	}
	t.Logf("seeds %d to %d", seeds[0], seeds[len(seeds)-1])
	count := &tally{}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { runCase(t, seed, count) })
	}
	t.Logf("%d searches: %d answers equal to pylance's, %d of them also to brute force; %d compared by recall, mean %.3f, pylance's %.3f; %d refused by both",
		count.searches, count.same, count.exact, count.recalled, count.ours/float64(max(1, count.recalled)), count.theirs/float64(max(1, count.recalled)), count.refused)
	if *oneSeed == 0 && *cases >= 100 && !t.Failed() {
		require.Greater(t, count.same, 10**cases)
		require.Greater(t, count.exact, 3**cases)
		require.GreaterOrEqual(t, count.ours, 0.97*count.theirs, "recall where the probes are chosen by default")
	}
}

func runCase(t *testing.T, seed uint64, count *tally) {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(t, rng)
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./tests/differential -run TestDifferential -seed %d\nhistory:%v", seed, h)
		}
	}()
	version := uint64(0)
	if rng.IntN(4) == 0 {
		version = h.at(pick(rng, h.snapshots...))
	}
	ds, rows := h.data.Open(version), h.data.Live(version)
	if len(rows) == 0 {
		t.Skip("no row is left")
	}
	for range 3 {
		a := h.question(rng, rows)
		compare(t, h, ds, rows, a, count)
	}
}

// exactAnswers tells whether every distance of the search is exact and every partition is read.
func (h *history) exactAnswers(a lab.Ask) bool {
	if h.schema.notFinite || h.schema.nullCoords || a.Options.Unindexed == distributed.Skip {
		return false // an index leaves such rows out, a flat scan does not
	}
	if h.index == nil || a.Query.NoIndex || a.Metric != h.index.Metric {
		return true
	}
	all := a.Query.NProbes >= h.partitions || a.Query.MinNProbes >= h.partitions || a.Query.SearchEffort != nil && *a.Query.SearchEffort == 1
	return all && h.index.Type == "IVF_FLAT" && !h.schema.multi
}

func compare(t *testing.T, h *history, ds *binding.Dataset, rows []oracle.Row, a lab.Ask, count *tally) {
	t.Helper()
	want, theirs := h.pylance(a, ds.Version())
	ranked := a.Ranked(h.data, rows)
	exact := h.exactAnswers(a)
	ambiguous := theirs == nil && h.ambiguous(a, ds.Version())
	for _, way := range lab.FewWays() {
		got, _, err := lab.Search(ds, a.Question(t, h.data), way.Apply(a.Options))
		say := func(format string, args ...any) string {
			return fmt.Sprintf("%v: %s\n%s", way, fmt.Sprintf(format, args...), describe(a))
		}
		count.searches++
		if err != nil {
			require.Error(t, theirs, say("pylance answers %v, the library says: %v", want, err))
			var typed *binding.Error
			require.True(t, errors.As(err, &typed) || errors.Is(err, distributed.ErrIndex) || errors.Is(err, binding.ErrInvalidArgument), say("untyped error %v", err))
			require.NotErrorIs(t, err, binding.ErrNativePanic, say(""))
			count.refused++
			continue
		}
		require.NoError(t, live(got, rows), say(""))
		if exact {
			for i := range ranked {
				require.NoError(t, oracle.CheckExact(got[i], ranked[i], a.Page(), h.tolerance()), say("query %d against brute force", i))
			}
			count.exact++
		}
		if theirs != nil { // then the answer must be right all the same, judged by brute force where it is exact
			require.True(t, exact, say("pylance says: %v", theirs))
			continue
		}
		if chosenProbes(a) || ambiguous || h.ghosts {
			for i := range ranked {
				require.NoError(t, oracle.CheckOrder(got[i]), say("query %d", i))
				count.ours += oracle.Recall(got[i], ranked[i], a.Page(), h.tolerance())
				count.theirs += oracle.Recall(want[i], ranked[i], a.Page(), h.tolerance())
				count.recalled++
			}
			continue
		}
		for i := range want {
			require.NoError(t, oracle.CheckSame(got[i], want[i], a.Page(), h.tolerance()), say("query %d against pylance", i))
		}
		count.same++
	}
}

// live checks that an answer holds rows that exist, each under its own id.
func live(got lab.Answers, rows []oracle.Row) error {
	ids := make(map[uint64]int64, len(rows))
	for _, r := range rows {
		ids[r.RowID] = r.ID
	}
	for q, hits := range got {
		for i, h := range hits {
			if id, ok := ids[h.RowID]; !ok || id != h.ID {
				return fmt.Errorf("query %d, place %d: row %d with id %d is not in the dataset", q, i, h.RowID, h.ID)
			}
		}
	}
	return nil
}

// pylance answers, but for a search of indexed rows only where no index fits: that is of no row at all, while Lance
// would refuse.
func (h *history) pylance(a lab.Ask, version uint64) (lab.Answers, error) {
	if a.Options.Unindexed == distributed.Skip && (h.index == nil || a.Metric != h.index.Metric) {
		return make(lab.Answers, max(len(a.Queries), len(a.Multi))), nil
	}
	if a.Omit && len(h.data.Segments(version, "")) == 0 {
		// Lance does not see an index without live segments and would take L2; the library takes the metric of the index.
		a.Omit = false
	}
	return a.Pylance(h.data, version)
}

// ambiguous tells whether index distances tie where the candidates for exact scoring end, be it for refinement or beside
// a flat scan. Then which of them are scored is Lance's choice, and may vary with the grouping.
func (h *history) ambiguous(a lab.Ask, version uint64) bool {
	if h.index == nil || a.Query.NoIndex || a.Metric != h.index.Metric || h.index.Type == "IVF_FLAT" {
		return false
	}
	if a.Query.RefineFactor == 0 && (a.Options.Unindexed == distributed.Skip || !h.data.Uncovered(version)) {
		return false
	}
	b := a
	b.Query.RefineFactor, b.Options.Unindexed = 0, distributed.Skip // the index distances themselves
	b.K, b.Offset = (a.K+a.Offset)*max(1, a.Query.RefineFactor)+1, 0
	if b.Query.EF > 0 {
		b.Query.EF += b.K
	}
	answers, err := h.pylance(b, version)
	if err != nil {
		return false
	}
	for _, hits := range answers {
		if n := len(hits); n == b.K && n > 1 && h.tolerance().Equal(hits[n-1].Distance, hits[n-2].Distance) {
			return true
		}
	}
	return false
}
