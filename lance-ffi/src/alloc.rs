//! Address space for what no machine has the memory for.
//!
//! Lance reserves room for as much as a file says there is, and a damaged footer can say 64 GiB. malloc refuses that, and
//! Rust ends the process, which is the host's. A reservation that nobody writes to costs nothing, so it is granted; the
//! read that follows fails by itself, as an error.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Smaller requests fail only where memory is really at its end.
const LARGE: usize = 1 << 30;
const PAGE: usize = 4096;

/// Addresses of reservations that live, 0 where a slot is free. Many at a time are no damage but a flood.
static RESERVED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

pub struct Reserving;

fn slot(holding: usize, new: usize) -> bool {
    RESERVED.iter().any(|s| {
        s.compare_exchange(holding, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    })
}

fn reserve(layout: Layout) -> *mut u8 {
    if layout.size() < LARGE || layout.align() > PAGE {
        return null_mut();
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping touches nothing that exists.
    let at = unsafe {
        libc::mmap(
            null_mut(),
            layout.size(),
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return null_mut();
    }
    if !slot(0, at as usize) {
        // SAFETY: mapped just now, and handed to nobody.
        unsafe { libc::munmap(at, layout.size()) };
        return null_mut();
    }
    at.cast()
}

fn is_reserved(at: *mut u8, size: usize) -> bool {
    size >= LARGE && RESERVED.iter().any(|s| s.load(Ordering::Acquire) == at as usize)
}

// SAFETY: memory comes from the system's allocator or from a mapping of its own, which RESERVED tells apart, and goes
// back to where it came from.
unsafe impl GlobalAlloc for Reserving {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller vouches.
        let at = unsafe { System.alloc(layout) };
        if at.is_null() { reserve(layout) } else { at }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller vouches.
        let at = unsafe { System.alloc_zeroed(layout) };
        if at.is_null() { reserve(layout) } else { at }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches; the slot is given up before the address can come back.
        unsafe {
            if is_reserved(at, layout.size()) {
                slot(at as usize, 0);
                libc::munmap(at.cast(), layout.size());
            } else {
                System.dealloc(at, layout);
            }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller vouches.
        unsafe {
            if !is_reserved(at, layout.size()) {
                let grown = System.realloc(at, layout, size);
                if !grown.is_null() || size < LARGE {
                    return grown;
                }
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(at, moved, layout.size().min(size));
                self.dealloc(at, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any machine has, less than an address space holds.
    const HUGE: usize = 16 << 40;

    #[test]
    fn what_nobody_writes_to_is_granted_and_given_back() {
        for _ in 0..2 * RESERVED.len() {
            let mut huge: Vec<u8> = Vec::new();
            huge.try_reserve_exact(HUGE).unwrap();
            huge.push(7);
            assert!(is_reserved(huge.as_mut_ptr(), HUGE));
            huge.shrink_to_fit();
            assert_eq!(huge, [7]);
            assert!(!is_reserved(huge.as_mut_ptr(), HUGE));
        }
        let mut small = vec![3_u8; 100];
        small.try_reserve_exact(HUGE).unwrap();
        assert_eq!(small, vec![3; 100]);
        drop(small);
        assert!(RESERVED.iter().all(|s| s.load(Ordering::Acquire) == 0));
    }

    #[test]
    fn what_no_address_space_holds_is_refused() {
        assert!(Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).is_err());
    }
}
