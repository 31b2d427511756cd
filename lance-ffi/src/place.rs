//! Vectors of a local table, read by their place in its files.
//!
//! A refinement wants a hundred vectors from all over a table. Lance plans and decodes them fragment by fragment and
//! sends each to a blocking thread. But vectors of 256 bytes and more lie in a file row after row, uncompressed, unless
//! some are null (Lance's full-zip layout without control words), so a row is one read of a place known beforehand.
//!
//! Nothing is taken on trust: the layout must be exactly that one, the first rows read of each file are compared with
//! what Lance reads, and whatever is unusual (nulls, other layouts, overlays, files elsewhere, a read that fails) is left
//! to Lance.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::compute::take as arrow_take;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, UInt32Array, make_array};
use arrow_schema::Field;
use lance::Dataset;
use lance::dataset::fragment::FileFragment;
use lance::dataset::rowids::get_row_id_index;
use lance_core::utils::deletion::DeletionVector;
use lance_encoding::decoder::{PageEncoding, PageInfo};
use lance_encoding::format::metadata::compressive_encoding::Compression;
use lance_encoding::format::metadata::full_zip_layout::Details;
use lance_encoding::format::metadata::page_layout::Layout;
use lance_io::local::to_local_path;
use lance_io::scheduler::{ScanScheduler, SchedulerConfig};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::dataset::{ColumnInfo, Handle};
use crate::error::Result;
use crate::runtime::in_parts;

/// Open files kept by one dataset, and by all: a process has a thousand or so.
const OPEN_FILES: usize = 128;
const OPEN_FILES_OF_ALL: usize = 512;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A file that counts.
struct Kept(File);

impl Kept {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Self(file))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Rows worth a task of their own.
const ROWS_A_TASK: usize = 512;

/// Reads in flight when rows are not in memory.
const COLD_READS: usize = 16;

/// Rows of a file that are compared with Lance's before the others are believed.
const COMPARED: usize = 3;

struct Page {
    first: u64,
    rows: u64,
    offset: u64,
}

/// One vector column of one fragment.
struct Placed {
    path: PathBuf,
    pages: Vec<Page>,
    width: usize,
    deleted: Option<Arc<DeletionVector>>,
    compared: AtomicBool,
}

impl Placed {
    fn at(&self, row: u32) -> Option<u64> {
        let after = self.pages.partition_point(|page| page.first <= row as u64);
        let page = &self.pages[after.checked_sub(1)?];
        let within = row as u64 - page.first;
        let live = within < page.rows && !self.deleted.as_ref().is_some_and(|deleted| deleted.contains(row));
        live.then_some(page.offset + within * self.width as u64)
    }
}

type Place = Option<Arc<Placed>>;

#[derive(Default)]
pub struct Places {
    /// By field and fragment; None where Lance must read.
    columns: Mutex<HashMap<(i32, u32), Place>>,
    files: Mutex<HashMap<PathBuf, Arc<Kept>>>,
}

fn element_width(column: &ColumnInfo) -> usize {
    column.element.primitive_width().unwrap_or(0)
}

/// Bytes of a vector.
fn width(column: &ColumnInfo) -> usize {
    element_width(column) * column.dim
}

/// Where the page's rows begin, if they lie one after another and nothing is between them.
fn plain(page: &PageInfo, column: &ColumnInfo) -> Option<u64> {
    let PageEncoding::Structural(layout) = &page.encoding else {
        return None;
    };
    let Some(Layout::FullZipLayout(zip)) = &layout.layout else {
        return None;
    };
    let width = width(column) as u64;
    let no_levels = zip.bits_rep == 0 && zip.bits_def == 0 && zip.num_items == zip.num_visible_items;
    let all = zip.num_items as u64 == page.num_rows;
    if !no_levels || !all || zip.details != Some(Details::BitsPerValue(u32::try_from(8 * width).ok()?)) {
        return None;
    }
    let Some(Compression::FixedSizeList(list)) = zip.value_compression.as_ref()?.compression.as_ref() else {
        return None;
    };
    let Some(Compression::Flat(flat)) = list.values.as_ref()?.compression.as_ref() else {
        return None;
    };
    let values = list.items_per_value == column.dim as u64 && !list.has_validity;
    if !values || flat.bits_per_value != 8 * element_width(column) as u64 || flat.data.is_some() {
        return None;
    }
    match page.buffer_offsets_and_sizes.as_ref() {
        [(offset, size)] if *size == page.num_rows * width => Some(*offset),
        _ => None,
    }
}

async fn place(dataset: &Dataset, fragment: &FileFragment, column: &ColumnInfo) -> Result<Option<Placed>> {
    if !fragment.metadata().overlays.is_empty() {
        return Ok(None);
    }
    let Some(file) = fragment.data_file_for_field(column.field_id as u32) else {
        return Ok(None);
    };
    let at = file.fields.iter().position(|field| *field == column.field_id);
    let index = at.and_then(|at| file.column_indices.get(at)).copied().unwrap_or(-1);
    if file.base_id.is_some() || index < 0 {
        return Ok(None);
    }
    let store = dataset.object_store(None).await?;
    let path = dataset.data_dir().join(file.path.as_str());
    let config = SchedulerConfig::max_bandwidth(&store);
    let scheduler = ScanScheduler::new(store, config)
        .open_file(&path, &file.file_size_bytes)
        .await?;
    let metadata = fragment.get_file_metadata(&scheduler).await?;
    let Some(info) = metadata.column_infos.get(index as usize) else {
        return Ok(None);
    };
    let mut pages = Vec::with_capacity(info.page_infos.len());
    let mut first = 0;
    for page in info.page_infos.iter() {
        let Some(offset) = plain(page, column) else {
            return Ok(None);
        };
        pages.push(Page {
            first,
            rows: page.num_rows,
            offset,
        });
        first += page.num_rows;
    }
    Ok(Some(Placed {
        path: to_local_path(&path).into(),
        pages,
        width: width(column),
        deleted: fragment.get_deletion_vector().await?,
        compared: AtomicBool::new(false),
    }))
}

/// Reads what the page cache holds; false where that is not all, or where the file system cannot tell.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, into: &mut [u8], offset: u64) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    let part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: the one buffer is as long as it says, and borrowed for the call.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &part, 1, offset as libc::off_t, libc::RWF_NOWAIT) };
    Ok(read == into.len() as isize)
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_: &File, _: &mut [u8], _: u64) -> io::Result<bool> {
    Ok(false)
}

type Source = (Arc<Kept>, u64);

/// The rows one after another.
async fn read(rows: Vec<Source>, width: usize) -> io::Result<Buffer> {
    let mut buffer = MutableBuffer::from_len_zeroed(rows.len() * width);
    let mut cold = Vec::new();
    for (at, ((file, offset), into)) in rows.iter().zip(buffer.chunks_exact_mut(width)).enumerate() {
        if !read_cached(&file.0, into, *offset)? {
            cold.push(at);
        }
        if at % 256 == 255 {
            tokio::task::yield_now().await;
        }
    }
    if cold.is_empty() {
        return Ok(buffer.into());
    }
    let mut reads = JoinSet::new();
    for part in cold.chunks(cold.len().div_ceil(COLD_READS)) {
        let part: Vec<(usize, Source)> = part.iter().map(|at| (*at, rows[*at].clone())).collect();
        reads.spawn_blocking(move || {
            let mut bytes = vec![0; part.len() * width];
            for ((_, (file, offset)), into) in part.iter().zip(bytes.chunks_exact_mut(width)) {
                file.0.read_exact_at(into, *offset)?;
            }
            Ok::<_, io::Error>((part, bytes))
        });
    }
    while let Some(done) = reads.join_next().await {
        let (part, bytes) = done.map_err(io::Error::other)??;
        for ((at, _), row) in part.iter().zip(bytes.chunks_exact(width)) {
            buffer[at * width..][..width].copy_from_slice(row);
        }
    }
    Ok(buffer.into())
}

impl Places {
    /// The vectors of live rows, in the order of `ids`; None where Lance must read them.
    pub async fn vectors(&self, handle: &Handle, column: &ColumnInfo, ids: &[u64]) -> Result<Option<ArrayRef>> {
        let dataset = &handle.dataset;
        let store = dataset.object_store(None).await?;
        if column.multivector || width(column) == 0 || ids.is_empty() || !store.has_direct_local_paths() {
            return Ok(None);
        }
        let addresses: Vec<u64> = match get_row_id_index(dataset).await? {
            None => ids.to_vec(),
            Some(index) => match index
                .get_many(ids)?
                .into_iter()
                .map(|found| found.map(u64::from))
                .collect()
            {
                Some(addresses) => addresses,
                None => return Ok(None),
            },
        };
        let mut placed: HashMap<u32, (Arc<Placed>, Arc<Kept>, usize)> = HashMap::new();
        let mut rows = Vec::with_capacity(addresses.len());
        let mut compared = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            let fragment = (address >> 32) as u32;
            let (found, file, seen) = match placed.entry(fragment) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let Some(found) = self.column(handle, column, fragment).await? else {
                        return Ok(None);
                    };
                    let Ok(file) = self.file(&found.path) else {
                        return Ok(None);
                    };
                    new.insert((found, file, 0))
                }
            };
            let Some(offset) = found.at(*address as u32) else {
                return Ok(None);
            };
            rows.push((file.clone(), offset));
            if *seen < COMPARED && !found.compared.load(Ordering::Relaxed) {
                *seen += 1;
                compared.push(at);
            }
        }
        let width = width(column);
        let parts = in_parts(&rows, ROWS_A_TASK, |part| async move { Ok(read(part, width).await) }).await?;
        let Ok(parts) = parts.into_iter().collect::<io::Result<Vec<Buffer>>>() else {
            return Ok(None);
        };
        let vectors = array(joint(parts), ids.len(), column)?;
        if !compared.is_empty() {
            let equal = self.equal(handle, column, ids, &vectors, &compared).await?;
            for (fragment, (found, ..)) in &placed {
                if equal {
                    found.compared.store(true, Ordering::Relaxed);
                } else {
                    self.columns.lock().insert((column.field_id, *fragment), None);
                }
            }
            if !equal {
                return Ok(None);
            }
        }
        Ok(Some(vectors))
    }

    /// Whether Lance reads the same.
    async fn equal(
        &self,
        handle: &Handle,
        column: &ColumnInfo,
        ids: &[u64],
        vectors: &ArrayRef,
        positions: &[usize],
    ) -> Result<bool> {
        let mut wanted: Vec<(u64, u32)> = positions.iter().map(|at| (ids[*at], *at as u32)).collect();
        wanted.sort_unstable();
        let ids: Vec<u64> = wanted.iter().map(|(id, _)| *id).collect();
        let theirs = handle.decoded(column, &ids).await?;
        let positions: UInt32Array = wanted.iter().map(|(_, at)| Some(*at)).collect();
        let ours = arrow_take(vectors.as_ref(), &positions, None)?;
        let Some(theirs) = theirs.as_fixed_size_list_opt() else {
            return Ok(false);
        };
        Ok(theirs.null_count() == 0
            && theirs.len() == positions.len()
            && theirs.value_length() as usize == column.dim
            && theirs.values().to_data() == ours.as_fixed_size_list().values().to_data())
    }

    async fn column(&self, handle: &Handle, column: &ColumnInfo, fragment: u32) -> Result<Option<Arc<Placed>>> {
        let key = (column.field_id, fragment);
        if let Some(known) = self.columns.lock().get(&key) {
            return Ok(known.clone());
        }
        let placed = match handle.dataset.get_fragment(fragment as usize) {
            Some(found) => place(&handle.dataset, &found, column).await?.map(Arc::new),
            None => None,
        };
        Ok(self.columns.lock().entry(key).or_insert(placed).clone())
    }

    fn file(&self, path: &Path) -> io::Result<Arc<Kept>> {
        if let Some(file) = self.files.lock().get(path) {
            return Ok(file.clone());
        }
        let file = Arc::new(Kept::open(path)?);
        let mut files = self.files.lock();
        if files.len() >= OPEN_FILES
            && let Some(any) = files.keys().next().cloned()
        {
            files.remove(&any);
        }
        if OPEN.load(Ordering::Relaxed) <= OPEN_FILES_OF_ALL {
            files.insert(path.to_path_buf(), file.clone());
        }
        Ok(file)
    }
}

fn joint(mut parts: Vec<Buffer>) -> Buffer {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut all = MutableBuffer::with_capacity(parts.iter().map(Buffer::len).sum());
    for part in parts {
        all.extend_from_slice(&part);
    }
    all.into()
}

fn array(buffer: Buffer, rows: usize, column: &ColumnInfo) -> Result<ArrayRef> {
    let values = arrow::array::ArrayData::builder(column.element.clone())
        .len(rows * column.dim)
        .add_buffer(buffer)
        .build()?;
    let item = Arc::new(Field::new("item", column.element.clone(), true));
    Ok(Arc::new(FixedSizeListArray::try_new(
        item,
        column.dim as i32,
        make_array(values),
        None,
    )?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::fixtures::{self, value};
    use crate::write::{Mode, WriteRequest};
    use arrow::compute::cast;
    use arrow_array::{Float32Array, Int64Array, RecordBatch};
    use arrow_schema::{DataType, Schema};
    use lance::dataset::builder::DatasetBuilder;

    const ROWS: usize = 700;

    /// `id` and `vec`, all from `id`; a null vector wherever `nulls` says.
    fn batch(element: &DataType, dim: usize, nulls: impl Fn(i64) -> bool) -> RecordBatch {
        let ids: Vec<i64> = (0..ROWS as i64).collect();
        let values: Vec<f32> = ids
            .iter()
            .flat_map(|id| (0..dim).map(move |d| 50.0 * (1.0 + value((id * 1000) as u64 + d as u64))))
            .collect();
        let values = cast(&Float32Array::from(values), element).unwrap();
        let item = Arc::new(Field::new("item", element.clone(), true));
        let valid = ids.iter().map(|id| !nulls(*id)).collect::<Vec<_>>();
        let nulls = valid.contains(&false).then(|| valid.into());
        let vectors = FixedSizeListArray::new(item.clone(), dim as i32, values, nulls);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("vec", DataType::FixedSizeList(item, dim as i32), true),
        ]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(ids)), Arc::new(vectors)]).unwrap()
    }

    async fn table(uri: &str, batch: RecordBatch, stable_row_ids: bool) -> Handle {
        let request = WriteRequest {
            max_rows_per_file: Some(300),
            stable_row_ids: Some(stable_row_ids),
            ..fixtures::request(uri, Mode::Create)
        };
        fixtures::write(request, &[batch]).await.unwrap();
        open(uri).await
    }

    async fn open(uri: &str) -> Handle {
        Handle::new(DatasetBuilder::from_uri(uri).load().await.unwrap())
    }

    async fn row_ids(handle: &Handle) -> Vec<u64> {
        let mut scan = handle.dataset.scan();
        scan.with_row_id().project::<&str>(&[]).unwrap();
        let rows = scan.try_into_batch().await.unwrap();
        let ids = rows.column_by_name("_rowid").unwrap();
        let mut ids = ids.as_primitive::<arrow_array::types::UInt64Type>().values().to_vec();
        ids.sort_unstable();
        ids
    }

    /// Whether the vectors were read here; if so they are what Lance reads.
    async fn placed(handle: &Handle, ids: &[u64]) -> bool {
        let column = handle.column("vec").unwrap();
        let theirs = handle.decoded(&column, ids).await.unwrap();
        let mut read = false;
        for attempt in 0..2 {
            let Some(ours) = handle.places.vectors(handle, &column, ids).await.unwrap() else {
                assert!(!read, "attempt {attempt} gave up");
                continue;
            };
            read = true;
            let (ours, theirs) = (ours.as_fixed_size_list(), theirs.as_fixed_size_list());
            assert_eq!(ours.len(), ids.len());
            assert_eq!(ours.values().to_data(), theirs.values().to_data());
        }
        read
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_vectors_are_read_by_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let cases = [
            (DataType::Float32, 96, true),
            (DataType::Float16, 200, true),
            (DataType::Float64, 64, true),
            (DataType::UInt8, 300, true),
            (DataType::Float32, 16, false), // Lance packs short vectors into blocks
        ];
        for (element, dim, expected) in cases {
            for stable in [false, true] {
                let uri = dir.path().join(format!("{element}-{dim}-{stable}"));
                let handle = table(uri.to_str().unwrap(), batch(&element, dim, |_| false), stable).await;
                let ids = row_ids(&handle).await;
                let some: Vec<u64> = ids.iter().copied().step_by(7).collect();
                for ids in [&some, &ids, &ids[ROWS - 1..].to_vec()] {
                    assert_eq!(
                        placed(&handle, ids).await,
                        expected,
                        "{element} x {dim}, stable {stable}"
                    );
                }
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_that_are_not_live_are_left_to_lance() {
        let dir = tempfile::tempdir().unwrap();
        for stable in [false, true] {
            let uri = dir.path().join(format!("{stable}"));
            let uri = uri.to_str().unwrap();
            let before = table(uri, batch(&DataType::Float32, 80, |_| false), stable).await;
            let all = row_ids(&before).await;
            let mut dataset = before.dataset.as_ref().clone();
            dataset.delete("id % 5 = 2").await.unwrap();
            let handle = open(uri).await;
            let live = row_ids(&handle).await;
            assert!(placed(&handle, &live).await);
            assert!(placed(&before, &all).await, "the older version has them all");
            let column = handle.column("vec").unwrap();
            let mut gone = all.iter().filter(|id| !live.contains(id)).copied();
            for id in [gone.next().unwrap(), 1 << 40, u64::MAX] {
                let read = handle.places.vectors(&handle, &column, &[live[0], id]).await;
                assert!(matches!(read, Ok(None)), "row {id}, stable {stable}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn files_with_null_vectors_are_left_to_lance() {
        let dir = tempfile::tempdir().unwrap();
        let table = table(
            dir.path().to_str().unwrap(),
            batch(&DataType::Float32, 80, |id| id == 450),
            false,
        );
        let handle = table.await;
        let ids = row_ids(&handle).await;
        assert!(placed(&handle, &ids[..300]).await, "the first file has none");
        assert!(!placed(&handle, &ids).await);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_layout_that_reads_other_bytes_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let handle = table(
            dir.path().to_str().unwrap(),
            batch(&DataType::Float32, 80, |_| false),
            false,
        )
        .await;
        let ids = row_ids(&handle).await;
        let column = handle.column("vec").unwrap();
        let places = Places::default();
        let mut wrong = place(&handle.dataset, &handle.dataset.get_fragment(0).unwrap(), &column)
            .await
            .unwrap()
            .unwrap();
        wrong.pages[0].offset += 4;
        places
            .columns
            .lock()
            .insert((column.field_id, 0), Some(Arc::new(wrong)));
        for _ in 0..2 {
            let read = places.vectors(&handle, &column, &ids[10..20]).await.unwrap();
            assert!(read.is_none());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn more_files_than_stay_open_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let request = WriteRequest {
            max_rows_per_file: Some(4),
            ..fixtures::request(dir.path().to_str().unwrap(), Mode::Create)
        };
        fixtures::write(request, &[batch(&DataType::Float32, 80, |_| false)])
            .await
            .unwrap();
        let handle = open(dir.path().to_str().unwrap()).await;
        assert!(placed(&handle, &row_ids(&handle).await).await);
        assert!(handle.places.files.lock().len() <= OPEN_FILES);
    }
}
