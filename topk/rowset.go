package topk

import "math/bits"

// rowSet is a set of row ids with open addressing. Nothing is ever taken out: rows that left the heap stay until the table fills up, and then
// the table is built anew from the rows that are still held. So it needs neither deletion nor more than a few words a held row.
type rowSet struct {
	table []uint64 // 0 is a free place
	used  int
	zero  bool // row id 0, which the table cannot hold
	shift uint
}

func (s *rowSet) empty() bool { return s.used == 0 && !s.zero }

// reset leaves the table dirty: an empty set is filled before anything is looked up in it.
func (s *rowSet) reset() { s.used, s.zero = 0, false }

// fill makes the set hold exactly the row ids of entries, with room for as many again.
func (s *rowSet) fill(entries []entry) {
	size := 1 << bits.Len(uint(4*len(entries)))
	if cap(s.table) < size {
		s.table = make([]uint64, size)
	} else {
		s.table = s.table[:size]
		clear(s.table)
	}
	s.shift = uint(64 - bits.TrailingZeros(uint(len(s.table))))
	s.used, s.zero = 0, false
	for _, e := range entries {
		s.insert(e.rowID)
	}
}

// add inserts a row id and says whether it was there. A table that is half full is first built anew from entries.
func (s *rowSet) add(rowID uint64, entries []entry) (present bool) {
	if 2*s.used >= len(s.table) {
		s.fill(entries)
	}
	return s.insert(rowID)
}

func (s *rowSet) insert(rowID uint64) (present bool) {
	if rowID == 0 {
		present, s.zero = s.zero, true
		return present
	}
	mask := len(s.table) - 1
	for i := int(rowID * 0x9e3779b97f4a7c15 >> s.shift); ; i++ {
		switch s.table[i&mask] {
		case rowID:
			return true
		case 0:
			s.table[i&mask] = rowID
			s.used++
			return false
		}
	}
}
