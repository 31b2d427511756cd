package main

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// exactNeighbors finds the k nearest rows of each query by squared L2 distance in float64, scoring every row: the truth that
// the demo measures recall against. Results are row numbers, nearest first.
func exactNeighbors(rows, queries []float32, dim, k, workers int) [][]int {
	n := len(queries) / dim
	found := make([][]int, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for q := int(next.Add(1)) - 1; q < n; q = int(next.Add(1)) - 1 {
				found[q] = nearestRows(rows, queries[q*dim:(q+1)*dim], k)
			}
		})
	}
	wg.Wait()
	return found
}

type scoredRow struct {
	row      int
	distance float64
}

func nearestRows(rows, query []float32, k int) []int {
	dim := len(query)
	k = min(k, len(rows)/dim)
	best := make([]scoredRow, 0, k+1)
	bound := math.Inf(1)
	for row := range len(rows) / dim {
		d := squaredDistance(rows[row*dim:(row+1)*dim], query)
		if d >= bound {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, d, func(s scoredRow, d float64) int {
			if s.distance <= d {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, scoredRow{row, d})
		if len(best) > k {
			best = best[:k]
		}
		if len(best) == k {
			bound = best[k-1].distance
		}
	}
	out := make([]int, len(best))
	for i, s := range best {
		out[i] = s.row
	}
	return out
}

func squaredDistance(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		d := float64(x) - float64(b[i])
		sum += d * d
	}
	return sum
}

// recall is the share of the true neighbours of all queries that were found.
func recall(found [][]neighbor, truth [][]int, row func(rowID uint64) int) float64 {
	hits, wanted := 0, 0
	for q, rows := range truth {
		wanted += len(rows)
		for _, n := range found[q] {
			if slices.Contains(rows, row(n.rowID)) {
				hits++
			}
		}
	}
	return float64(hits) / float64(wanted)
}

// neighbor is a row that was found.
type neighbor struct {
	rowID    uint64
	distance float32
}

// sameAnswers counts the queries whose answers are the same in a and b: equal distances in the same order and equal rows,
// save for rows tied at the last distance, where either may be chosen.
func sameAnswers(a, b [][]neighbor) int {
	same := 0
	for q := range a {
		if sameNeighbors(a[q], b[q]) {
			same++
		}
	}
	return same
}

func sameNeighbors(a, b []neighbor) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 {
		return true
	}
	last := a[len(a)-1].distance
	inB := make(map[uint64]bool, len(b))
	for i := range b {
		if !closeTo(a[i].distance, b[i].distance) {
			return false
		}
		inB[b[i].rowID] = true
	}
	for _, n := range a {
		if !inB[n.rowID] && !closeTo(n.distance, last) {
			return false
		}
	}
	return true
}

// closeTo allows for the order in which a sum of float32 is taken.
func closeTo(a, b float32) bool {
	if a == b {
		return true
	}
	x, y := float64(a), float64(b)
	return math.Abs(x-y) <= 1e-5*max(math.Abs(x), math.Abs(y))
}
