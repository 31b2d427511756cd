package binding

/*
#include "trampoline.h"
*/
import "C"

import "sync/atomic"

// handle owns a native dataset. It is apart from Dataset so that the cleanup of an unreachable Dataset can hold it.
type handle struct {
	lib    *library
	native *C.LanceFfiDataset
	hide   secrets

	state atomic.Int64 // calls in flight, plus closing
	freed chan struct{}
}

const closing = int64(1) << 62

func newHandle(l *library, native *C.LanceFfiDataset, hide secrets) *handle {
	return &handle{lib: l, native: native, hide: hide, freed: make(chan struct{})}
}

// acquire keeps the native dataset alive until release.
func (h *handle) acquire(op string) error {
	for {
		s := h.state.Load()
		if s >= closing {
			return closed(op)
		}
		if h.state.CompareAndSwap(s, s+1) {
			return nil
		}
	}
}

func (h *handle) release() {
	if h.state.Add(-1) == closing {
		h.free()
	}
}

// close lets no call in any more; the last call in flight frees the native dataset, or close itself when there is none.
func (h *handle) close() {
	for {
		s := h.state.Load()
		if s >= closing {
			return
		}
		if h.state.CompareAndSwap(s, s+closing) {
			if s == 0 {
				h.free()
			}
			return
		}
	}
}

func (h *handle) isClosed() bool { return h.state.Load() >= closing }

func (h *handle) free() {
	C.lk_dataset_close(h.lib.entries, h.native)
	close(h.freed)
}
