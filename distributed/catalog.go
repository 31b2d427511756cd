package distributed

import (
	"runtime"
	"sync"
	"weak"

	"github.com/lanceknn/lanceknn/binding"
)

// catalog is what planning derives from one description, whatever the query: which fragments are alive, and the layout of every index. A
// handle gives one description for its lifetime, so a warm query finds it ready.
type catalog struct {
	fragments  []binding.Fragment // with live rows, ascending
	liveRows   uint64
	monolithic []string
	indexes    []*indexLayout

	lock        sync.Mutex
	eligibility map[eligibilityKey]*binding.Eligibility
	filters     map[string]struct{} // that the native core accepted
}

// remembered bounds what a catalog keeps of the queries it has seen. A service asks a few kinds of query; one whose filters never repeat gains
// nothing from remembering them.
const remembered = 256

// rememberedText bounds the length of what is kept of each; longer filters are checked anew.
const rememberedText = 16 << 10

// catalogs holds the catalog of each description that is in use. The key is weak, so a closed dataset takes its catalog along; a catalog
// therefore must not point to its description.
var catalogs sync.Map // weak.Pointer[binding.Description] to *catalog

func catalogOf(d *binding.Description) *catalog {
	key := weak.Make(d)
	if c, ok := catalogs.Load(key); ok {
		return c.(*catalog)
	}
	c, loaded := catalogs.LoadOrStore(key, newCatalog(d))
	if !loaded {
		runtime.AddCleanup(d, func(key weak.Pointer[binding.Description]) { catalogs.Delete(key) }, key)
	}
	return c.(*catalog)
}

func newCatalog(d *binding.Description) *catalog {
	c := &catalog{
		fragments: liveFragments(d.Fragments), monolithic: d.Monolithic, eligibility: make(map[eligibilityKey]*binding.Eligibility),
		filters: make(map[string]struct{}),
	}
	for _, f := range c.fragments {
		c.liveRows += f.LiveRows()
	}
	rows := make(map[uint32]uint64, len(c.fragments))
	for _, f := range c.fragments {
		rows[f.ID] = f.LiveRows()
	}
	for i := range d.Indexes {
		c.indexes = append(c.indexes, newIndexLayout(d.Indexes[i], c.fragments, rows))
	}
	return c
}

func (c *catalog) isChecked(filter string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	_, ok := c.filters[filter]
	return ok
}

func (c *catalog) setChecked(filter string) {
	if len(filter) > rememberedText {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.filters) >= remembered {
		clear(c.filters)
	}
	c.filters[filter] = struct{}{}
}

// only says whether the column has no other vector index, so that Lance would choose this one by itself.
func (c *catalog) only(x *indexLayout) bool {
	for _, other := range c.indexes {
		if other != x && other.index.FieldID == x.index.FieldID {
			return false
		}
	}
	return true
}
