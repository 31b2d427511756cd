package topk

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// Merge returns the k nearest candidates of each query over all lists, in the order of [Compare]. It follows the rules of the package
// documentation, does not modify or keep its arguments, and returns nil when nothing is left or k is not positive.
func Merge(k int, lists ...[]Candidate) []Candidate {
	m := NewMerger(k)
	defer m.Release()
	for _, list := range lists {
		for _, c := range list {
			m.Push(c)
		}
	}
	return m.Append(nil)
}

// Merger collects candidates and keeps the k nearest of each query. Use it instead of [Merge] where candidates arrive one by one or in
// another layout. It is not safe for concurrent use.
type Merger struct {
	k     int
	heaps []heap // heaps[:live] are in use, in order of first appearance; the rest wait with their buffers
	live  int
	slots map[uint32]int // query to heap
	last  int            // heap of the latest candidate: candidates mostly come query by query
}

// retainedEntries bounds what a pooled Merger may hold on to between uses: 16 MiB.
const retainedEntries = 1 << 20

var mergers = sync.Pool{New: func() any { return &Merger{slots: make(map[uint32]int)} }}

// NewMerger returns an empty Merger from a pool of used ones. A k that is not positive keeps nothing.
func NewMerger(k int) *Merger {
	m := mergers.Get().(*Merger)
	m.Reset(k)
	return m
}

// Reset empties the Merger and sets k anew.
func (m *Merger) Reset(k int) {
	m.k = k
	m.live = 0
	m.last = -1
	clear(m.slots)
}

// Release gives the Merger back to the pool. It must not be used afterwards.
func (m *Merger) Release() {
	total := 0
	for i := range m.heaps {
		total += cap(m.heaps[i].entries) + cap(m.heaps[i].rows.table)/2
	}
	if total <= retainedEntries {
		mergers.Put(m)
	}
}

// Push offers one candidate.
func (m *Merger) Push(c Candidate) {
	if c.Distance != c.Distance || m.k <= 0 {
		return
	}
	if c.Distance == 0 {
		c.Distance = 0 // -0 becomes 0, so that the answer does not depend on which of the two came first
	}
	if m.last < 0 || m.heaps[m.last].query != c.Query {
		m.last = m.slot(c.Query)
	}
	m.heaps[m.last].push(m.k, entry{c.Distance, c.RowID})
}

func (m *Merger) slot(query uint32) int {
	if i, ok := m.slots[query]; ok {
		return i
	}
	i := m.live
	if i == len(m.heaps) {
		m.heaps = append(m.heaps, heap{})
	}
	m.heaps[i].reset(query)
	m.slots[query] = i
	m.live++
	return i
}

// Kth is the distance of the k-th nearest candidate of a query so far, +Inf where there are fewer than k.
func (m *Merger) Kth(query uint32) float32 {
	i, ok := m.slots[query]
	if !ok || len(m.heaps[i].entries) < m.k {
		return float32(math.Inf(1))
	}
	return m.heaps[i].entries[0].distance
}

// Len is the number of candidates held now: what Append will add.
func (m *Merger) Len() int {
	n := 0
	for i := range m.heaps[:m.live] {
		n += len(m.heaps[i].entries)
	}
	return n
}

// Append appends the candidates held, in the order of [Compare], and empties the Merger.
func (m *Merger) Append(dst []Candidate) []Candidate {
	dst = slices.Grow(dst, m.Len())
	heaps := m.heaps[:m.live]
	byQuery := func(a, b heap) int { return cmp.Compare(a.query, b.query) }
	if !slices.IsSortedFunc(heaps, byQuery) {
		slices.SortFunc(heaps, byQuery)
	}
	for i := range heaps {
		for _, e := range heaps[i].sorted() {
			dst = append(dst, Candidate{Query: heaps[i].query, Distance: e.distance, RowID: e.rowID})
		}
	}
	m.Reset(m.k)
	return dst
}
