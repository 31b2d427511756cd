//! The C entries. Each checks its arguments, calls into the modules that know Lance, and lets nothing unwind.

use std::sync::Arc;
use std::time::Instant;

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, StructArray};
use arrow_schema::Schema;
use lance_index::vector::ApproxMode;
use lance_linalg::distance::DistanceType;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::abi::*;
use crate::dataset::{self, Handle};
use crate::describe;
use crate::direct;
use crate::error::{Error, Result};
use crate::filter;
use crate::index::{self, IndexRequest, ScalarRequest};
use crate::metrics::Counters;
use crate::prewarm::{self, PrewarmRequest};
use crate::runtime::{guarded, wait, wait_here};
use crate::search::{self, Call, Found, Path, Probing, Request, Route};
use crate::vectors::Vectors;
use crate::write::{self, CompactRequest, WriteRequest, Writer};

pub struct LanceFfiDataset(Arc<Handle>);

pub struct LanceFfiWriter(Arc<tokio::sync::Mutex<Writer>>);

const BUILD_INFO: &str = concat!(
    "{\"version\":\"",
    env!("CARGO_PKG_VERSION"),
    "\",\"lance\":\"14.0.2\",\"target\":\"",
    env!("LANCE_FFI_TARGET"),
    "\",\"target_cpu\":\"",
    env!("LANCE_FFI_TARGET_CPU"),
    "\",\"rustc\":\"",
    env!("LANCE_FFI_RUSTC"),
    "\"}"
);

/// Read by the loader before it opens the library, so that an older processor gets an error instead of SIGILL.
#[used]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,.lanceffi"))]
#[cfg_attr(not(target_os = "macos"), unsafe(link_section = ".lanceffi"))]
static TARGET_CPU: [u8; TARGET_CPU_TEXT.len()] = *TARGET_CPU_TEXT;
const TARGET_CPU_TEXT: &[u8; TARGET_CPU_STR.len()] = match TARGET_CPU_STR.as_bytes().first_chunk() {
    Some(bytes) => bytes,
    None => panic!("a text is as long as itself"),
};
const TARGET_CPU_STR: &str = concat!("target_cpu=", env!("LANCE_FFI_TARGET_CPU"), "\0");

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T> {
    Ok(serde_json::from_slice(json)?)
}

fn metric(code: u32) -> Result<Option<DistanceType>> {
    Ok(match code {
        LANCE_FFI_METRIC_UNSET => None,
        LANCE_FFI_METRIC_L2 => Some(DistanceType::L2),
        LANCE_FFI_METRIC_COSINE => Some(DistanceType::Cosine),
        LANCE_FFI_METRIC_DOT => Some(DistanceType::Dot),
        LANCE_FFI_METRIC_HAMMING => Some(DistanceType::Hamming),
        other => return Err(Error::invalid(format!("metric {other} is unknown"))),
    })
}

fn metric_code(metric: DistanceType) -> u32 {
    match metric {
        DistanceType::L2 => LANCE_FFI_METRIC_L2,
        DistanceType::Cosine => LANCE_FFI_METRIC_COSINE,
        DistanceType::Dot => LANCE_FFI_METRIC_DOT,
        DistanceType::Hamming => LANCE_FFI_METRIC_HAMMING,
    }
}

fn optional(value: i64, what: &str) -> Result<Option<usize>> {
    match value {
        -1 => Ok(None),
        n if n >= 0 => Ok(Some(n as usize)),
        n => Err(Error::invalid(format!("{what} {n} is negative"))),
    }
}

/// # Safety
/// `ptr` points to `len` values that outlive `'a`, or `len` is 0.
unsafe fn values<'a, T>(ptr: *const T, len: usize, what: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if ptr.is_null() {
        return Err(Error::invalid(format!("{what} are null")));
    }
    // SAFETY: as the caller vouches.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// # Safety
/// `dataset` is null or a live handle.
unsafe fn opened(dataset: *const LanceFfiDataset) -> Result<Arc<Handle>> {
    // SAFETY: as the caller vouches.
    unsafe { dataset.as_ref() }
        .map(|d| d.0.clone())
        .ok_or_else(|| Error::invalid("the dataset handle is null"))
}

/// # Safety
/// `out` is null or valid for writing.
unsafe fn store<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::invalid("the out-parameter is null"));
    }
    // SAFETY: as the caller vouches.
    unsafe { out.write(value) };
    Ok(())
}

/// # Safety
/// Pointers of `search` are valid for their counts.
unsafe fn request(search: *const LanceFfiSearch, with_vectors: bool) -> Result<Request> {
    // SAFETY: as the caller vouches.
    let s = unsafe { search.as_ref() }.ok_or_else(|| Error::invalid("the search is null"))?;
    // SAFETY: as the caller vouches, for each pointer and its count.
    unsafe {
        let filter = s.filter.text("the filter")?;
        let vectors = if with_vectors {
            Vectors::copy(
                s.vectors,
                s.value_type,
                s.query_count,
                s.vectors_per_query as usize,
                s.dim,
            )?
        } else {
            Vectors::copy(std::ptr::null(), s.value_type, 0, s.vectors_per_query as usize, s.dim)?
        };
        Ok(Request {
            column: s.column.text("the column")?.to_string(),
            filter: match filter.trim() {
                "" => None,
                _ => Some(filter::complete(filter)?),
            },
            segments: values(s.segments, s.segment_count.saturating_mul(16), "the segments")?
                .chunks_exact(16)
                .map(|id| Uuid::from_slice(id).map_err(|e| Error::invalid(e.to_string())))
                .collect::<Result<_>>()?,
            fragments: values(s.fragments, s.fragment_count, "the fragments")?.to_vec(),
            vectors,
            k: s.k,
            refine_factor: (s.refine_factor > 0).then_some(s.refine_factor.min(u32::MAX as u64) as u32),
            nprobes: optional(s.nprobes, "nprobes")?,
            min_nprobes: optional(s.min_nprobes, "minimum nprobes")?,
            max_nprobes: optional(s.max_nprobes, "maximum nprobes")?,
            search_effort: (!s.search_effort.is_nan()).then_some(s.search_effort),
            ef: optional(s.ef, "ef")?,
            lower: (!s.distance_lower.is_nan()).then_some(s.distance_lower),
            upper: (!s.distance_upper.is_nan()).then_some(s.distance_upper),
            metric: metric(s.metric)?,
            query_parallelism: s.query_parallelism,
            approx_mode: match s.approx_mode {
                LANCE_FFI_APPROX_NORMAL => ApproxMode::Normal,
                LANCE_FFI_APPROX_FAST => ApproxMode::Fast,
                LANCE_FFI_APPROX_ACCURATE => ApproxMode::Accurate,
                other => return Err(Error::invalid(format!("approximation mode {other} is unknown"))),
            },
            use_index: s.use_index != 0,
            path: match s.path {
                LANCE_FFI_PATH_AUTO => Path::Auto,
                LANCE_FFI_PATH_SCANNER => Path::Scanner,
                LANCE_FFI_PATH_DIRECT => Path::Direct,
                other => return Err(Error::invalid(format!("path {other} is unknown"))),
            },
            probing: match s.probing {
                LANCE_FFI_PROBING_AUTO => Probing::Auto,
                LANCE_FFI_PROBING_PER_SEGMENT => Probing::PerSegment,
                LANCE_FFI_PROBING_SHARED => Probing::Shared,
                other => return Err(Error::invalid(format!("probing {other} is unknown"))),
            },
            threads: s.threads as usize,
            bounds: if s.bounds.is_null() {
                Vec::new()
            } else {
                values(s.bounds, s.query_count, "the bounds")?.to_vec()
            },
        })
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn lance_ffi_abi_version() -> u32 {
    LANCE_FFI_ABI_VERSION
}

/// Static JSON: version, lance, target, target_cpu, rustc. Not freed.
#[unsafe(no_mangle)]
pub extern "C" fn lance_ffi_build_info() -> LanceFfiSlice {
    LanceFfiSlice {
        ptr: BUILD_INFO.as_ptr(),
        len: BUILD_INFO.len(),
    }
}

/// Objects handed out and not yet freed: datasets, cancels, writers, errors, buffers, candidates.
#[unsafe(no_mangle)]
pub extern "C" fn lance_ffi_live_handles() -> i64 {
    live()
}

/// # Safety
/// `error` is null, or was filled by an entry and not freed since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_error_free(error: *mut LanceFfiError) {
    // SAFETY: as the caller vouches.
    let Some(error) = (unsafe { error.as_mut() }) else {
        return;
    };
    if error.message.is_null() {
        return;
    }
    // SAFETY: these are the parts of a Vec that `report` took apart.
    drop(unsafe { Vec::from_raw_parts(error.message, error.message_len, error.message_cap) });
    error.message = std::ptr::null_mut();
    returned();
}

/// # Safety
/// `buffer` is null, or was filled by an entry and not freed since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_buffer_free(buffer: *mut LanceFfiBuffer) {
    // SAFETY: as the caller vouches.
    let Some(buffer) = (unsafe { buffer.as_mut() }) else {
        return;
    };
    if buffer.ptr.is_null() {
        return;
    }
    // SAFETY: these are the parts of a Vec that `give_buffer` took apart.
    drop(unsafe { Vec::from_raw_parts(buffer.ptr, buffer.len, buffer.cap) });
    buffer.ptr = std::ptr::null_mut();
    returned();
}

/// # Safety
/// `candidates` is null, or was filled by an entry and not freed since.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_candidates_free(candidates: *mut LanceFfiCandidates) {
    // SAFETY: as the caller vouches.
    let Some(c) = (unsafe { candidates.as_mut() }) else {
        return;
    };
    if c.query.is_null() {
        return;
    }
    // SAFETY: these are boxed slices of `len` elements that `give_candidates` leaked.
    unsafe {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(c.query, c.len)));
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(c.distance, c.len)));
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(c.row_id, c.len)));
    }
    c.query = std::ptr::null_mut();
    returned();
}

#[unsafe(no_mangle)]
pub extern "C" fn lance_ffi_cancel_new() -> *mut LanceFfiCancel {
    handed_out();
    Box::into_raw(Box::new(LanceFfiCancel(CancellationToken::new())))
}

/// Ends the calls that were given this token; each returns once its work has stopped. May be called from any thread.
///
/// # Safety
/// `cancel` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_cancel_trigger(cancel: *const LanceFfiCancel) {
    // SAFETY: as the caller vouches.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.0.cancel();
    }
}

/// # Safety
/// `cancel` is null or live, and no call that uses it is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_cancel_free(cancel: *mut LanceFfiCancel) {
    if !cancel.is_null() {
        // SAFETY: as the caller vouches.
        drop(unsafe { Box::from_raw(cancel) });
        returned();
    }
}

/// Opens one exact version. Request, JSON: uri, version?, tag?, branch?, storage_options?, namespace? {impl: "dir" or
/// "rest", properties, table_id}, index_cache_bytes?, metadata_cache_bytes?.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_open(
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out: *mut *mut LanceFfiDataset,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let request = parse(request.bytes())?;
            let handle = wait(token(cancel).as_ref(), dataset::open(request))?;
            store(out, Box::into_raw(Box::new(LanceFfiDataset(Arc::new(handle)))))?;
            handed_out();
            Ok(())
        });
        report(result, error)
    }
}

/// # Safety
/// `dataset` is null or live, and no call that uses it is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_close(dataset: *mut LanceFfiDataset) {
    if dataset.is_null() {
        return;
    }
    // SAFETY: as the caller vouches.
    let owned = unsafe { Box::from_raw(dataset) };
    // Dropping a dataset may touch the runtime; a panic there must not reach C.
    let _ = guarded(move || {
        let _entered = crate::runtime::handle()?.enter();
        drop(owned);
        Ok(())
    });
    returned();
}

/// # Safety
/// `dataset` is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_version(dataset: *const LanceFfiDataset) -> u64 {
    // SAFETY: as the caller vouches.
    unsafe { opened(dataset) }.map_or(0, |handle| handle.version())
}

/// # Safety
/// Pointers are valid as their types say; `out` is zeroed memory of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_schema(
    dataset: *const LanceFfiDataset,
    out: *mut FFI_ArrowSchema,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let schema = Schema::from(opened(dataset)?.dataset.schema());
            store(out, FFI_ArrowSchema::try_from(&schema)?)
        });
        report(result, error)
    }
}

/// JSON: uri, version, stable_row_ids, fragments, indexes with their segments, other_indexes, monolithic.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_describe(
    dataset: *const LanceFfiDataset,
    cancel: *const LanceFfiCancel,
    out: *mut LanceFfiBuffer,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let json = wait(token(cancel).as_ref(), async move { describe::describe(&handle).await })?;
            give_buffer(serde_json::to_vec(&json)?, out)
        });
        report(result, error)
    }
}

/// JSON: field_id, path (canonical), value_type, dim, multivector.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_column(
    dataset: *const LanceFfiDataset,
    path: LanceFfiSlice,
    out: *mut LanceFfiBuffer,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let column = opened(dataset)?.column(path.text("the column")?)?;
            give_buffer(serde_json::to_vec(&describe::column(&column))?, out)
        });
        report(result, error)
    }
}

unsafe fn give_candidates(found: Found, call: &Call, started: Instant, out: *mut LanceFfiCandidates) -> Result<()> {
    let len = found.neighbors.iter().map(Vec::len).sum();
    let mut query = Vec::with_capacity(len);
    let mut distance = Vec::with_capacity(len);
    let mut row_id = Vec::with_capacity(len);
    for (at, list) in found.neighbors.iter().enumerate() {
        for (d, row) in list {
            query.push(at as u32);
            distance.push(*d);
            row_id.push(*row);
        }
    }
    let counters = &call.counters;
    let (bytes_read, requests) = counters.io();
    let nanos = |n: &std::sync::atomic::AtomicU64| n.load(std::sync::atomic::Ordering::Relaxed);
    let candidates = LanceFfiCandidates {
        query: Box::into_raw(query.into_boxed_slice()).cast(),
        distance: Box::into_raw(distance.into_boxed_slice()).cast(),
        row_id: Box::into_raw(row_id.into_boxed_slice()).cast(),
        len,
        stats: LanceFfiStats {
            path: match found.path {
                Path::Direct => LANCE_FFI_PATH_DIRECT,
                _ => LANCE_FFI_PATH_SCANNER,
            },
            exact: found.exact as u32,
            metric: metric_code(found.metric),
            reserved: 0,
            segments_searched: Counters::get(&counters.segments),
            partitions_ranked: Counters::get(&counters.ranked),
            partitions_searched: Counters::get(&counters.partitions),
            bytes_read,
            requests,
            cache_hits: Counters::get(&counters.hits),
            cache_misses: Counters::get(&counters.misses),
            filter_nanos: nanos(&call.timing.filter_nanos),
            rank_nanos: nanos(&call.timing.rank_nanos),
            search_nanos: nanos(&call.timing.search_nanos),
            total_nanos: started.elapsed().as_nanos() as u64,
        },
    };
    // SAFETY: as the caller vouches.
    unsafe { store(out, candidates)? };
    handed_out();
    Ok(())
}

/// Nearest neighbours of a matrix of queries, over chosen segments, chosen fragments, or all of the dataset.
///
/// # Safety
/// Pointers are valid as their types and counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_search(
    dataset: *const LanceFfiDataset,
    search: *const LanceFfiSearch,
    cancel: *const LanceFfiCancel,
    out: *mut LanceFfiCandidates,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let started = Instant::now();
            if out.is_null() {
                return Err(Error::invalid("the out-parameter is null"));
            }
            let handle = opened(dataset)?;
            let mut request = request(search, true)?;
            let cancel = token(cancel);
            let call = Call::new(cancel.clone().unwrap_or_default());
            let (column, route) = wait_here(call.or_cancelled(search::route(&handle, &mut request, &call)))?;
            let found = match route {
                Route::Nothing(metric) => Found {
                    neighbors: vec![Vec::new(); request.vectors.queries],
                    exact: true,
                    metric,
                    path: Path::Scanner,
                },
                Route::Direct(plan) => wait_here(direct::run(handle, plan, Arc::new(request), call.clone()))?,
                Route::Scanner => wait(
                    cancel.as_ref(),
                    search::run_scanner(handle, request, column, call.clone()),
                )?,
            };
            give_candidates(found, &call, started, out)
        });
        report(result, error)
    }
}

/// JSON: direct (whether this search takes the direct path), reasons (why not). The vectors are not read.
///
/// # Safety
/// Pointers are valid as their types and counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_eligibility(
    dataset: *const LanceFfiDataset,
    search: *const LanceFfiSearch,
    cancel: *const LanceFfiCancel,
    out: *mut LanceFfiBuffer,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request = request(search, false)?;
            let reasons = wait(token(cancel).as_ref(), async move {
                search::eligibility(&handle, request).await
            })?;
            let json = serde_json::json!({"direct": reasons.is_empty(), "reasons": reasons});
            give_buffer(serde_json::to_vec(&json)?, out)
        });
        report(result, error)
    }
}

/// Exact distances of rows to queries: out_distances[i] for (query[i], row_id[i]), NaN where the row has no vector. The
/// distinct rows are read at once. metric must be set.
///
/// # Safety
/// Pointers are valid as their types and counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_refine(
    dataset: *const LanceFfiDataset,
    column: LanceFfiSlice,
    metric: u32,
    vectors: *const u8,
    value_type: u32,
    vectors_per_query: u32,
    query_count: usize,
    dim: usize,
    query: *const u32,
    row_id: *const u64,
    len: usize,
    out_distances: *mut f32,
    cancel: *const LanceFfiCancel,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let metric = crate::ffi::metric(metric)?
                .ok_or_else(|| Error::invalid("refining needs a metric: give the one the candidates came with"))?;
            let column = column.text("the column")?.to_string();
            let vectors = Vectors::copy(vectors, value_type, query_count, vectors_per_query as usize, dim)?;
            let pairs: Vec<(u32, u64)> = values(query, len, "the queries")?
                .iter()
                .copied()
                .zip(values(row_id, len, "the row ids")?.iter().copied())
                .collect();
            if len == 0 {
                return Ok(());
            }
            if out_distances.is_null() {
                return Err(Error::invalid("the out-parameter is null"));
            }
            let distances = wait(token(cancel).as_ref(), async move {
                match handle.refine(&column, metric, &vectors, &pairs).await {
                    Ok(distances) => Ok(distances),
                    Err(error) => Err(handle.explain(error).await),
                }
            })?;
            std::ptr::copy_nonoverlapping(distances.as_ptr(), out_distances, distances.len());
            Ok(())
        });
        report(result, error)
    }
}

/// Rows in the order given. columns: JSON array of field paths. Exported as one struct array into zeroed memory of the
/// caller, who releases both.
///
/// # Safety
/// Pointers are valid as their types and counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_take(
    dataset: *const LanceFfiDataset,
    row_ids: *const u64,
    len: usize,
    columns: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out_array: *mut FFI_ArrowArray,
    out_schema: *mut FFI_ArrowSchema,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let rows = values(row_ids, len, "the row ids")?.to_vec();
            let columns: Vec<String> = parse(columns.bytes())?;
            if out_array.is_null() || out_schema.is_null() {
                return Err(Error::invalid("an out-parameter is null"));
            }
            let batch = wait(token(cancel).as_ref(), async move {
                match handle.take(&rows, &columns).await {
                    Ok(batch) => Ok(batch),
                    Err(error) => Err(handle.explain(error).await),
                }
            })?;
            let schema = FFI_ArrowSchema::try_from(batch.schema().as_ref())?;
            let array = FFI_ArrowArray::new(&StructArray::from(batch).to_data());
            store(out_schema, schema)?;
            store(out_array, array)
        });
        report(result, error)
    }
}

/// Loads what searches will need. Request, JSON: column, index?, segments?, filter?, partitions? (true: all of them).
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_prewarm(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: PrewarmRequest = parse(request.bytes())?;
            wait(
                token(cancel).as_ref(),
                async move { prewarm::run(&handle, request).await },
            )
        });
        report(result, error)
    }
}

/// Deletes the rows that the predicate keeps and commits a new version. The handle stays on its own.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_delete(
    dataset: *const LanceFfiDataset,
    predicate: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out_version: *mut u64,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let predicate = filter::complete(predicate.text("the predicate")?)?;
            let version = wait(token(cancel).as_ref(), async move {
                write::delete(&handle.dataset, &predicate).await
            })?;
            store(out_version, version)
        });
        report(result, error)
    }
}

/// Request, JSON: target_rows_per_fragment?, materialize_deletions?, defer_index_remap?. Out, JSON: version,
/// fragments_removed, fragments_added.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_compact(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out: *mut LanceFfiBuffer,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: CompactRequest = parse(request.bytes())?;
            let json = wait(token(cancel).as_ref(), async move {
                write::compact(&handle.dataset, &request).await
            })?;
            give_buffer(serde_json::to_vec(&json)?, out)
        });
        report(result, error)
    }
}

/// Builds a vector index and commits it. Request, JSON: column, type, name?, metric?, partitions?, sub_vectors?,
/// num_bits?, m?, ef_construction?, max_level?, sample_rate?, max_iterations?, replace?, fragments?.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_index_create(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out_version: *mut u64,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: IndexRequest = parse(request.bytes())?;
            let version = wait(token(cancel).as_ref(), async move {
                index::create(&handle.dataset, request).await
            })?;
            store(out_version, version)
        });
        report(result, error)
    }
}

/// Builds one segment over the request's fragments without committing it. Out: text for lance_ffi_index_commit_segments.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_index_create_segment(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out: *mut LanceFfiBuffer,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: IndexRequest = parse(request.bytes())?;
            let text = wait(token(cancel).as_ref(), async move {
                index::create_segment(&handle.dataset, request).await
            })?;
            give_buffer(text.into_bytes(), out)
        });
        report(result, error)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitRequest {
    name: String,
    column: String,
    segments: Vec<serde_json::Value>,
}

/// Commits segments as one index. Request, JSON: name, column, segments (texts of lance_ffi_index_create_segment).
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_index_commit_segments(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out_version: *mut u64,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: CommitRequest = parse(request.bytes())?;
            let segments = request
                .segments
                .into_iter()
                .map(|segment| match segment {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                })
                .collect();
            let version = wait(token(cancel).as_ref(), async move {
                index::commit_segments(&handle.dataset, &request.name, &request.column, segments).await
            })?;
            store(out_version, version)
        });
        report(result, error)
    }
}

/// Request, JSON: column, type ("BTREE" or "BITMAP"), name?, replace?.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_scalar_index_create(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    out_version: *mut u64,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: ScalarRequest = parse(request.bytes())?;
            let version = wait(token(cancel).as_ref(), async move {
                index::create_scalar(&handle.dataset, request).await
            })?;
            store(out_version, version)
        });
        report(result, error)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TagRequest {
    tag: String,
    version: u64,
}

/// Creates or moves a tag. Request, JSON: tag, version.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_dataset_tag(
    dataset: *const LanceFfiDataset,
    request: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let handle = opened(dataset)?;
            let request: TagRequest = parse(request.bytes())?;
            wait(token(cancel).as_ref(), async move {
                write::tag(&handle.dataset, &request.tag, request.version).await
            })
        });
        report(result, error)
    }
}

/// Starts a write. Request, JSON: uri, mode ("create", "append", "overwrite"), max_rows_per_file?,
/// max_rows_per_group?, stable_row_ids?, data_storage_version?, storage_options?, namespace?.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_writer_open(
    request: LanceFfiSlice,
    out: *mut *mut LanceFfiWriter,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let request: WriteRequest = parse(request.bytes())?;
            let writer = Writer::open(request)?;
            store(
                out,
                Box::into_raw(Box::new(LanceFfiWriter(Arc::new(tokio::sync::Mutex::new(writer))))),
            )?;
            handed_out();
            Ok(())
        });
        report(result, error)
    }
}

/// # Safety
/// `writer` is null or live.
unsafe fn writing(writer: *const LanceFfiWriter) -> Result<Arc<tokio::sync::Mutex<Writer>>> {
    // SAFETY: as the caller vouches.
    unsafe { writer.as_ref() }
        .map(|w| w.0.clone())
        .ok_or_else(|| Error::invalid("the writer is null"))
}

/// Takes the next bytes of one Arrow IPC stream; chunks may end anywhere.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_writer_push(
    writer: *mut LanceFfiWriter,
    ipc: LanceFfiSlice,
    cancel: *const LanceFfiCancel,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let writer = writing(writer)?;
            let bytes = ipc.bytes().to_vec();
            wait(
                token(cancel).as_ref(),
                async move { writer.lock().await.push(&bytes).await },
            )
        });
        report(result, error)
    }
}

/// Commits and gives the version. The writer must still be freed.
///
/// # Safety
/// Pointers are valid as their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_writer_finish(
    writer: *mut LanceFfiWriter,
    cancel: *const LanceFfiCancel,
    out_version: *mut u64,
    error: *mut LanceFfiError,
) -> i32 {
    // SAFETY: as the caller vouches.
    unsafe {
        let result = guarded(|| {
            let writer = writing(writer)?;
            let version = wait(
                token(cancel).as_ref(),
                async move { writer.lock().await.finish().await },
            )?;
            store(out_version, version)
        });
        report(result, error)
    }
}

/// Without a finish nothing is committed.
///
/// # Safety
/// `writer` is null or live, and no call that uses it is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lance_ffi_writer_free(writer: *mut LanceFfiWriter) {
    if writer.is_null() {
        return;
    }
    // SAFETY: as the caller vouches.
    let owned = unsafe { Box::from_raw(writer) };
    // Waits until the write has stopped: the caller may remove the files next.
    let _ = guarded(move || match Arc::try_unwrap(owned.0) {
        Ok(writer) => wait(None, async move {
            writer.into_inner().discard().await;
            Ok(())
        }),
        Err(_) => Ok(()),
    });
    returned();
}
