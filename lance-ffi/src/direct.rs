//! The search through Lance's index interface, without a query plan: partitions of all segments are read by all cores
//! into one heap a query.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float32Array, RecordBatch, UInt32Array};
use futures::stream::{FuturesUnordered, StreamExt, TryStreamExt};
use lance_index::vector::pretransform::PreTransformIndex;
use lance_index::vector::quantizer::QuantizationType;
use lance_index::vector::v3::subindex::SubIndexType;
use lance_index::vector::{PreparedPartitionSearchHandle, Query};
use lance_linalg::distance::DistanceType;
use lance_linalg::kernels::normalize_arrow;
use lance_table::format::IndexMetadata;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::task::JoinSet;

use crate::dataset::{ColumnInfo, Handle};
use crate::error::{Error, Result};
use crate::metrics::Counters;
use crate::probe::{self, Frontier, Probe, Rule};
use crate::runtime::{cores, joined};
use crate::search::{Call, Found, Neighbors, Path, Request, Timing};
use crate::vectors::floats;
use crate::warm::{Rows, Segment};

/// Partitions that one worker has on their way from storage at a time. Those in memory are never waited for, so this
/// costs nothing when warm and hides latency when cold.
const READ_AHEAD: usize = 8;

/// Queries of a matrix that are ranked at a time: a ranking holds an entry for every partition.
const BLOCK: usize = 256;

/// Partitions that a query of a matrix reads by itself. Most have found their neighbours by then; those that have not go
/// on to read much of the index, and do it together.
const ALONE: usize = 48;

/// Partitions that each of them reads before what was found tells how far the others still have to.
const TOGETHER: usize = 48;

enum Probing {
    Shared { effort: f32 },
    Fixed { nprobes: usize },
}

pub struct Plan {
    segments: Vec<Arc<Segment>>,
    metric: DistanceType,
    probing: Probing,
    exact: bool,
}

fn probing(request: &Request) -> std::result::Result<Probing, String> {
    if request.shared_probing() {
        return Ok(Probing::Shared {
            effort: request.search_effort.unwrap_or(0.5) as f32,
        });
    }
    match (
        request.nprobes,
        request.min_nprobes,
        request.max_nprobes,
        request.search_effort,
    ) {
        (Some(n), min, max, None) if min.is_none_or(|m| m == n) && max.is_none_or(|m| m == n) => {
            Ok(Probing::Fixed { nprobes: n })
        }
        (None, Some(n), Some(max), None) if n == max => Ok(Probing::Fixed { nprobes: n }),
        _ => Err("the number of probes adapts to each query by Lance's own rule".into()),
    }
}

/// Decides whether the query can take the direct path: the one place that knows. The inner error lists why not.
pub async fn plan(
    handle: &Arc<Handle>,
    request: &Request,
    column: &ColumnInfo,
    call: &Call,
) -> Result<std::result::Result<Plan, Vec<String>>> {
    let mut reasons: Vec<String> = Vec::new();
    if !request.use_index {
        reasons.push("a flat search reads the column, not an index".into());
    }
    if column.multivector {
        reasons.push("a multivector column is scored over all of its vectors".into());
    }
    if !request.fragments.is_empty() {
        reasons.push("the search is restricted to fragments".into());
    }
    if request.segments.is_empty() {
        reasons.push("no index segments were chosen".into());
    }
    let probing = probing(request);
    if let Err(reason) = &probing {
        reasons.push(reason.clone());
    }
    if matches!(probing, Ok(Probing::Shared { .. })) && !column.element.is_floating() {
        reasons.push("hamming distance has no rule for shared probing".into());
    }
    if !reasons.is_empty() {
        return Ok(Err(reasons));
    }
    let indices = handle.indices().await?;
    if indices
        .iter()
        .any(|i| i.name == lance_index::frag_reuse::FRAG_REUSE_INDEX_NAME)
    {
        return Ok(Err(vec![
            "rows were moved by a compaction that deferred remapping the index".into(),
        ]));
    }
    let mut chosen: Vec<&IndexMetadata> = Vec::with_capacity(request.segments.len());
    for id in &request.segments {
        match indices.iter().find(|i| i.uuid == *id) {
            Some(meta) => chosen.push(meta),
            None => {
                return Err(Error::not_found(format!(
                    "index segment {id} does not exist in version {}",
                    handle.version()
                )));
            }
        }
    }
    if chosen
        .iter()
        .any(|m| m.fields.first() != Some(&column.field_id) || m.name != chosen[0].name)
    {
        return Err(Error::invalid(format!(
            "the segments are not all of one index on column {:?}",
            column.path
        )));
    }
    let mut covered = RoaringBitmap::new();
    for meta in &chosen {
        let Some(bitmap) = &meta.fragment_bitmap else {
            return Ok(Err(vec![format!(
                "segment {} does not say which fragments it covers",
                meta.uuid
            )]));
        };
        let live = bitmap & handle.dataset.fragment_bitmap().as_ref();
        if !live.is_disjoint(&covered) {
            return Ok(Err(vec!["segments overlap".into()]));
        }
        covered |= live;
    }
    if handle
        .dataset
        .fragments()
        .iter()
        .any(|f| !f.overlays.is_empty() && covered.contains(f.id as u32))
    {
        return Ok(Err(vec!["data overlays changed indexed rows".into()]));
    }
    let segments = handle
        .warm
        .segments(handle, &request.column, &chosen, &call.counters)
        .await?;
    let metric = segments[0].metric;
    if let Some(other) = segments.iter().find(|s| s.metric != metric) {
        return Err(Error::invalid(format!(
            "index {:?} mixes metrics: segment {} has {}, segment {} has {}",
            segments[0].meta.name, segments[0].meta.uuid, metric, other.meta.uuid, other.metric
        )));
    }
    if let Some(wanted) = request.metric
        && wanted != metric
    {
        return Err(Error::invalid(format!(
            "index {:?} measures {metric}, not {wanted}",
            segments[0].meta.name
        )));
    }
    for segment in &segments {
        let id = segment.meta.uuid;
        if segment.index.as_any().is::<PreTransformIndex>() {
            reasons.push(format!("segment {id} transforms its vectors"));
        } else if !segment.index.supports_prepared_partition_search() {
            reasons.push(format!("segment {id} has a legacy format"));
        } else if matches!(probing, Ok(Probing::Shared { .. }))
            && segment.geometry.as_ref().is_none_or(|g| g.dim != column.dim)
        {
            reasons.push(format!(
                "segment {id} does not say how far its rows lie from their centroids"
            ));
        }
    }
    match probing {
        Ok(probing) if reasons.is_empty() => {
            let exact = segments
                .iter()
                .all(|s| matches!(s.quantization, QuantizationType::Flat | QuantizationType::FlatBin));
            Ok(Ok(Plan {
                segments,
                metric,
                probing,
                exact,
            }))
        }
        _ => Ok(Err(reasons)),
    }
}

#[derive(PartialEq)]
struct Neighbor {
    distance: f32,
    row: u64,
}

impl Eq for Neighbor {}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> Order {
        self.distance.total_cmp(&other.distance).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

/// Neighbours watched at least, to tell whether a search still finds any: of one or two, hardly a partition has one.
const WATCHED: usize = 10;

/// The best k of one query so far, worst on top.
struct TopK {
    k: usize,
    heap: BinaryHeap<Neighbor>,
    /// Where other than k of them are watched: k may be less, or far more, for a refinement to choose from.
    watched: Option<(usize, BinaryHeap<Neighbor>)>,
    /// Batches taken in.
    scored: usize,
}

/// Keeps the best `most`; whether the new one is among them.
fn keep(heap: &mut BinaryHeap<Neighbor>, most: usize, new: Neighbor) -> bool {
    if heap.len() < most {
        heap.push(new);
        return true;
    }
    match heap.peek_mut() {
        Some(mut worst) if new < *worst => {
            *worst = new;
            true
        }
        _ => false,
    }
}

impl TopK {
    /// Whether the row is one of those watched.
    fn push(&mut self, distance: f32, row: u64) -> bool {
        if distance.is_nan() {
            return false;
        }
        let near = keep(&mut self.heap, self.k, Neighbor { distance, row });
        match &mut self.watched {
            Some((most, heap)) => keep(heap, *most, Neighbor { distance, row }),
            None => near,
        }
    }

    fn kth(&self) -> f32 {
        if self.heap.len() < self.k {
            f32::INFINITY
        } else {
            self.heap.peek().map_or(f32::INFINITY, |n| n.distance)
        }
    }
}

enum Sequence {
    Frontier(Frontier),
    /// Every one of these, whatever is found.
    List(std::vec::IntoIter<Probe>),
}

/// A partition in memory.
enum Loaded {
    Prepared(PreparedPartitionSearchHandle),
    Scored(Vec<RecordBatch>),
}

/// One query on its way.
struct Run {
    base: Query,
    order: Mutex<Sequence>,
    best: Mutex<TopK>,
    /// Bits of the k-th distance, so that choosing the next partition takes no lock on `best`.
    kth: AtomicU32,
    found: AtomicUsize,
    /// Batches that had been scored when one of them had a neighbour.
    improved: AtomicUsize,
    touched: Mutex<RoaringBitmap>,
}

/// What all queries of a call share.
struct Search {
    plan: Arc<Plan>,
    request: Arc<Request>,
    rows: Vec<Rows>,
    skip: Vec<bool>,
    /// Rows that can be found at all, where a filter or deletions tell.
    cap: Option<usize>,
    call: Arc<Call>,
}

fn key(query: ArrayRef, metric: DistanceType) -> Result<ArrayRef> {
    if metric != DistanceType::Cosine {
        return Ok(query);
    }
    // Lance indexes unit vectors for cosine.
    Ok(normalize_arrow(query.as_ref())?.0)
}

/// The first `nprobes` partitions of a segment, as Lance ranks them.
fn ranked(segment: &Segment, query: &Query, nprobes: usize) -> Result<Vec<(u32, f32)>> {
    // RQ estimates with the very distance that Lance computed.
    if segment.quantization != QuantizationType::Rabit
        && let Some(geometry) = segment.geometry.as_deref().filter(|g| g.same_as_lance)
        && let Some(key) = query.key.as_primitive_opt::<Float32Type>()
        && let Some(nearest) = probe::nearest(segment.metric, key.values(), geometry, nprobes)
    {
        return Ok(nearest);
    }
    let (partitions, distances) = segment.index.find_partitions(query)?;
    Ok(partitions
        .values()
        .iter()
        .copied()
        .zip(distances.values().iter().copied())
        .take(nprobes)
        .collect())
}

impl Search {
    fn start(&self, at: usize) -> Result<Run> {
        let started = Instant::now();
        let (plan, request) = (self.plan.as_ref(), self.request.as_ref());
        let key = key(request.vectors.query(at)?, plan.metric)?;
        let k = request.candidates();
        // A graph's search depends on k, so there partitions are asked for no more than that.
        let shared = matches!(plan.probing, Probing::Shared { .. });
        let flat = plan.segments.iter().all(|s| matches!(s.sub_index, SubIndexType::Flat));
        let asked = if shared && flat { k.max(WATCHED) } else { k };
        let watched = (request.k as usize).max(WATCHED);
        let watches = shared && watched <= asked;
        let mut base = Query {
            column: String::new(),
            key,
            k: asked,
            lower_bound: request.lower,
            upper_bound: request.upper,
            minimum_nprobes: 1,
            maximum_nprobes: None,
            search_effort: 0.5,
            ef: request.ef,
            refine_factor: None,
            metric_type: Some(plan.metric),
            use_index: true,
            query_parallelism: 1,
            dist_q_c: 0.0,
            approx_mode: request.approx_mode,
        };
        let order = match plan.probing {
            Probing::Shared { effort } => {
                let rule = Rule::new(plan.metric, plan.exact, effort, watches);
                let cells = plan.segments.iter().zip(&self.skip);
                let cells = cells.map(|(s, skip)| s.geometry.clone().filter(|_| !skip)).collect();
                let query = floats(&base.key).ok_or_else(|| {
                    Error::internal(format!("{} queries have no shared probing", base.key.data_type()))
                })?;
                let frontier = Frontier::new(rule, cells, &query);
                Counters::add(&self.call.counters.ranked, frontier.ranked());
                Sequence::Frontier(frontier)
            }
            Probing::Fixed { nprobes } => {
                base.minimum_nprobes = nprobes;
                base.maximum_nprobes = Some(nprobes);
                let mut list = Vec::new();
                for (at, segment) in plan.segments.iter().enumerate().filter(|(at, _)| !self.skip[*at]) {
                    Counters::add(&self.call.counters.ranked, segment.index.total_partitions());
                    for (partition, distance) in ranked(segment, &base, nprobes)? {
                        list.push(Probe::listed(at as u32, partition, distance));
                    }
                }
                Sequence::List(list.into_iter())
            }
        };
        Timing::add(&self.call.timing.rank_nanos, started);
        let bound = request.bounds.get(at).copied().unwrap_or(f32::INFINITY);
        Ok(Run {
            base,
            order: Mutex::new(order),
            best: Mutex::new(TopK {
                k,
                heap: BinaryHeap::with_capacity(k.min(4096)),
                watched: (watches && watched != k).then(|| (watched, BinaryHeap::with_capacity(watched.min(4096)))),
                scored: 0,
            }),
            kth: AtomicU32::new(bound.to_bits()),
            found: AtomicUsize::new(0),
            improved: AtomicUsize::new(0),
            touched: Mutex::default(),
        })
    }

    fn alive(&self) -> Result<()> {
        if self.call.cancel.is_cancelled() {
            return Err(Error::cancelled());
        }
        Ok(())
    }

    fn next(&self, run: &Run) -> Option<Probe> {
        // Everything that may be found has been.
        if self.cap.is_some_and(|cap| run.found.load(Ordering::Relaxed) >= cap) {
            return None;
        }
        match &mut *run.order.lock() {
            Sequence::Frontier(frontier) => frontier.next(
                f32::from_bits(run.kth.load(Ordering::Relaxed)),
                run.improved.load(Ordering::Relaxed),
            ),
            Sequence::List(list) => list.next(),
        }
    }

    async fn prepare(&self, run: &Run, probe: Probe) -> Result<(Probe, Loaded)> {
        let segment = &self.plan.segments[probe.segment as usize];
        let mut query = run.base.clone();
        query.dist_q_c = probe.centroid_distance;
        let filter = self.rows[probe.segment as usize].prefilter(segment, probe.partition);
        let bounded = query.lower_bound.is_some() || query.upper_bound.is_some();
        if segment.quantization == QuantizationType::Rabit && (bounded || !filter.is_empty()) {
            // Of an RQ row there are two estimates. Which one a filter or a bound sees differs between Lance's ways of
            // searching a partition; this is the one that its own search takes.
            let batches = segment
                .index
                .clone()
                .search_partitions(
                    query,
                    Arc::new(UInt32Array::from(vec![probe.partition])),
                    Arc::new(Float32Array::from(vec![probe.centroid_distance])),
                    0,
                    1,
                    filter,
                    None,
                    self.call.counters.clone(),
                )
                .await?
                .try_collect()
                .await?;
            return Ok((probe, Loaded::Scored(batches)));
        }
        let prepared = segment
            .index
            .prepare_partition_search(probe.partition as usize, &query, filter, self.call.counters.as_ref())
            .await?;
        Ok((probe, Loaded::Prepared(prepared)))
    }

    /// Some queries against one segment, through Lance's batch search.
    async fn share(&self, runs: &[Run], probes: &[Vec<Probe>], at: usize) -> Result<()> {
        let segment = &self.plan.segments[at];
        let mut partitions = Vec::with_capacity(runs.len());
        let mut distances = Vec::with_capacity(runs.len());
        let mut read = RoaringBitmap::new();
        for list in probes {
            let mine = || list.iter().filter(|probe| probe.segment as usize == at);
            partitions.push(Arc::new(UInt32Array::from_iter_values(mine().map(|p| p.partition))));
            distances.push(Arc::new(Float32Array::from_iter_values(
                mine().map(|p| p.centroid_distance),
            )));
            read.extend(mine().map(|p| p.partition));
        }
        if read.is_empty() {
            return Ok(());
        }
        if matches!(self.rows[at], Rows::Owned(_)) {
            // Loading a partition decides whether its rows need checking one by one.
            for partition in segment.undecided(&read) {
                self.prepare(&runs[0], Probe::listed(at as u32, partition, 0.0)).await?;
            }
        }
        let read: Vec<u32> = read.into_iter().collect();
        let filter = self.rows[at].prefilter_of(segment, &read);
        let mut query = runs[0].base.clone();
        let keys: Vec<&dyn Array> = runs.iter().map(|run| run.base.key.as_ref()).collect();
        query.key = arrow::compute::concat(&keys)?;
        let batches = segment
            .index
            .clone()
            .search_partitions_batch(query, partitions, distances, filter, self.call.counters.clone())
            .await?;
        if batches.len() != runs.len() {
            return Err(Error::internal(format!(
                "{} queries were searched at once and {} answered",
                runs.len(),
                batches.len()
            )));
        }
        for ((run, batch), list) in runs.iter().zip(&batches).zip(probes) {
            let searched = list.iter().filter(|probe| probe.segment as usize == at).count();
            Counters::add(&self.call.counters.partitions, searched);
            run.touched.lock().insert(at as u32);
            run.merge(batch)?;
        }
        Ok(())
    }

    fn score(&self, run: &Run, probe: Probe, loaded: Loaded) -> Result<()> {
        Counters::add(&self.call.counters.partitions, 1);
        run.touched.lock().insert(probe.segment);
        match loaded {
            Loaded::Scored(batches) => batches.iter().try_for_each(|batch| run.merge(batch)),
            Loaded::Prepared(prepared) => {
                let segment = &self.plan.segments[probe.segment as usize];
                let batch = segment
                    .index
                    .search_prepared_partition(prepared, self.call.counters.as_ref())?;
                run.merge(&batch)
            }
        }
    }

    /// Reads partitions of one query until none is worth it, or `most`. Several may do so for one query at a time.
    async fn work(&self, run: &Run, most: usize) -> Result<()> {
        let mut reading = FuturesUnordered::new();
        let mut begun = 0;
        loop {
            self.alive()?;
            if reading.len() < READ_AHEAD
                && begun < most
                && let Some(probe) = self.next(run)
            {
                begun += 1;
                let mut load = Box::pin(self.prepare(run, probe));
                match futures::poll!(&mut load) {
                    std::task::Poll::Ready(loaded) => {
                        let (probe, prepared) = loaded?;
                        self.score(run, probe, prepared)?;
                    }
                    std::task::Poll::Pending => reading.push(load),
                }
                continue;
            }
            match reading.next().await {
                Some(loaded) => {
                    let (probe, prepared) = loaded?;
                    self.score(run, probe, prepared)?;
                }
                None => return Ok(()),
            }
        }
    }
}

impl Run {
    fn merge(&self, batch: &RecordBatch) -> Result<()> {
        let column = |name: &str| {
            batch
                .column_by_name(name)
                .ok_or_else(|| Error::internal(format!("a partition gave no {name} column")))
        };
        let distances = column(lance_index::vector::DIST_COL)?.as_primitive::<Float32Type>();
        let rows = column(lance_core::ROW_ID)?.as_primitive::<UInt64Type>();
        let mut best = self.best.lock();
        let mut improved = false;
        for (distance, row) in distances.values().iter().zip(rows.values()) {
            improved |= best.push(*distance, *row);
        }
        best.scored += 1;
        if improved {
            self.improved.store(best.scored, Ordering::Relaxed);
        }
        let known = f32::from_bits(self.kth.load(Ordering::Relaxed));
        // Under the lock of `best`, so the bound never goes up.
        self.kth.store(best.kth().min(known).to_bits(), Ordering::Relaxed);
        self.found.fetch_add(batch.num_rows(), Ordering::Relaxed);
        Ok(())
    }

    fn finish(&self, counters: &Counters) -> Vec<(f32, u64)> {
        Counters::add(&counters.segments, self.touched.lock().len() as usize);
        std::mem::take(&mut self.best.lock().heap)
            .into_sorted_vec()
            .into_iter()
            .map(|n| (n.distance, n.row))
            .collect()
    }
}

/// Searches under way in the process: cores are shared between them, since more workers than cores only wait.
static SEARCHING: AtomicUsize = AtomicUsize::new(0);

struct Searching(usize);

impl Searching {
    fn enter() -> Self {
        Self(SEARCHING.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// How many threads this search should take of those it may.
    fn threads(&self, allowed: usize) -> usize {
        let allowed = if allowed == 0 { cores() } else { allowed.min(cores()) };
        allowed.min(cores().div_ceil(self.0)).max(1)
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        SEARCHING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who has begun, so that the caller need not wait for a thread that woke up too late to help.
#[derive(Default)]
struct Crew {
    begun: AtomicUsize,
    closed: AtomicBool,
}

impl Crew {
    fn join(&self) -> bool {
        self.begun.fetch_add(1, Ordering::SeqCst);
        !self.closed.load(Ordering::SeqCst)
    }

    /// Whether anyone had begun. Whoever comes later is turned away.
    fn close(&self) -> bool {
        self.closed.store(true, Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) > 0
    }
}

/// Runs `work` on up to `threads` threads, this one included, until there is nothing left to do: `work` returns when it
/// finds none, so once one has returned those that have not begun are not needed. The first error stops the rest.
async fn on_threads<F, W>(threads: usize, call: &Arc<Call>, work: F) -> Result<()>
where
    F: Fn() -> W,
    W: Future<Output = Result<()>> + Send + 'static,
{
    let runtime = crate::runtime::handle()?;
    let crew = Arc::new(Crew::default());
    let mut others = JoinSet::new();
    for _ in 1..threads {
        let (crew, work) = (crew.clone(), work());
        let helper = async move { if crew.join() { work.await } else { Ok(()) } };
        others.spawn_on(helper, runtime);
    }
    let cancelled = call.cancel.cancelled();
    let result = tokio::select! {
        biased;
        result = async {
            work().await?;
            if crew.close() {
                while let Some(done) = others.join_next().await {
                    joined(done)?;
                }
            }
            Ok(())
        } => result,
        _ = cancelled => Err(Error::cancelled()),
    };
    if result.is_err() {
        // Nothing may still run when the call returns.
        others.shutdown().await;
    }
    result
}

pub async fn run(handle: Arc<Handle>, plan: Plan, request: Arc<Request>, call: Arc<Call>) -> Result<Found> {
    let found = match search(&handle, Arc::new(plan), &request, &call).await {
        Ok(found) => found,
        Err(error) => return Err(handle.explain(error).await),
    };
    call.or_cancelled(crate::search::finish(&handle, &request, found)).await
}

async fn search(handle: &Arc<Handle>, plan: Arc<Plan>, request: &Arc<Request>, call: &Arc<Call>) -> Result<Found> {
    let filtered = Instant::now();
    let filter = match &request.filter {
        Some(filter) => {
            let rows = handle.warm.filter(handle, filter, &call.counters);
            Some(call.or_cancelled(rows).await?)
        }
        None => None,
    };
    let rows: Vec<Rows> = plan.segments.iter().map(|s| Rows::of(s, filter.as_deref())).collect();
    Timing::add(&call.timing.filter_nanos, filtered);
    let lengths: Vec<Option<u64>> = rows.iter().map(Rows::max_len).collect();
    let search = Arc::new(Search {
        skip: lengths.iter().map(|n| *n == Some(0)).collect(),
        cap: lengths.iter().copied().sum::<Option<u64>>().map(|n| n as usize),
        rows,
        plan: plan.clone(),
        request: request.clone(),
        call: call.clone(),
    });
    let started = Instant::now();
    let searching = Searching::enter();
    let threads = searching.threads(request.threads);
    let neighbors = if request.vectors.queries == 1 {
        one(&search, threads).await?
    } else {
        let mut all = Vec::with_capacity(request.vectors.queries);
        for first in (0..request.vectors.queries).step_by(BLOCK) {
            let last = (first + BLOCK).min(request.vectors.queries);
            all.extend(block(&search, threads, first, last).await?);
        }
        all
    };
    Timing::add(&call.timing.search_nanos, started);
    Ok(Found {
        neighbors,
        exact: plan.exact,
        metric: plan.metric,
        path: Path::Direct,
    })
}

async fn one(search: &Arc<Search>, threads: usize) -> Result<Neighbors> {
    let run = Arc::new(search.start(0)?);
    on_threads(threads, &search.call, || {
        let (search, run) = (search.clone(), run.clone());
        async move { search.work(&run, usize::MAX).await }
    })
    .await?;
    Ok(vec![run.finish(&search.call.counters)])
}

/// Hands out 0..len to workers.
#[derive(Default)]
struct Dispenser {
    next: AtomicUsize,
}

impl Dispenser {
    fn take(&self, len: usize) -> Option<usize> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        (at < len).then_some(at)
    }
}

/// Several queries at once: all are ranked, then each begins by itself, or, where it is known beforehand who reads what,
/// each partition is read by one worker for all of its queries.
async fn block(search: &Arc<Search>, threads: usize, first: usize, last: usize) -> Result<Neighbors> {
    let ranked: Arc<Vec<Mutex<Option<Run>>>> = Arc::new((first..last).map(|_| Mutex::new(None)).collect());
    let dispenser = Arc::new(Dispenser::default());
    on_threads(threads, &search.call, || {
        let (search, ranked, dispenser) = (search.clone(), ranked.clone(), dispenser.clone());
        async move {
            while let Some(at) = dispenser.take(ranked.len()) {
                search.alive()?;
                *ranked[at].lock() = Some(search.start(first + at)?);
            }
            Ok(())
        }
    })
    .await?;
    let runs: Arc<Vec<Run>> = Arc::new(ranked.iter().filter_map(|run| run.lock().take()).collect());
    if matches!(search.plan.probing, Probing::Shared { .. }) {
        by_query(search, threads, &runs).await?;
    } else if search
        .plan
        .segments
        .iter()
        .all(|s| s.index.supports_batch_partition_search())
    {
        by_segment(search, threads, &runs).await?;
    } else {
        let list = |(at, run): (usize, &Run)| match &mut *run.order.lock() {
            Sequence::List(list) => list.map(|probe| (at, probe)).collect(),
            Sequence::Frontier(_) => Vec::new(),
        };
        let probes = runs.iter().enumerate().flat_map(list).collect();
        by_partition(search, threads, &runs, probes).await?;
    }
    Ok(runs.iter().map(|run| run.finish(&search.call.counters)).collect())
}

async fn by_query(search: &Arc<Search>, threads: usize, runs: &Arc<Vec<Run>>) -> Result<()> {
    // Neighbouring queries one after another find their partitions in the processor's cache.
    let mut near: Vec<usize> = (0..runs.len()).collect();
    near.sort_by_key(|at| match &*runs[*at].order.lock() {
        Sequence::Frontier(frontier) => frontier.home(),
        Sequence::List(_) => (0, 0),
    });
    let near = Arc::new(near);
    let dispenser = Arc::new(Dispenser::default());
    on_threads(threads, &search.call, || {
        let (search, runs, near, dispenser) = (search.clone(), runs.clone(), near.clone(), dispenser.clone());
        async move {
            while let Some(at) = dispenser.take(near.len()) {
                search.work(&runs[near[at]], ALONE).await?;
            }
            Ok(())
        }
    })
    .await?;
    loop {
        let mut probes = Vec::new();
        for (at, run) in runs.iter().enumerate() {
            probes.extend(
                std::iter::from_fn(|| search.next(run))
                    .take(TOGETHER)
                    .map(|probe| (at, probe)),
            );
        }
        if probes.is_empty() {
            return Ok(());
        }
        by_partition(search, threads, runs, probes).await?;
    }
}

/// Segments whose partitions take several queries at once: each is read once for a share of the queries. The shares are
/// many enough to keep all threads busy.
async fn by_segment(search: &Arc<Search>, threads: usize, runs: &Arc<Vec<Run>>) -> Result<()> {
    let segments = search.plan.segments.len();
    let shares = (2 * threads).div_ceil(segments).min(runs.len());
    let width = runs.len().div_ceil(shares);
    let probes: Arc<Vec<Vec<Probe>>> = Arc::new(
        runs.iter()
            .map(|run| match &mut *run.order.lock() {
                Sequence::List(list) => list.collect(),
                Sequence::Frontier(_) => Vec::new(),
            })
            .collect(),
    );
    let units = segments * shares;
    let dispenser = Arc::new(Dispenser::default());
    on_threads(threads, &search.call, || {
        let (search, runs, probes, dispenser) = (search.clone(), runs.clone(), probes.clone(), dispenser.clone());
        async move {
            while let Some(unit) = dispenser.take(units) {
                search.alive()?;
                let (segment, share) = (unit % segments, unit / segments);
                let from = share * width;
                let to = (from + width).min(runs.len());
                if from < to {
                    search.share(&runs[from..to], &probes[from..to], segment).await?;
                }
            }
            Ok(())
        }
    })
    .await
}

/// Each partition is read once for all queries that want it, by one worker: it is then in the processor's cache.
async fn by_partition(
    search: &Arc<Search>,
    threads: usize,
    runs: &Arc<Vec<Run>>,
    mut probes: Vec<(usize, Probe)>,
) -> Result<()> {
    probes.sort_by_key(|(at, probe)| (probe.segment, probe.partition, *at));
    let groups: Vec<Vec<(usize, Probe)>> = probes
        .chunk_by(|a, b| (a.1.segment, a.1.partition) == (b.1.segment, b.1.partition))
        .map(<[_]>::to_vec)
        .collect();
    let groups = Arc::new(groups);
    let dispenser = Arc::new(Dispenser::default());
    on_threads(threads, &search.call, || {
        let (search, runs, groups, dispenser) = (search.clone(), runs.clone(), groups.clone(), dispenser.clone());
        async move {
            let mut loaded = futures::stream::iter(std::iter::from_fn(|| dispenser.take(groups.len())))
                .map(|at| {
                    let (search, runs, group) = (&search, &runs, &groups[at]);
                    async move {
                        let (run, probe) = group[0];
                        Ok::<_, Error>((group, search.prepare(&runs[run], probe).await?))
                    }
                })
                .buffer_unordered(READ_AHEAD);
            while let Some(next) = loaded.next().await {
                search.alive()?;
                let (group, (probe, prepared)) = next?;
                search.score(&runs[group[0].0], probe, prepared)?;
                for (run, probe) in &group[1..] {
                    let (probe, prepared) = search.prepare(&runs[*run], *probe).await?;
                    search.score(&runs[*run], probe, prepared)?;
                }
            }
            Ok(())
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{self, Route};
    use crate::vectors::Vectors;
    use crate::write::fixtures::{self, DIM};
    use lance::dataset::builder::DatasetBuilder;
    use serde_json::json;

    const FRAGMENTS: usize = 4;
    const ROWS: usize = 300;

    async fn indexed(uri: &str, kind: &str) -> Arc<Handle> {
        partitioned(uri, kind, 6).await
    }

    async fn partitioned(uri: &str, kind: &str, partitions: usize) -> Arc<Handle> {
        let dataset = fixtures::dataset(uri, FRAGMENTS, ROWS).await;
        let mut segments = Vec::new();
        for fragment in 0..FRAGMENTS {
            let request =
                json!({"column": "vec", "type": kind, "name": "x", "partitions": partitions, "fragments": [fragment]});
            let request = serde_json::from_value(request).unwrap();
            segments.push(crate::index::create_segment(&dataset, request).await.unwrap());
        }
        crate::index::commit_segments(&dataset, "x", "vec", segments)
            .await
            .unwrap();
        let dataset = DatasetBuilder::from_uri(uri).load().await.unwrap();
        Arc::new(Handle::new(dataset))
    }

    async fn request(handle: &Handle, queries: usize, k: u64) -> Request {
        let values: Vec<f32> = (0..queries)
            .flat_map(|q| fixtures::vector(5_000_000 + q as i64))
            .collect();
        // SAFETY: the values are as many as the shape says.
        let vectors = unsafe { Vectors::copy(values.as_ptr().cast(), crate::abi::LANCE_FFI_FLOAT32, queries, 0, DIM) };
        Request {
            column: "vec".into(),
            filter: None,
            segments: handle.indices().await.unwrap().iter().map(|i| i.uuid).collect(),
            fragments: Vec::new(),
            vectors: vectors.unwrap(),
            k,
            refine_factor: None,
            nprobes: None,
            min_nprobes: None,
            max_nprobes: None,
            search_effort: None,
            ef: None,
            lower: None,
            upper: None,
            metric: None,
            query_parallelism: 0,
            approx_mode: Default::default(),
            use_index: true,
            path: Path::Direct,
            probing: search::Probing::Auto,
            threads: 2,
            bounds: Vec::new(),
        }
    }

    async fn answer(handle: &Arc<Handle>, mut request: Request) -> Result<Neighbors> {
        let call = Call::new(Default::default());
        let (column, route) = search::route(handle, &mut request, &call).await?;
        let found = match route {
            Route::Direct(plan) => run(handle.clone(), plan, Arc::new(request), call).await?,
            Route::Scanner => search::run_scanner(handle.clone(), request, column, call).await?,
            Route::Nothing(_) => panic!("the table holds rows"),
        };
        Ok(found.neighbors)
    }

    /// The k nearest rows by float64, of those that `keep` keeps: ids are row addresses.
    fn nearest(query: i64, k: usize, keep: impl Fn(i64) -> bool) -> Vec<u64> {
        let query = fixtures::vector(5_000_000 + query);
        let mut all: Vec<(f64, u64)> = (0..(FRAGMENTS * ROWS) as i64)
            .filter(|id| keep(*id))
            .map(|id| {
                let squares = fixtures::vector(id).into_iter().zip(&query);
                let distance = squares.map(|(a, b)| (a as f64 - *b as f64).powi(2)).sum();
                let id = id as u64;
                (distance, ((id / ROWS as u64) << 32) | (id % ROWS as u64))
            })
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.into_iter().take(k).map(|(_, row)| row).collect()
    }

    fn rows(list: &[(f32, u64)]) -> Vec<u64> {
        list.iter().map(|(_, row)| *row).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn reading_all_partitions_is_an_exact_search() {
        let dir = tempfile::tempdir().unwrap();
        let handle = indexed(dir.path().to_str().unwrap(), "IVF_FLAT").await;
        for queries in [1, 9] {
            for (effort, nprobes) in [(Some(1.0), None), (None, Some(6))] {
                for filter in [None, Some("id % 3 = 1".to_string())] {
                    let mut asked = request(&handle, queries, 10).await;
                    (asked.search_effort, asked.nprobes, asked.filter) = (effort, nprobes, filter.clone());
                    let got = answer(&handle, asked).await.unwrap();
                    for (query, list) in got.iter().enumerate() {
                        let want = nearest(query as i64, 10, |id| filter.is_none() || id % 3 == 1);
                        assert_eq!(
                            rows(list),
                            want,
                            "{queries} queries, {effort:?}, {nprobes:?}, {filter:?}"
                        );
                    }
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn queries_that_read_on_together_read_each_partition_once() {
        let dir = tempfile::tempdir().unwrap();
        let handle = partitioned(dir.path().to_str().unwrap(), "IVF_FLAT", 2 * ALONE / FRAGMENTS).await;
        let queries = 9;
        for filter in [None, Some("id % 3 = 1".to_string())] {
            let mut asked = request(&handle, queries, 10).await;
            (asked.search_effort, asked.filter) = (Some(1.0), filter.clone());
            let call = Call::new(Default::default());
            let (_, route) = search::route(&handle, &mut asked, &call).await.unwrap();
            let Route::Direct(plan) = route else {
                panic!("the query takes the direct path");
            };
            let cells = plan.segments.iter().filter_map(|s| s.geometry.as_ref());
            let filled: usize = cells.map(|g| g.lengths.iter().filter(|n| **n > 0).count()).sum();
            assert!(filled > ALONE);
            let got = run(handle.clone(), plan, Arc::new(asked), call.clone()).await.unwrap();
            for (query, list) in got.neighbors.iter().enumerate() {
                let want = nearest(query as i64, 10, |id| filter.is_none() || id % 3 == 1);
                assert_eq!(rows(list), want, "query {query}, {filter:?}");
            }
            if filter.is_none() {
                assert_eq!(Counters::get(&call.counters.partitions), (queries * filled) as u64);
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fixed_probes_give_what_the_scanner_gives() {
        let dir = tempfile::tempdir().unwrap();
        for kind in ["IVF_FLAT", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ"] {
            let handle = indexed(dir.path().join(kind).to_str().unwrap(), kind).await;
            for queries in [1, 7] {
                for filter in [None, Some("id < 700".to_string())] {
                    let mut asked = request(&handle, queries, 12).await;
                    (asked.nprobes, asked.filter) = (Some(2), filter);
                    let direct = answer(&handle, asked.clone()).await.unwrap();
                    asked.path = Path::Scanner;
                    assert_eq!(
                        direct,
                        answer(&handle, asked).await.unwrap(),
                        "{kind}, {queries} queries"
                    );
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_known_bound_leaves_out_only_what_is_farther() {
        let dir = tempfile::tempdir().unwrap();
        let handle = indexed(dir.path().to_str().unwrap(), "IVF_FLAT").await;
        let mut asked = request(&handle, 1, 10).await;
        asked.search_effort = Some(0.9);
        let all = answer(&handle, asked.clone()).await.unwrap();
        asked.bounds = vec![all[0][9].0];
        let bounded = answer(&handle, asked).await.unwrap();
        let near = all[0].iter().filter(|n| bounded[0].contains(n)).count();
        assert!(near >= 9, "{near} of 10");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_cancelled_search_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let handle = indexed(dir.path().to_str().unwrap(), "IVF_FLAT").await;
        let mut asked = request(&handle, 3, 10).await;
        let call = Call::new(Default::default());
        let (_, route) = search::route(&handle, &mut asked, &call).await.unwrap();
        let Route::Direct(plan) = route else {
            panic!("the query takes the direct path");
        };
        call.cancel.cancel();
        let error = run(handle, plan, Arc::new(asked), call).await.err().unwrap();
        assert_eq!(error.code, crate::error::CANCELLED);
    }
}
