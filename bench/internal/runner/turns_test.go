package runner

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/bench/internal/dataset"
	"github.com/lanceknn/lanceknn/bench/internal/spec"
)

func TestTurns_EveryContenderStartsAndFollowsEachOtherEquallyOften(t *testing.T) {
	for _, n := range []int{1, 2, 4, 5, 11} {
		x := &execution{}
		for i := range n {
			x.entries = append(x.entries, &entry{contender: spec.Contender{Name: fmt.Sprint(i)}})
		}
		first, follows := map[string]int{}, map[[2]string]int{}
		for turn := range 2 * n {
			order := x.turns(turn)
			require.Len(t, order, n)
			seen := map[string]bool{}
			for i, e := range order {
				seen[e.contender.Name] = true
				if i > 0 {
					follows[[2]string{order[i-1].contender.Name, e.contender.Name}]++
				}
			}
			require.Len(t, seen, n)
			first[order[0].contender.Name]++
		}
		for name, times := range first {
			require.Equal(t, 2, times, "contender %s of %d", name, n)
		}
		require.Len(t, follows, n*(n-1))
		for pair, times := range follows {
			require.Equal(t, 2, times, "%v of %d", pair, n)
		}
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

func TestJudge_WhatLeadsATurnInIsCheckedOnly(t *testing.T) {
	verdicts := []dataset.Verdict{{Recall: 0}, {Recall: 0}, {Recall: 1}, {Recall: math.NaN()}, {Recall: 0.5}}
	e := &entry{}
	e.judge([]int{8, 9, 0, 1, 2}, 2, func(i int) dataset.Verdict { return verdicts[i] })
	require.Empty(t, e.fault)
	require.InDelta(t, 1.5, e.recallSum, 1e-12)
	require.Equal(t, 2, e.judged, "a query without neighbours says nothing about recall")

	verdicts[1].Fault = "wrong"
	e.judge([]int{8, 9, 0, 1, 2}, 2, func(i int) dataset.Verdict { return verdicts[i] })
	require.Equal(t, "query 9: wrong", e.fault)
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
