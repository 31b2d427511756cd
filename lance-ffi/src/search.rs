//! One nearest-neighbour search: checked, sent down the direct path or the Scanner's, ordered, refined.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use lance_index::vector::ApproxMode;
use lance_linalg::distance::DistanceType;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::dataset::{ColumnInfo, Handle};
use crate::direct;
use crate::error::{Error, Result};
use crate::metrics::Counters;
use crate::scan;
use crate::vectors::Vectors;

/// A width of graph search that allocates a few tens of MiB; wider ones are cut to it, or to the rows there are.
const MAX_EF: usize = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    Auto,
    Scanner,
    Direct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probing {
    /// Shared when the caller set nothing about probes, per segment otherwise.
    Auto,
    /// Lance's own rules, segment by segment.
    PerSegment,
    /// One budget over all segments of the call.
    Shared,
}

#[derive(Debug, Clone)]
pub struct Request {
    pub column: String,
    pub filter: Option<String>,
    pub segments: Vec<Uuid>,
    pub fragments: Vec<u32>,
    pub vectors: Vectors,
    pub k: u64,
    pub refine_factor: Option<u32>,
    pub nprobes: Option<usize>,
    pub min_nprobes: Option<usize>,
    pub max_nprobes: Option<usize>,
    pub search_effort: Option<f64>,
    pub ef: Option<usize>,
    pub lower: Option<f32>,
    pub upper: Option<f32>,
    pub metric: Option<DistanceType>,
    pub query_parallelism: i32,
    pub approx_mode: ApproxMode,
    pub use_index: bool,
    pub path: Path,
    pub probing: Probing,
    pub threads: usize,
    /// A k-th distance known from elsewhere, per query; empty or +Inf where none is.
    pub bounds: Vec<f32>,
}

impl Request {
    pub fn shared_probing(&self) -> bool {
        match self.probing {
            Probing::Shared => true,
            Probing::PerSegment => false,
            Probing::Auto => self.nprobes.is_none() && self.min_nprobes.is_none() && self.max_nprobes.is_none(),
        }
    }

    /// Candidates wanted per query before refinement.
    pub fn candidates(&self) -> usize {
        (self.k as usize).saturating_mul(self.refine_factor.unwrap_or(1).max(1) as usize)
    }

    fn check(&self, column: &ColumnInfo) -> Result<()> {
        if self.k == 0 {
            return Err(Error::invalid("k must be at least 1"));
        }
        if self.nprobes == Some(0) || self.max_nprobes == Some(0) {
            return Err(Error::invalid(
                "nprobes 0 searches nothing: leave it unset, or give at least 1",
            ));
        }
        if let (Some(min), Some(max)) = (self.min_nprobes, self.max_nprobes)
            && min > max
        {
            return Err(Error::invalid(format!(
                "minimum nprobes {min} is above maximum nprobes {max}"
            )));
        }
        if let Some(effort) = self.search_effort
            && !(0.0..=1.0).contains(&effort)
        {
            return Err(Error::invalid(format!("search effort {effort} is outside [0, 1]")));
        }
        if self.query_parallelism < -1 {
            return Err(Error::invalid(format!(
                "query parallelism {} is below -1: -1 is all cores, 0 Lance's choice",
                self.query_parallelism
            )));
        }
        if let Some(metric) = self.metric {
            lance::index::vector::utils::validate_distance_type_for(metric, &column.element)?;
        }
        if !self.bounds.is_empty() && self.bounds.len() != self.vectors.queries {
            return Err(Error::invalid(format!(
                "{} bounds were given for {} queries",
                self.bounds.len(),
                self.vectors.queries
            )));
        }
        self.vectors.check(column)
    }
}

/// Per query, (distance, row id) in that order.
pub type Neighbors = Vec<Vec<(f32, u64)>>;

pub struct Found {
    pub neighbors: Neighbors,
    pub exact: bool,
    pub metric: DistanceType,
    pub path: Path,
}

#[derive(Default)]
pub struct Timing {
    pub filter_nanos: AtomicU64,
    pub rank_nanos: AtomicU64,
    pub search_nanos: AtomicU64,
}

impl Timing {
    pub fn add(counter: &AtomicU64, since: Instant) {
        counter.fetch_add(since.elapsed().as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

pub struct Call {
    pub counters: Arc<Counters>,
    pub timing: Timing,
    pub cancel: CancellationToken,
}

impl Call {
    pub fn new(cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            counters: Arc::default(),
            timing: Timing::default(),
            cancel,
        })
    }

    /// Work that may wait for storage and holds nothing of the caller's: dropped where it stands when the call is
    /// cancelled.
    pub async fn or_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            _ = self.cancel.cancelled() => Err(Error::cancelled()),
        }
    }
}

/// What a search will do, decided before it starts.
pub enum Route {
    /// Nothing can be found: an empty table, or no query.
    Nothing(DistanceType),
    Direct(direct::Plan),
    Scanner,
}

/// Clamps k to what exists and picks the path. Lance allocates k, and k x refine factor, without asking whether that
/// many rows exist; a k of 2^31 aborts the process.
pub async fn route(handle: &Arc<Handle>, request: &mut Request, call: &Call) -> Result<(ColumnInfo, Route)> {
    let column = handle.column(&request.column)?;
    request.column = column.path.clone();
    request.check(&column)?;
    if let Some(filter) = &request.filter {
        handle.warm.check_filter(handle, filter).await?;
    }
    let live = handle.live_rows().await?;
    let default_metric = lance::index::vector::utils::default_distance_type_for(&column.element);
    if live == 0 || request.vectors.queries == 0 {
        return Ok((column, Route::Nothing(request.metric.unwrap_or(default_metric))));
    }
    request.k = request.k.min(live);
    // HNSW allocates ef entries, so only what could not be allocated is cut: a multivector search asks each graph for more
    // candidates than k x refine factor, and refuses an ef below that.
    request.ef = request.ef.map(|ef| ef.min(MAX_EF.max(live as usize)));
    if let Some(factor) = request.refine_factor {
        if factor == 0 {
            return Err(Error::invalid(
                "refine factor 0 keeps nothing: leave it unset, or give at least 1",
            ));
        }
        request.refine_factor = Some((factor as u64).min(live.div_ceil(request.k)) as u32);
    }
    if request.path == Path::Scanner {
        return Ok((column, Route::Scanner));
    }
    match direct::plan(handle, request, &column, call).await? {
        Ok(plan) => Ok((column, Route::Direct(plan))),
        Err(_) if request.path == Path::Auto => Ok((column, Route::Scanner)),
        Err(reasons) => Err(Error::unsupported(format!(
            "this query cannot take the direct path: {}",
            reasons.join("; ")
        ))),
    }
}

/// Why a query does not take the direct path; empty when it does.
pub async fn eligibility(handle: &Arc<Handle>, mut request: Request) -> Result<Vec<String>> {
    let column = handle.column(&request.column)?;
    request.column = column.path.clone();
    if request.path == Path::Scanner {
        return Ok(vec!["the caller asked for Lance's Scanner".into()]);
    }
    let call = Call::new(CancellationToken::new());
    Ok(direct::plan(handle, &request, &column, &call)
        .await?
        .err()
        .unwrap_or_default())
}

pub async fn finish(handle: &Arc<Handle>, request: &Request, mut found: Found) -> Result<Found> {
    if let (Some(_), Path::Direct) = (request.refine_factor, found.path) {
        let pairs: Vec<(u32, u64)> = found
            .neighbors
            .iter()
            .enumerate()
            .flat_map(|(q, list)| list.iter().map(move |(_, row)| (q as u32, *row)))
            .collect();
        let distances = handle
            .refine(&request.column, found.metric, &request.vectors, &pairs)
            .await?;
        let mut distances = distances.into_iter();
        for list in &mut found.neighbors {
            for neighbor in list.iter_mut() {
                neighbor.0 = distances.next().unwrap_or(f32::NAN);
            }
            list.retain(|(d, _)| {
                request.lower.is_none_or(|low| *d >= low) && request.upper.is_none_or(|high| *d < high)
            });
        }
        found.exact = true;
    }
    for list in &mut found.neighbors {
        order(list, request.k as usize);
    }
    Ok(found)
}

/// The total order of results: distance, then row id. NaN is no distance.
fn order(list: &mut Vec<(f32, u64)>, k: usize) {
    list.retain(|(d, _)| !d.is_nan());
    list.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    list.dedup_by_key(|(_, row)| *row);
    list.truncate(k);
}

pub async fn run_scanner(handle: Arc<Handle>, request: Request, column: ColumnInfo, call: Arc<Call>) -> Result<Found> {
    let found = match scan::run(&handle, &request, &column, &call).await {
        Ok(found) => found,
        Err(error) => return Err(handle.explain(error).await),
    };
    finish(&handle, &request, found).await
}
