package distributed

import (
	"cmp"
	"slices"
)

// balance spreads items over at most n groups so that the heaviest group is light: the largest item goes first, each into the group that is
// lightest by then. The heaviest group then weighs at most 4/3 of the best possible. No group is empty. Groups hold positions, ascending, and
// come heaviest first, so that the longest task starts first.
func balance(weights []uint64, n int) [][]int {
	n = max(1, min(n, len(weights)))
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weights[b], weights[a]) })
	groups := make([][]int, n)
	loads := make([]uint64, n)
	lightest := func(a, b int) bool {
		if loads[a] != loads[b] {
			return loads[a] < loads[b]
		}
		return len(groups[a]) < len(groups[b]) // keeps items without weight from filling one group only
	}
	for _, item := range order {
		to := 0
		for g := range groups {
			if lightest(g, to) {
				to = g
			}
		}
		groups[to] = append(groups[to], item)
		loads[to] += weights[item]
	}
	byLoad := make([]int, n)
	for i := range byLoad {
		byLoad[i] = i
	}
	slices.SortStableFunc(byLoad, func(a, b int) int { return cmp.Compare(loads[b], loads[a]) })
	sorted := make([][]int, n)
	for i, g := range byLoad {
		slices.Sort(groups[g])
		sorted[i] = groups[g]
	}
	return sorted
}

// blocks cuts n queries into at most m runs of nearly equal length and gives their borders: run i is from borders[i] up to borders[i+1].
func blocks(n, m int) []int {
	m = max(1, min(m, n))
	borders := make([]int, m+1)
	for i := range borders {
		borders[i] = i * (n / m)
		borders[i] += min(i, n%m)
	}
	return borders
}

// grouped joins the units into at most n groups that are about equally heavy. The groups are shared: they are not modified.
func (x *indexLayout) grouped(n int) []unit {
	x.lock.Lock()
	defer x.lock.Unlock()
	if groups, ok := x.groups[n]; ok {
		return groups
	}
	weights := make([]uint64, len(x.units))
	for i := range x.units {
		weights[i] = x.units[i].rows
	}
	var groups []unit
	for _, members := range balance(weights, n) {
		var group unit
		for _, i := range members {
			group.segments = append(group.segments, x.units[i].segments...)
			group.fragments = append(group.fragments, x.units[i].fragments...)
			group.rows += x.units[i].rows
		}
		slices.Sort(group.fragments)
		groups = append(groups, group)
	}
	x.groups[n] = groups
	return groups
}
