package runner

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

func TestTurns_EveryContenderStartsEquallyOftenAndFollowsOthers(t *testing.T) {
	x := &execution{}
	const n = 4
	for i := range n {
		x.entries = append(x.entries, &entry{contender: spec.Contender{Name: fmt.Sprint(i)}})
	}
	first, before := map[string]int{}, map[string]map[string]bool{}
	for turn := range 2 * n {
		order := x.turns(turn)
		require.Len(t, order, n)
		seen := map[string]bool{}
		for i, e := range order {
			seen[e.contender.Name] = true
			if i > 0 {
				if before[e.contender.Name] == nil {
					before[e.contender.Name] = map[string]bool{}
				}
				before[e.contender.Name][order[i-1].contender.Name] = true
			}
		}
		require.Len(t, seen, n)
		first[order[0].contender.Name]++
	}
	for name, times := range first {
		require.Equal(t, 2, times, "contender %s", name)
		require.Greater(t, len(before[name]), 1, "contender %s always follows the same one", name)
	}
}

func TestTurns_LeaveOutWhoFailed(t *testing.T) {
	x := &execution{entries: []*entry{{contender: spec.Contender{Name: "a"}, err: errors.New("gone")}, {contender: spec.Contender{Name: "b"}}, {fault: "wrong"}}}
	for turn := range 3 {
		order := x.turns(turn)
		require.Len(t, order, 1)
		require.Equal(t, "b", order[0].contender.Name)
	}
	require.Empty(t, (&execution{}).turns(0))
}

func TestProfiles_AreConsistent(t *testing.T) {
	for _, name := range []string{"quick", "full", "smoke", "calibrate"} {
		p, err := spec.Profiles(name)
		require.NoError(t, err)
		ids := map[string]bool{}
		for _, s := range p.Scenarios {
			require.False(t, ids[s.ID], "scenario %s twice in %s", s.ID, name)
			ids[s.ID] = true
			d, ok := p.Find(s.Data)
			require.True(t, ok, "scenario %s of %s wants data %s", s.ID, name, s.Data)
			require.LessOrEqual(t, s.Queries, d.Queries, s.ID)
			require.LessOrEqual(t, s.Search.K, d.Depth, s.ID)
			if s.Search.Filter != 0 {
				require.Contains(t, d.Filters, s.Search.Filter, s.ID)
			}
			contenders, defaults := map[string]bool{}, 0
			for _, c := range s.Contenders {
				require.False(t, contenders[c.Name], "contender %s twice in %s", c.Name, s.ID)
				contenders[c.Name] = true
				if c.Default {
					defaults++
				}
			}
			require.Equal(t, 1, defaults, "scenario %s must say which contender is the default", s.ID)
		}
	}
	_, err := spec.Profiles("none")
	require.ErrorContains(t, err, "unknown")
}
