//! The types of the C header, and how values cross it.

use std::sync::atomic::{AtomicI64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::error::{self, Error, Result};

/// Raised with every change that an older caller would misread.
pub const LANCE_FFI_ABI_VERSION: u32 = 1;

pub const LANCE_FFI_OK: i32 = 0;
pub const LANCE_FFI_INVALID_ARGUMENT: i32 = 1;
pub const LANCE_FFI_NOT_FOUND: i32 = 2;
pub const LANCE_FFI_VERSION_GONE: i32 = 3;
pub const LANCE_FFI_CONFLICT: i32 = 4;
pub const LANCE_FFI_IO: i32 = 5;
pub const LANCE_FFI_CORRUPT: i32 = 6;
pub const LANCE_FFI_UNSUPPORTED: i32 = 7;
pub const LANCE_FFI_CANCELLED: i32 = 8;
pub const LANCE_FFI_PANIC: i32 = 9;
pub const LANCE_FFI_INTERNAL: i32 = 10;
pub const LANCE_FFI_ALREADY_EXISTS: i32 = 11;

/// Element types of query vectors.
pub const LANCE_FFI_FLOAT16: u32 = 1;
pub const LANCE_FFI_FLOAT32: u32 = 2;
pub const LANCE_FFI_FLOAT64: u32 = 3;
pub const LANCE_FFI_UINT8: u32 = 4;

/// Distance metrics; unset is the index's metric, else L2, or hamming for uint8.
pub const LANCE_FFI_METRIC_UNSET: u32 = 0;
pub const LANCE_FFI_METRIC_L2: u32 = 1;
pub const LANCE_FFI_METRIC_COSINE: u32 = 2;
pub const LANCE_FFI_METRIC_DOT: u32 = 3;
pub const LANCE_FFI_METRIC_HAMMING: u32 = 4;

pub const LANCE_FFI_APPROX_NORMAL: u32 = 0;
pub const LANCE_FFI_APPROX_FAST: u32 = 1;
pub const LANCE_FFI_APPROX_ACCURATE: u32 = 2;

pub const LANCE_FFI_PATH_AUTO: u32 = 0;
pub const LANCE_FFI_PATH_SCANNER: u32 = 1;
pub const LANCE_FFI_PATH_DIRECT: u32 = 2;

/// Shared when nothing about probes is set, else per segment.
pub const LANCE_FFI_PROBING_AUTO: u32 = 0;
/// Lance's own rules, segment by segment.
pub const LANCE_FFI_PROBING_PER_SEGMENT: u32 = 1;
/// One budget over all segments of the call.
pub const LANCE_FFI_PROBING_SHARED: u32 = 2;

static LIVE: AtomicI64 = AtomicI64::new(0);

/// Counts an object that now belongs to the caller.
pub fn handed_out() {
    LIVE.fetch_add(1, Ordering::Relaxed);
}

/// Counts one that came back.
pub fn returned() {
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

pub fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Borrowed bytes, valid for the call. Text is UTF-8 and not NUL-terminated.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LanceFfiSlice {
    pub ptr: *const u8,
    pub len: usize,
}

/// Filled on failure only. Freed with lance_ffi_error_free.
#[repr(C)]
pub struct LanceFfiError {
    pub code: i32,
    pub message: *mut u8,
    pub message_len: usize,
    pub message_cap: usize,
}

/// Owned bytes. Freed with lance_ffi_buffer_free.
#[repr(C)]
pub struct LanceFfiBuffer {
    pub ptr: *mut u8,
    pub len: usize,
    pub cap: usize,
}

/// What a search did.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct LanceFfiStats {
    /// LANCE_FFI_PATH_SCANNER or LANCE_FFI_PATH_DIRECT.
    pub path: u32,
    /// 1: distances are exact; 0: they are the index's approximations.
    pub exact: u32,
    /// The metric used.
    pub metric: u32,
    pub reserved: u32,
    /// Segments of which a partition was read, summed over queries. Direct path only.
    pub segments_searched: u64,
    pub partitions_ranked: u64,
    pub partitions_searched: u64,
    /// From storage, by this call.
    pub bytes_read: u64,
    pub requests: u64,
    /// Opened segments, filters and partitions found in memory, and not.
    pub cache_hits: u64,
    pub cache_misses: u64,
    pub filter_nanos: u64,
    pub rank_nanos: u64,
    pub search_nanos: u64,
    pub total_nanos: u64,
}

/// `len` parallel elements, ordered by query, distance, row id. Freed with lance_ffi_candidates_free.
#[repr(C)]
pub struct LanceFfiCandidates {
    pub query: *mut u32,
    pub distance: *mut f32,
    pub row_id: *mut u64,
    pub len: usize,
    pub stats: LanceFfiStats,
}

#[repr(C)]
pub struct LanceFfiSearch {
    /// Field path in Lance's syntax; back-ticks quote.
    pub column: LanceFfiSlice,
    /// SQL, applied before neighbours are chosen; empty: none.
    pub filter: LanceFfiSlice,
    /// 16 bytes each; count 0: no restriction.
    pub segments: *const u8,
    pub segment_count: usize,
    /// Count 0: no restriction.
    pub fragments: *const u32,
    pub fragment_count: usize,
    /// query_count x max(1, vectors_per_query) x dim values.
    pub vectors: *const u8,
    pub value_type: u32,
    /// 0: one vector a query; n: n vectors a query, against a multivector column.
    pub vectors_per_query: u32,
    pub query_count: usize,
    pub dim: usize,
    /// Neighbours wanted per query; clamped to the live rows.
    pub k: u64,
    /// 0: none; n: the best k x n candidates are re-scored exactly inside this call.
    pub refine_factor: u64,
    /// -1: unset, here and in the next two.
    pub nprobes: i64,
    pub min_nprobes: i64,
    pub max_nprobes: i64,
    /// In [0, 1]; NaN: unset.
    pub search_effort: f64,
    /// -1: unset.
    pub ef: i64,
    /// Inclusive; NaN: unset.
    pub distance_lower: f32,
    /// Exclusive; NaN: unset.
    pub distance_upper: f32,
    pub metric: u32,
    pub query_parallelism: i32,
    pub approx_mode: u32,
    /// 0: flat search.
    pub use_index: u32,
    pub path: u32,
    pub probing: u32,
    /// 0: all cores.
    pub threads: u32,
    pub reserved: u32,
    /// Nullable; query_count values: a k-th distance known from elsewhere, +Inf: none.
    pub bounds: *const f32,
}

pub struct LanceFfiCancel(pub CancellationToken);

impl LanceFfiSlice {
    /// # Safety
    /// `ptr` points to `len` bytes that outlive `'a`, or `len` is 0.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 || self.ptr.is_null() {
            return &[];
        }
        // SAFETY: as the caller vouches.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// # Safety
    /// As `bytes`.
    pub unsafe fn text<'a>(self, what: &str) -> Result<&'a str> {
        // SAFETY: as the caller vouches.
        std::str::from_utf8(unsafe { self.bytes() }).map_err(|e| Error::invalid(format!("{what} is not UTF-8: {e}")))
    }
}

/// Writes the outcome of an entry: its code is returned, and on failure the message goes out too.
///
/// # Safety
/// `out` is null or valid for writing.
pub unsafe fn report(result: Result<()>, out: *mut LanceFfiError) -> i32 {
    let Err(error) = result else {
        return error::OK;
    };
    if !out.is_null() {
        let mut message = std::mem::ManuallyDrop::new(error.message.into_bytes());
        handed_out();
        // SAFETY: as the caller vouches.
        unsafe {
            out.write(LanceFfiError {
                code: error.code,
                message: message.as_mut_ptr(),
                message_len: message.len(),
                message_cap: message.capacity(),
            });
        }
    }
    error.code
}

/// # Safety
/// `out` is valid for writing.
pub unsafe fn give_buffer(bytes: Vec<u8>, out: *mut LanceFfiBuffer) -> Result<()> {
    if out.is_null() {
        return Err(Error::invalid("the out-parameter is null"));
    }
    let mut bytes = std::mem::ManuallyDrop::new(bytes);
    handed_out();
    // SAFETY: as the caller vouches.
    unsafe {
        out.write(LanceFfiBuffer {
            ptr: bytes.as_mut_ptr(),
            len: bytes.len(),
            cap: bytes.capacity(),
        });
    }
    Ok(())
}

/// # Safety
/// `cancel` is null or came from lance_ffi_cancel_new and is not freed yet.
pub unsafe fn token(cancel: *const LanceFfiCancel) -> Option<CancellationToken> {
    // SAFETY: as the caller vouches.
    unsafe { cancel.as_ref() }.map(|c| c.0.clone())
}
