//! The search as Lance's own Scanner does it: for every query that the direct path does not take.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use futures::{StreamExt, TryStreamExt};
use lance::dataset::scanner::Scanner;
use lance_index::vector::ApproxMode;
use lance_linalg::distance::DistanceType;
use lance_select::RowAddrMask;
use lance_table::format::{Fragment, IndexMetadata};
use roaring::RoaringBitmap;

use crate::dataset::{ColumnInfo, Handle};
use crate::error::{Error, Result};
use crate::metrics::Counters;
use crate::runtime::cores;
use crate::search::{Call, Found, Neighbors, Path, Request, Timing};

/// Lance keeps a heap of k for every query of a batch; wider batches are cut so that heaps stay within this.
const BATCH_HEAP_ENTRIES: usize = 4 << 20;

fn fragments(handle: &Handle, wanted: &[u32]) -> Result<Vec<Fragment>> {
    let live = handle.dataset.fragments();
    let known: HashSet<u32> = live.iter().map(|f| f.id as u32).collect();
    if let Some(missing) = wanted.iter().find(|id| !known.contains(id)) {
        return Err(Error::not_found(format!(
            "fragment {missing} is not live in version {}",
            handle.version()
        )));
    }
    let wanted: HashSet<u32> = wanted.iter().copied().collect();
    Ok(live
        .iter()
        .filter(|f| wanted.contains(&(f.id as u32)))
        .cloned()
        .collect())
}

/// The metric that Lance will use, so that the caller can compare it with other tasks'.
pub async fn metric(handle: &Handle, request: &Request, column: &ColumnInfo) -> Result<(DistanceType, bool)> {
    let default = lance::index::vector::utils::default_distance_type_for(&column.element);
    if !request.use_index {
        return Ok((request.metric.unwrap_or(default), true));
    }
    let indices = handle.indices().await?;
    let chosen = indices.iter().find(|index| {
        index.fields.first() == Some(&column.field_id)
            && (request.segments.is_empty() || request.segments.contains(&index.uuid))
            && index
                .index_details
                .as_ref()
                .is_none_or(|d| d.value.is_empty() || d.type_url.ends_with("VectorIndexDetails"))
    });
    let Some(chosen) = chosen else {
        return Ok((request.metric.unwrap_or(default), true));
    };
    let counters = Counters::default();
    let segment = handle.warm.segment(handle, &request.column, chosen, &counters).await?;
    match request.metric {
        // Lance falls back to a flat search when an index it chose by itself has another metric.
        Some(metric) if metric != segment.metric => Ok((metric, true)),
        _ => Ok((
            segment.metric,
            request.refine_factor.is_some() || scans_beside(handle, request, indices, chosen),
        )),
    }
}

/// Whether Lance will also scan fragments that the index does not cover: then it re-scores all candidates exactly.
fn scans_beside(handle: &Handle, request: &Request, indices: &[IndexMetadata], chosen: &IndexMetadata) -> bool {
    let target: RoaringBitmap = match (request.fragments.is_empty(), request.segments.is_empty()) {
        (false, _) => request.fragments.iter().copied().collect(),
        (true, true) => handle.dataset.fragment_bitmap().as_ref().clone(),
        (true, false) => return false,
    };
    let mut covered = RoaringBitmap::new();
    for index in indices
        .iter()
        .filter(|i| i.name == chosen.name && (request.segments.is_empty() || request.segments.contains(&i.uuid)))
    {
        match &index.fragment_bitmap {
            Some(bitmap) => covered |= bitmap,
            None => return false,
        }
    }
    !target.is_subset(&covered)
}

fn configure(
    scanner: &mut Scanner,
    handle: &Handle,
    request: &Request,
    live: Option<&Arc<RowAddrMask>>,
    query: &dyn Array,
) -> Result<()> {
    // Before `nearest`: the default is a filter after the neighbours are chosen.
    scanner.prefilter(true);
    if !request.fragments.is_empty() {
        scanner.with_fragments(fragments(handle, &request.fragments)?);
    }
    if let Some(filter) = &request.filter {
        scanner.filter(filter)?;
    }
    scanner.nearest(&request.column, query, request.k as usize)?;
    if let Some(n) = request.nprobes {
        scanner.nprobes(n);
    }
    if let Some(n) = request.min_nprobes {
        scanner.minimum_nprobes(n);
    }
    if let Some(n) = request.max_nprobes {
        scanner.maximum_nprobes(n);
    }
    if let Some(effort) = request.search_effort {
        scanner.search_effort(effort)?;
    }
    if let Some(ef) = request.ef {
        scanner.ef(ef);
    }
    if let Some(factor) = request.refine_factor {
        scanner.refine(factor);
    }
    if request.lower.is_some() || request.upper.is_some() {
        scanner.distance_range(request.lower, request.upper);
    }
    if let Some(metric) = request.metric {
        scanner.distance_metric(metric);
    }
    if request.approx_mode != ApproxMode::Normal {
        scanner.approx_mode(request.approx_mode);
    }
    scanner.query_parallelism(request.query_parallelism);
    scanner.use_index(request.use_index);
    if request.use_index && !request.segments.is_empty() {
        scanner.with_index_segments(request.segments.clone())?;
    }
    if let Some(live) = live {
        scanner.with_row_id_prefilter(live.as_ref().clone());
    }
    scanner.with_row_id();
    scanner.project(&[lance_index::vector::DIST_COL, lance_core::ROW_ID])?;
    Ok(())
}

async fn collect(mut scanner: Scanner, call: &Arc<Call>) -> Result<Vec<RecordBatch>> {
    let counters = call.counters.clone();
    scanner.scan_stats_callback(Arc::new(move |stats| {
        counters.record_scan(stats);
    }));
    let batches = scanner.try_into_stream().await?.try_collect().await?;
    Ok(batches)
}

fn push(batches: &[RecordBatch], first: usize, out: &mut Neighbors) -> Result<()> {
    for batch in batches {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| Error::internal(format!("the search gave no {name} column")))
        };
        let distances = column(lance_index::vector::DIST_COL)?.as_primitive::<Float32Type>();
        let rows = column(lance_core::ROW_ID)?.as_primitive::<UInt64Type>();
        let queries = batch
            .column_by_name("query_index")
            .map(|c| c.as_primitive::<Int32Type>());
        for i in 0..batch.num_rows() {
            if distances.is_null(i) || rows.is_null(i) {
                continue;
            }
            let query = first + queries.map_or(0, |q| q.value(i) as usize);
            out.get_mut(query)
                .ok_or_else(|| Error::internal(format!("the search answered query {query}, which was not asked")))?
                .push((distances.value(i), rows.value(i)));
        }
    }
    Ok(())
}

pub async fn run(handle: &Arc<Handle>, request: &Request, column: &ColumnInfo, call: &Arc<Call>) -> Result<Found> {
    let started = Instant::now();
    let (metric, exact) = metric(handle, request, column).await?;
    let live = if request.use_index {
        handle.warm.live(handle).await?
    } else {
        None
    };
    let queries = request.vectors.queries;
    let mut neighbors: Neighbors = vec![Vec::new(); queries];
    // A flat search reads the vectors once for a whole batch. With an index each query goes alone: Lance's shared batch
    // path masks all segments with one filter, so it may return rows that a segment no longer owns.
    if !request.use_index && request.vectors.per_query == 0 && queries > 1 {
        let width = (BATCH_HEAP_ENTRIES / request.candidates()).clamp(1, queries);
        for first in (0..queries).step_by(width) {
            let last = (first + width).min(queries);
            let mut scanner = handle.dataset.scan();
            configure(
                &mut scanner,
                handle,
                request,
                live,
                request.vectors.batch(first, last)?.as_ref(),
            )?;
            push(&collect(scanner, call).await?, first, &mut neighbors)?;
        }
    } else {
        let threads = if request.threads == 0 { cores() } else { request.threads };
        let results: Vec<(usize, Vec<RecordBatch>)> = futures::stream::iter(0..queries)
            .map(|at| async move {
                let mut scanner = handle.dataset.scan();
                configure(
                    &mut scanner,
                    handle,
                    request,
                    live,
                    request.vectors.nearest_query(at)?.as_ref(),
                )?;
                Ok::<_, Error>((at, collect(scanner, call).await?))
            })
            .buffer_unordered(threads)
            .try_collect()
            .await?;
        for (at, batches) in results {
            push(&batches, at, &mut neighbors)?;
        }
    }
    Timing::add(&call.timing.search_nanos, started);
    Ok(Found {
        neighbors,
        exact,
        metric,
        path: Path::Scanner,
    })
}
