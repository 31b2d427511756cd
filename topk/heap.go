package topk

import (
	"cmp"
	"slices"
)

// entry is a candidate whose query is known from the heap that holds it.
type entry struct {
	distance float32
	rowID    uint64
}

func (e entry) less(o entry) bool {
	return e.distance < o.distance || (e.distance == o.distance && e.rowID < o.rowID)
}

func compareEntries(a, b entry) int {
	switch {
	case a.distance < b.distance:
		return -1
	case a.distance > b.distance:
		return 1
	}
	return cmp.Compare(a.rowID, b.rowID)
}

// scanRows is the heap size up to which comparing every row id is cheaper than keeping a set of them.
const scanRows = 24

// heap holds the best entries of one query as a binary max-heap: the worst is first, ready to be replaced.
type heap struct {
	query   uint32
	entries []entry
	rows    rowSet // a superset of the row ids in entries, kept once there are more than scanRows
}

func (h *heap) reset(query uint32) {
	h.query = query
	h.entries = h.entries[:0]
	h.rows.reset()
}

func (h *heap) push(k int, e entry) {
	full := len(h.entries) >= k
	if full && !e.less(h.entries[0]) {
		return
	}
	if i := h.find(e.rowID); i >= 0 {
		if e.less(h.entries[i]) {
			h.entries[i] = e
			h.down(i)
		}
		return
	}
	if full {
		h.entries[0] = e
		h.down(0)
		return
	}
	h.entries = append(h.entries, e)
	h.up(len(h.entries) - 1)
}

// find returns the position of a row id, or -1, and remembers the row id as one that is about to be held.
func (h *heap) find(rowID uint64) int {
	if len(h.entries) > scanRows {
		if h.rows.empty() {
			h.rows.fill(h.entries)
		}
		if !h.rows.add(rowID, h.entries) {
			return -1
		}
		// The set also remembers rows that were pushed out, so a hit has to be looked up. Rows that come twice are rare.
	}
	for i := range h.entries {
		if h.entries[i].rowID == rowID {
			return i
		}
	}
	return -1
}

func (h *heap) up(i int) {
	e := h.entries[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.entries[parent].less(e) {
			break
		}
		h.entries[i] = h.entries[parent]
		i = parent
	}
	h.entries[i] = e
}

func (h *heap) down(i int) {
	e := h.entries[i]
	for {
		child := 2*i + 1
		if child >= len(h.entries) {
			break
		}
		if right := child + 1; right < len(h.entries) && h.entries[child].less(h.entries[right]) {
			child = right
		}
		if !e.less(h.entries[child]) {
			break
		}
		h.entries[i] = h.entries[child]
		i = child
	}
	h.entries[i] = e
}

// sorted orders the entries in place, nearest first. The heap property is gone afterwards.
func (h *heap) sorted() []entry {
	slices.SortFunc(h.entries, compareEntries)
	return h.entries
}
