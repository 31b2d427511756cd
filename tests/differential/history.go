package differential

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lanceknn/lanceknn/binding"
	"github.com/lanceknn/lanceknn/tests/internal/lab"
	"github.com/lanceknn/lanceknn/tests/internal/oracle"
	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

// history builds a dataset by random steps, and remembers them.
type history struct {
	t      testing.TB
	rng    *rand.Rand
	schema *schema
	data   *lab.Dataset
	steps  []string
	index  *lab.Index // the vector index, once built

	stable     bool
	ghosts     bool // rows deleted before a compaction are still in the index, where Lance finds them again (report 24)
	partitions int

	snapshots []snapshot
}

// snapshot is what was known of the dataset at a version.
type snapshot struct {
	version    uint64
	steps      int
	index      *lab.Index
	ghosts     bool
	partitions int
}

func (h *history) remember() {
	h.snapshots = append(h.snapshots, snapshot{h.data.Describe(0).Version, len(h.steps), h.index, h.ghosts, h.partitions})
}

// at goes back to a snapshot: what is asked from now on is about that version.
func (h *history) at(s snapshot) uint64 {
	h.step("asked at version %d, after %d of these steps", s.version, s.steps)
	h.index, h.ghosts, h.partitions = s.index, s.ghosts, s.partitions
	return s.version
}

func (h *history) step(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

func (h *history) String() string { return "\n  " + strings.Join(h.steps, "\n  ") }

func newHistory(t testing.TB, rng *rand.Rand) *history {
	h := &history{t: t, rng: rng, schema: newSchema(rng), stable: rng.IntN(3) == 0}
	rows := 200 + rng.IntN(700)
	perFile := rows/(1+rng.IntN(5)) + 1
	h.data = lab.Create(t, h.schema.rows(rng, rows), lab.Rows(perFile), lab.StableRowIDs(h.stable))
	h.step("write %d rows, %d per file, stable row ids %v; %v", rows, perFile, h.stable, h.schema)
	before, after := rng.IntN(3), rng.IntN(5)
	h.remember()
	for range before {
		h.change()
		h.remember()
	}
	if rng.IntN(10) > 0 {
		h.buildIndex()
		h.remember()
	}
	for range after {
		h.change()
		h.remember()
	}
	return h
}

// try runs a step that this version of Lance may refuse; what it refuses has not happened.
func (h *history) try(op string, args pylance.Args, format string, a ...any) bool {
	if err := h.data.Try(op, args); err != nil {
		text := err.Error()
		h.step("refused: %s: %s", fmt.Sprintf(format, a...), text[:min(len(text), 160)])
		return false
	}
	h.step(format, a...)
	return true
}

func (h *history) change() {
	rng := h.rng
	switch rng.IntN(10) {
	case 0, 1, 2:
		n := 20 + rng.IntN(200)
		h.data.Append(h.schema.rows(rng, n))
		h.step("append %d rows", n)
	case 3, 4:
		predicate := pick(rng, fmt.Sprintf("id %% %d = %d", 3+rng.IntN(6), rng.IntN(3)),
			fmt.Sprintf("category = %d", rng.IntN(20)),
			fmt.Sprintf("id < %d", rng.Int64N(h.schema.next/2+1)))
		h.try("delete", pylance.Args{"predicate": predicate}, "delete where %s", predicate)
	case 5:
		where := fmt.Sprintf("id %% %d = 1", 5+rng.IntN(20))
		h.try("update", pylance.Args{"set": map[string]string{"category": "category + 1"}, "where": where}, "update category where %s", where)
	case 6:
		ids := map[int64]bool{}
		for range 10 + rng.IntN(60) {
			ids[rng.Int64N(h.schema.next+20)] = true
		}
		var list []int64
		for id := range h.schema.next + 20 {
			if ids[id] {
				list = append(list, id)
			}
		}
		h.schema.next += 20
		record := h.schema.rows(rng, len(list), list...).Record()
		defer record.Release()
		h.try("merge_insert", pylance.Args{"on": "id", "ipc": pylance.IPC(record)}, "merge-insert %d rows", len(list))
	case 7:
		deferred := rng.IntN(2) == 0
		target := pick(rng, 1<<20, 300)
		if h.try("compact", pylance.Args{"defer_index_remap": deferred, "target_rows_per_fragment": target}, "compact to %d rows, deferred remap %v", target, deferred) {
			h.ghosts = h.ghosts || h.stable && h.index != nil
		}
	case 8:
		if h.index != nil {
			merge := rng.IntN(4)
			h.try("optimize", pylance.Args{"merge": merge}, "optimize, merging %d", merge)
		}
	case 9:
		if h.schema.Parent == "" && rng.IntN(2) == 0 {
			h.overlay()
		} else {
			h.try("scalar_index", pylance.Args{"column": "category", "type": pick(rng, "BTREE", "BITMAP")}, "scalar index on category")
		}
	}
}

// overlay replaces a few vectors of a fragment without rewriting it.
func (h *history) overlay() {
	fragments := h.data.Describe(0).Fragments
	if len(fragments) == 0 {
		return
	}
	f := fragments[h.rng.IntN(len(fragments))]
	var offsets []int
	for i := range f.PhysicalRows {
		if h.rng.IntN(15) == 0 {
			offsets = append(offsets, i)
		}
	}
	if len(offsets) == 0 {
		return
	}
	record := h.schema.rows(h.rng, len(offsets), make([]int64, len(offsets))...).Record()
	defer record.Release()
	args := pylance.Args{"fragment": f.ID, "offsets": offsets, "ipc": pylance.IPC(record), "only": []string{h.schema.Name}}
	h.try("overlay", args, "overlay %d rows of fragment %d", len(offsets), f.ID)
}

func (h *history) metrics() []oracle.Metric {
	switch {
	case h.schema.Type == binding.Uint8:
		return []oracle.Metric{oracle.Hamming}
	case h.schema.multi:
		return []oracle.Metric{oracle.Cosine}
	}
	return []oracle.Metric{oracle.L2, oracle.Cosine, oracle.Dot}
}

func (h *history) buildIndex() {
	rng := h.rng
	kinds := []string{"IVF_FLAT", "IVF_FLAT", "IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"}
	if h.schema.Type == binding.Uint8 {
		kinds = kinds[:1]
	}
	i := lab.Index{Type: pick(rng, kinds...), Metric: pick(rng, h.metrics()...), Partitions: 1 + rng.IntN(5)}
	if strings.HasSuffix(i.Type, "PQ") {
		i.SubVectors, i.Bits = h.schema.Dim/pick(rng, 1, 2, 4), pick(rng, 4, 8)
	}
	// A random grouping of the fragments, of which some may stay out.
	var groups [][]int
	for _, f := range h.data.Describe(0).Fragments {
		switch n := rng.IntN(5); {
		case n == 0 && len(groups) > 0: // stays out
		case n <= 2 && len(groups) > 0:
			at := rng.IntN(len(groups))
			groups[at] = append(groups[at], f.ID)
		default:
			groups = append(groups, []int{f.ID})
		}
	}
	i.Groups = groups
	if rng.IntN(6) == 0 {
		i.Groups = nil
	}
	if _, err := h.data.TryIndex(i); err != nil {
		text := err.Error()
		h.step("refused: index %s %s, %d partitions, groups %v: %s", i.Type, i.Metric, i.Partitions, i.Groups, text[:min(len(text), 160)])
		return
	}
	h.index, h.partitions = &i, i.Partitions
	h.step("index %s %s, %d partitions, groups %v, %d sub-vectors of %d bits", i.Type, i.Metric, i.Partitions, i.Groups, i.SubVectors, i.Bits)
}
