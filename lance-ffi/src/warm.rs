//! What searches of one version share: opened segments with their centroids and masks, and the rows of filters.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use arrow::buffer::ScalarBuffer;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, FixedSizeListArray, RecordBatch};
use arrow_schema::DataType;
use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::scanner::Scanner;
use lance::index::prefilter::DatasetPreFilter;
use lance_index::prefilter::PreFilter;
use lance_index::vector::VectorIndex;
use lance_index::vector::quantizer::QuantizationType;
use lance_index::vector::v3::subindex::SubIndexType;
use lance_linalg::distance::DistanceType;
use lance_linalg::distance::dot::dot_f32;
use lance_linalg::distance::l2::l2_f32;
use lance_select::{RowAddrMask, RowAddrTreeMap};
use lance_table::format::{Fragment, IndexMetadata};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::ahead;
use crate::dataset::Handle;
use crate::error::{CORRUPT, Error, IO, Result, VERSION_GONE};
use crate::metrics::Counters;
use crate::vectors::floats;

/// Masks of filters kept per dataset. A filter that matches a million scattered rows takes about 2 MiB.
const FILTER_BYTES: usize = 256 << 20;

/// Opened segments kept per dataset: their centroids and masks. A thousand segments of 300 partitions of 768 dimensions
/// are 1 GiB. A search that needs more opens what it needs each time.
const SEGMENT_BYTES: usize = 2 << 30;

/// An opened index without its centroids: readers, codebook, file metadata.
const OPENED_BYTES: usize = 64 << 10;

/// Texts of valid filters kept; a service that writes values into its filters makes new ones forever.
const VALID_FILTERS: usize = 4096;

/// Longer texts are checked each time.
const VALID_FILTER_BYTES: usize = 16 << 10;

/// Rows read to measure how far rows lie from their centroids, where the index does not say: as many blocks of as many
/// rows, spread over the segment, since neighbours in a table are alike.
const SAMPLE_BLOCKS: usize = 16;
const BLOCK_ROWS: usize = 64;

/// Norms of dot centroids differ from 1 by less.
const UNIT_TOLERANCE: f32 = 1e-3;

/// Where the cells of a segment lie: what probing over several segments is decided by.
pub struct Geometry {
    pub dim: usize,
    /// partitions x dim
    pub centroids: ScalarBuffer<f32>,
    /// Root mean square distance of rows to their centroid, over the segment; for dot, of the rows' directions.
    pub radius: f32,
    /// Dot: the largest norm of the rows that were sampled.
    pub longest: f32,
    pub lengths: Vec<u32>,
    /// Lance ranks by the same float32 centroids.
    pub same_as_lance: bool,
}

pub struct Segment {
    pub meta: IndexMetadata,
    pub index: Arc<dyn VectorIndex>,
    pub metric: DistanceType,
    pub sub_index: SubIndexType,
    pub quantization: QuantizationType,
    /// Rows that are live and owned by this segment; None where that is every row of its file.
    pub owned: Option<Arc<RowAddrMask>>,
    pub geometry: Option<Arc<Geometry>>,
    /// Of each partition, whether `owned` keeps all of its rows: proving it costs as much as searching it.
    verdicts: Arc<[AtomicU8]>,
}

const UNKNOWN: u8 = 0;
const ALL_OWNED: u8 = 1;
const SOME_NOT: u8 = 2;

/// What is kept until the budget of its kind needs the room.
#[derive(Default)]
struct Usage {
    /// Of the clock.
    last: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Opened {
    segment: OnceCell<Arc<Segment>>,
    usage: Usage,
}

#[derive(Default)]
struct Filter {
    rows: OnceCell<Arc<RowAddrMask>>,
    by_segment: Mutex<HashMap<Uuid, Arc<RowAddrMask>>>,
    usage: Usage,
}

#[derive(Default)]
pub struct Warm {
    segments: Mutex<HashMap<Uuid, Arc<Opened>>>,
    filters: Mutex<HashMap<String, Arc<Filter>>>,
    live: OnceCell<Arc<RowAddrMask>>,
    /// Filters known to be valid.
    valid: Mutex<HashSet<String>>,
    clock: AtomicU64,
}

/// Lets go of what was not used for longest, but for the last. Searches that hold it go on.
fn evict<K: Clone + Eq + Hash, V>(kept: &mut HashMap<K, Arc<V>>, budget: usize, usage: impl Fn(&V) -> &Usage) {
    let bytes = |kept: &V| usage(kept).bytes.load(Ordering::Relaxed) as usize;
    let mut total: usize = kept.values().map(|v| bytes(v)).sum();
    while total > budget && kept.len() > 1 {
        let last = |v: &V| usage(v).last.load(Ordering::Relaxed);
        let Some(oldest) = kept.iter().min_by_key(|(_, v)| last(v)).map(|(key, _)| key.clone()) else {
            return;
        };
        total -= kept.remove(&oldest).map_or(0, |v| bytes(&v));
    }
}

fn geometry(index: &dyn VectorIndex) -> Option<Geometry> {
    let list = index.ivf_model().centroids_array()?;
    let dim = list.value_length() as usize;
    let centroids = floats(list.values())?;
    if dim == 0 || centroids.is_empty() || centroids.iter().any(|v| !v.is_finite()) {
        return None;
    }
    // The model counts the rows of the sub-index, which a flat one has none of; the index counts those it stores.
    let lengths = (0..centroids.len() / dim)
        .map(|p| index.partition_size(p) as u32)
        .collect();
    Some(Geometry {
        dim,
        centroids,
        radius: f32::NAN,
        longest: f32::NAN,
        lengths,
        same_as_lance: list.value_type() == DataType::Float32,
    })
}

/// Completes the geometry with how far rows lie from their centroids; None where that cannot be told.
///
/// Lance stores the sum of the squared distances over all rows as the model's loss, except for dot, whose loss is a sum
/// of 1 - dot and says nothing about distances: there some rows are read.
async fn measure(
    dataset: &Arc<Dataset>,
    column: &str,
    meta: &IndexMetadata,
    index: &dyn VectorIndex,
    mut geometry: Geometry,
) -> Result<Option<Geometry>> {
    let rows: u64 = geometry.lengths.iter().map(|n| *n as u64).sum();
    if let Some(loss) = index.ivf_model().loss()
        && index.metric_type() != DistanceType::Dot
        && loss >= 0.0
        && rows > 0
    {
        geometry.radius = (loss / rows as f64).sqrt() as f32;
        return Ok(geometry.radius.is_finite().then_some(geometry));
    }
    let dot = index.metric_type() == DistanceType::Dot;
    let unit = |centroid: &[f32]| {
        let norm = dot_f32(centroid, centroid).sqrt();
        norm == 0.0 || (norm - 1.0).abs() < UNIT_TOLERANCE
    };
    if index.metric_type() == DistanceType::Cosine || dot && !geometry.centroids.chunks_exact(geometry.dim).all(unit) {
        return Ok(None);
    }
    let (mut sum, mut count) = (0.0, 0_usize);
    geometry.longest = 0.0;
    for list in sample(dataset, column, meta).await? {
        let Some(values) = floats(list.values()) else {
            return Ok(None);
        };
        let all = values.chunks_exact(geometry.dim).enumerate();
        for (_, row) in all.filter(|(at, row)| !list.is_null(*at) && row.iter().all(|v| v.is_finite())) {
            let centroids = geometry.centroids.chunks_exact(geometry.dim);
            let apart = if dot {
                let norm = dot_f32(row, row).sqrt();
                if norm == 0.0 {
                    continue;
                }
                geometry.longest = geometry.longest.max(norm);
                let cosine = centroids.map(|c| dot_f32(row, c) / norm).fold(-1.0, f32::max);
                2.0 - 2.0 * cosine
            } else {
                centroids.map(|c| l2_f32(row, c)).fold(f32::INFINITY, f32::min)
            };
            sum += apart.max(0.0) as f64;
            count += 1;
        }
    }
    geometry.radius = (sum / count as f64).sqrt() as f32;
    let known = geometry.radius.is_finite() && geometry.longest.is_finite();
    Ok(known.then_some(geometry))
}

/// Vectors of rows from all over the segment.
async fn sample(dataset: &Arc<Dataset>, column: &str, meta: &IndexMetadata) -> Result<Vec<FixedSizeListArray>> {
    let mut fragments = Vec::new();
    let mut rows = 0;
    for fragment in dataset.get_fragments() {
        if meta
            .fragment_bitmap
            .as_ref()
            .is_some_and(|b| b.contains(fragment.id() as u32))
        {
            let live = fragment.count_rows(None).await?;
            fragments.push((rows, fragment));
            rows += live;
        }
    }
    let blocks = SAMPLE_BLOCKS.min(rows.div_ceil(BLOCK_ROWS));
    let mut reads = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let at = block * rows / blocks;
        let within = fragments.partition_point(|(first, _)| *first <= at) - 1;
        let (first, fragment) = &fragments[within];
        let mut scan = fragment.scan();
        scan.project(&[column])?;
        scan.limit(Some(BLOCK_ROWS as i64), Some((at - first) as i64))?;
        reads.push(async move {
            let batches: Vec<RecordBatch> = scan.try_into_stream().await?.try_collect().await?;
            Ok::<_, Error>(batches)
        });
    }
    let batches = futures::future::try_join_all(reads).await?;
    // The scan names a nested column by its path, so it is known by being the only one.
    let columns = batches.iter().flatten().filter_map(|batch| batch.columns().first());
    Ok(columns.filter_map(|c| c.as_fixed_size_list_opt().cloned()).collect())
}

async fn open_segment(
    dataset: &Arc<Dataset>,
    column: &str,
    meta: &IndexMetadata,
    counters: &Counters,
) -> Result<Segment> {
    let index = ahead::open(dataset, column, meta, counters).await?;
    let owned = match &meta.fragment_bitmap {
        Some(owned) if dataset.manifest().uses_stable_row_ids() => {
            Some(Arc::new(live_ids(dataset, Some(owned)).await?))
        }
        Some(owned) => match DatasetPreFilter::create_restricted_deletion_mask(dataset.clone(), owned.clone()) {
            Some(mask) => Some(mask.await?),
            None => None,
        },
        None => None,
    };
    let (sub_index, quantization) = index.sub_index_type();
    let geometry = match geometry(index.as_ref()) {
        Some(geometry) => measure(dataset, column, meta, index.as_ref(), geometry)
            .await?
            .map(Arc::new),
        None => None,
    };
    let verdicts = (0..index.total_partitions()).map(|_| AtomicU8::new(UNKNOWN)).collect();
    Ok(Segment {
        meta: meta.clone(),
        metric: index.metric_type(),
        geometry,
        sub_index,
        quantization,
        owned,
        verdicts,
        index,
    })
}

/// The row ids that are live in some fragments, or in all.
///
/// With stable row ids a compaction credits the fragments it wrote to the segment that held the rows, and leaves no
/// deletion file: what tells the ids of deleted rows, which the segment still holds, from live ones is only this list.
async fn live_ids(dataset: &Arc<Dataset>, owned: Option<&RoaringBitmap>) -> Result<RowAddrMask> {
    let mut scan = dataset.scan();
    if let Some(owned) = owned {
        let fragments = dataset.fragments().iter().filter(|f| owned.contains(f.id as u32));
        let fragments: Vec<Fragment> = fragments.cloned().collect();
        if fragments.is_empty() {
            return Ok(RowAddrMask::allow_nothing());
        }
        scan.with_fragments(fragments);
    }
    row_ids(scan).await
}

async fn filter_rows(dataset: &Arc<Dataset>, filter: &str) -> Result<RowAddrMask> {
    let mut scan = dataset.scan();
    scan.filter(filter)?;
    row_ids(scan).await
}

async fn row_ids(mut scan: Scanner) -> Result<RowAddrMask> {
    scan.empty_project()?;
    scan.with_row_id();
    scan.scan_in_order(false);
    let mut batches = scan.try_into_stream().await?;
    let mut rows = RowAddrTreeMap::new();
    while let Some(batch) = batches.try_next().await? {
        let ids = batch
            .column_by_name(lance_core::ROW_ID)
            .ok_or_else(|| Error::internal("a scan for row ids gave none"))?;
        rows.extend(ids.as_primitive::<UInt64Type>().values().iter().copied());
    }
    Ok(RowAddrMask::from_allowed(rows))
}

fn bytes_of(mask: &RowAddrMask) -> usize {
    match mask {
        RowAddrMask::AllowList(rows) | RowAddrMask::BlockList(rows) => rows.serialized_size(),
    }
}

impl Warm {
    pub async fn segment(
        &self,
        handle: &Handle,
        column: &str,
        meta: &IndexMetadata,
        counters: &Counters,
    ) -> Result<Arc<Segment>> {
        let opened = self.segments.lock().entry(meta.uuid).or_default().clone();
        self.touch(&opened.usage);
        if let Some(segment) = opened.segment.get() {
            Counters::add(&counters.hits, 1);
            return Ok(segment.clone());
        }
        let segment = opened
            .segment
            .get_or_try_init(|| async {
                open_segment(&handle.dataset, column, meta, counters)
                    .await
                    .map(Arc::new)
            })
            .await?
            .clone();
        opened.usage.bytes.store(segment.bytes() as u64, Ordering::Relaxed);
        evict(&mut self.segments.lock(), SEGMENT_BYTES, |opened| &opened.usage);
        Ok(segment)
    }

    /// Several at a time, in their order: cold, each waits for the store many times over.
    pub async fn segments(
        &self,
        handle: &Handle,
        column: &str,
        metas: &[&IndexMetadata],
        counters: &Counters,
    ) -> Result<Vec<Arc<Segment>>> {
        if let Some(open) = self.opened(metas) {
            Counters::add(&counters.hits, open.len());
            return Ok(open);
        }
        let mut open = Vec::with_capacity(metas.len());
        for meta in metas {
            open.push(self.segment(handle, column, meta, counters));
        }
        stream::iter(open).buffered(ahead::AT_ONCE).try_collect().await
    }

    /// None unless all are open: then nothing is left to wait for.
    fn opened(&self, metas: &[&IndexMetadata]) -> Option<Vec<Arc<Segment>>> {
        let kept = self.segments.lock();
        let mut open = Vec::with_capacity(metas.len());
        for meta in metas {
            let opened = kept.get(&meta.uuid)?;
            self.touch(&opened.usage);
            open.push(opened.segment.get()?.clone());
        }
        Some(open)
    }

    fn touch(&self, usage: &Usage) {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        usage.last.store(now, Ordering::Relaxed);
    }

    /// What a search by index may return at all, where deletion files do not say: see `live_ids`.
    pub async fn live(&self, handle: &Handle) -> Result<Option<&Arc<RowAddrMask>>> {
        if !handle.dataset.manifest().uses_stable_row_ids() {
            return Ok(None);
        }
        let ids = async { live_ids(&handle.dataset, None).await.map(Arc::new) };
        Ok(Some(self.live.get_or_try_init(|| ids).await?))
    }

    /// Refuses a filter that cannot be planned, in the same words whatever path the search then takes.
    pub async fn check_filter(&self, handle: &Handle, filter: &str) -> Result<()> {
        if self.valid.lock().contains(filter) {
            return Ok(());
        }
        let plan = async {
            let mut scan = handle.dataset.scan();
            scan.filter(filter)?;
            scan.empty_project()?;
            scan.with_row_id();
            scan.create_plan().await
        };
        if let Err(error) = plan.await {
            let error = Error::from(error);
            return Err(match error.code {
                IO | VERSION_GONE | CORRUPT => error,
                _ => Error::invalid(format!(
                    "filter {}: {}",
                    crate::filter::shown(crate::filter::inner(filter)),
                    error.message
                )),
            });
        }
        if filter.len() > VALID_FILTER_BYTES {
            return Ok(());
        }
        let mut valid = self.valid.lock();
        if valid.len() >= VALID_FILTERS {
            valid.clear();
        }
        valid.insert(filter.to_string());
        Ok(())
    }

    /// The rows that `filter` keeps, and of them the ones of a segment.
    pub async fn filter(&self, handle: &Handle, filter: &str, counters: &Counters) -> Result<Arc<FilterRows>> {
        let entry = self.filters.lock().entry(filter.to_string()).or_default().clone();
        self.touch(&entry.usage);
        let warm = entry.rows.initialized();
        let rows = entry
            .rows
            .get_or_try_init(|| async { filter_rows(&handle.dataset, filter).await.map(Arc::new) })
            .await?
            .clone();
        if warm {
            Counters::add(&counters.hits, 1);
        } else {
            Counters::add(&counters.misses, 1);
            entry.usage.bytes.fetch_add(bytes_of(&rows) as u64, Ordering::Relaxed);
            evict(&mut self.filters.lock(), FILTER_BYTES, |filter| &filter.usage);
        }
        Ok(Arc::new(FilterRows { rows, entry }))
    }
}

pub struct FilterRows {
    pub rows: Arc<RowAddrMask>,
    entry: Arc<Filter>,
}

impl FilterRows {
    fn within(&self, segment: &Segment) -> Arc<RowAddrMask> {
        let Some(owned) = &segment.owned else {
            return self.rows.clone();
        };
        let mut by_segment = self.entry.by_segment.lock();
        by_segment
            .entry(segment.meta.uuid)
            .or_insert_with(|| {
                let mask = self.rows.as_ref().clone() & owned.as_ref().clone();
                self.entry
                    .usage
                    .bytes
                    .fetch_add(bytes_of(&mask) as u64, Ordering::Relaxed);
                Arc::new(mask)
            })
            .clone()
    }
}

/// Which rows of a segment a search may return.
#[derive(Clone)]
pub enum Rows {
    All,
    Owned(Arc<RowAddrMask>),
    Filtered(Arc<RowAddrMask>),
}

impl Rows {
    pub fn of(segment: &Segment, filter: Option<&FilterRows>) -> Self {
        match (filter, &segment.owned) {
            (Some(filter), _) => Self::Filtered(filter.within(segment)),
            (None, Some(owned)) => Self::Owned(owned.clone()),
            (None, None) => Self::All,
        }
    }

    /// How many rows may be returned at most, where that is known.
    pub fn max_len(&self) -> Option<u64> {
        match self {
            Self::All => None,
            Self::Owned(mask) | Self::Filtered(mask) => mask.max_len(),
        }
    }

    /// One filter for several partitions.
    pub fn prefilter_of(&self, segment: &Segment, partitions: &[u32]) -> Arc<dyn PreFilter> {
        match self {
            Self::All => Arc::new(lance_index::prefilter::NoFilter),
            Self::Owned(_) if segment.owns_all(partitions.iter().copied()) => {
                Arc::new(lance_index::prefilter::NoFilter)
            }
            Self::Owned(mask) | Self::Filtered(mask) => Arc::new(MaskFilter {
                mask: mask.clone(),
                verdict: None,
            }),
        }
    }

    pub fn prefilter(&self, segment: &Segment, partition: u32) -> Arc<dyn PreFilter> {
        match self {
            Self::All => Arc::new(lance_index::prefilter::NoFilter),
            Self::Filtered(mask) => Arc::new(MaskFilter {
                mask: mask.clone(),
                verdict: None,
            }),
            Self::Owned(mask) => match segment.verdict(partition) {
                ALL_OWNED => Arc::new(lance_index::prefilter::NoFilter),
                UNKNOWN => Arc::new(MaskFilter {
                    mask: mask.clone(),
                    verdict: Some((segment.verdicts.clone(), partition as usize)),
                }),
                _ => Arc::new(MaskFilter {
                    mask: mask.clone(),
                    verdict: None,
                }),
            },
        }
    }
}

impl Segment {
    /// About what it holds beside the partitions, which the session's index cache counts.
    fn bytes(&self) -> usize {
        let geometry = |g: &Arc<Geometry>| size_of_val(&*g.centroids) + size_of_val(&*g.lengths);
        let owned = self.owned.as_deref().map_or(0, bytes_of);
        OPENED_BYTES + self.geometry.as_ref().map_or(0, geometry) + owned + self.verdicts.len()
    }

    /// Of these partitions, one of which it is not known yet whether this segment owns all of its rows.
    pub fn undecided(&self, partitions: impl IntoIterator<Item = u32>) -> Vec<u32> {
        if self.owned.is_none() {
            return Vec::new();
        }
        partitions.into_iter().filter(|p| self.verdict(*p) == UNKNOWN).collect()
    }

    /// This segment owns every row of these partitions.
    pub fn owns_all(&self, partitions: impl IntoIterator<Item = u32>) -> bool {
        self.owned.is_none() || partitions.into_iter().all(|p| self.verdict(p) == ALL_OWNED)
    }

    fn verdict(&self, partition: u32) -> u8 {
        self.verdicts
            .get(partition as usize)
            .map_or(SOME_NOT, |v| v.load(Ordering::Relaxed))
    }
}

struct MaskFilter {
    mask: Arc<RowAddrMask>,
    verdict: Option<(Arc<[AtomicU8]>, usize)>,
}

#[async_trait]
impl PreFilter for MaskFilter {
    async fn wait_for_ready(&self) -> lance_core::Result<()> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn needs_partition_row_ids(&self) -> bool {
        self.verdict.is_some()
    }

    fn is_empty_for(&self, rows: &RowAddrTreeMap) -> bool {
        let Some((verdicts, partition)) = &self.verdict else {
            return false;
        };
        let all = self.mask.selects_all(rows);
        verdicts[*partition].store(if all { ALL_OWNED } else { SOME_NOT }, Ordering::Relaxed);
        all
    }

    fn mask(&self) -> Arc<RowAddrMask> {
        self.mask.clone()
    }

    fn filter_row_ids<'a>(&self, row_ids: Box<dyn Iterator<Item = &'a u64> + 'a>) -> Vec<u64> {
        self.mask.selected_indices(row_ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut kept: HashMap<u32, Arc<Usage>> = (0..5)
            .map(|id| {
                let usage = Usage {
                    last: AtomicU64::new([7, 3, 9, 1, 8][id as usize]),
                    bytes: AtomicU64::new(10),
                };
                (id, Arc::new(usage))
            })
            .collect();
        let mut left = |budget| {
            evict(&mut kept, budget, |usage| usage);
            let mut left: Vec<u32> = kept.keys().copied().collect();
            left.sort_unstable();
            left
        };
        assert_eq!(left(50), [0, 1, 2, 3, 4]);
        assert_eq!(left(49), [0, 1, 2, 4]);
        assert_eq!(left(25), [2, 4]);
        assert_eq!(left(0), [2]);
    }
}
