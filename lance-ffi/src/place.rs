//! Vectors of a local table, read by their place in its files.
//!
//! A refinement wants a hundred vectors from all over a table. Lance plans and decodes them fragment by fragment and
//! sends each to a blocking thread. But vectors of more than 256 bytes lie in a file row after row, uncompressed, unless
//! some are null (Lance's full-zip layout without control words), so a row is one read of a place known beforehand.
//!
//! Nothing is taken on trust: the layout must be exactly that one, the first rows read of each file are compared with
//! what Lance reads, and whatever is unusual (nulls, other layouts, overlays, files elsewhere, a read that fails) is left
//! to Lance.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::compute::take as arrow_take;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, UInt32Array, make_array};
use arrow_schema::{DataType, Field};
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
use crate::runtime::{cores, joined};

/// Open files kept: a process has a thousand or so.
const OPEN_FILES: usize = 128;

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

#[derive(Default)]
pub struct Places {
    /// By field and fragment; None where Lance must read.
    columns: Mutex<HashMap<(i32, u32), Option<Arc<Placed>>>>,
    files: Mutex<HashMap<PathBuf, Arc<File>>>,
}

fn bits(element: &DataType) -> u64 {
    element.primitive_width().unwrap_or(0) as u64 * 8
}

/// Where the page's rows begin, if they lie one after another and nothing is between them.
fn plain(page: &PageInfo, column: &ColumnInfo) -> Option<u64> {
    let PageEncoding::Structural(layout) = &page.encoding else {
        return None;
    };
    let Some(Layout::FullZipLayout(zip)) = &layout.layout else {
        return None;
    };
    let width = bits(&column.element) * column.dim as u64;
    let no_levels = zip.bits_rep == 0 && zip.bits_def == 0 && zip.num_items == zip.num_visible_items;
    let all = zip.num_items as u64 == page.num_rows;
    if !no_levels || !all || zip.details != Some(Details::BitsPerValue(u32::try_from(width).ok()?)) {
        return None;
    }
    let Some(Compression::FixedSizeList(list)) = zip.value_compression.as_ref()?.compression.as_ref() else {
        return None;
    };
    let Some(Compression::Flat(flat)) = list.values.as_ref()?.compression.as_ref() else {
        return None;
    };
    let values = list.items_per_value == column.dim as u64 && !list.has_validity;
    if !values || flat.bits_per_value != bits(&column.element) || flat.data.is_some() {
        return None;
    }
    match page.buffer_offsets_and_sizes.as_ref() {
        [(offset, size)] if *size == page.num_rows * (width / 8) => Some(*offset),
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
        width: (bits(&column.element) / 8) as usize * column.dim,
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

type Source = (Arc<File>, u64);

/// The rows one after another.
async fn read(rows: Vec<Source>, width: usize) -> io::Result<Buffer> {
    let mut buffer = MutableBuffer::from_len_zeroed(rows.len() * width);
    let mut cold = Vec::new();
    for (at, ((file, offset), into)) in rows.iter().zip(buffer.chunks_exact_mut(width)).enumerate() {
        if !read_cached(file, into, *offset)? {
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
                file.read_exact_at(into, *offset)?;
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
        if column.multivector || bits(&column.element) == 0 || ids.is_empty() || !store.has_direct_local_paths() {
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
        let mut placed: HashMap<u32, (Arc<Placed>, Arc<File>, usize)> = HashMap::new();
        let mut rows = Vec::with_capacity(addresses.len());
        let mut compared = Vec::new();
        for (at, address) in addresses.iter().enumerate() {
            let fragment = (address >> 32) as u32;
            if !placed.contains_key(&fragment) {
                let Some(found) = self.column(handle, column, fragment).await? else {
                    return Ok(None);
                };
                let Ok(file) = self.file(&found.path) else {
                    return Ok(None);
                };
                placed.insert(fragment, (found, file, 0));
            }
            let Some((found, file, seen)) = placed.get_mut(&fragment) else {
                return Ok(None);
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
        let width = (bits(&column.element) / 8) as usize * column.dim;
        let Ok(buffer) = self.read(rows, width).await? else {
            return Ok(None);
        };
        let vectors = array(buffer, ids.len(), column)?;
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

    async fn read(&self, rows: Vec<Source>, width: usize) -> Result<io::Result<Buffer>> {
        let parts = (rows.len() / ROWS_A_TASK).clamp(1, cores());
        if parts == 1 {
            return Ok(read(rows, width).await);
        }
        let mut reads = JoinSet::new();
        for (at, part) in rows.chunks(rows.len().div_ceil(parts)).enumerate() {
            let part = part.to_vec();
            reads.spawn(async move { Ok((at, read(part, width).await)) });
        }
        let mut done = Vec::with_capacity(parts);
        while let Some(part) = reads.join_next().await {
            done.push(joined(part)?);
        }
        done.sort_by_key(|(at, _)| *at);
        let mut buffer = MutableBuffer::with_capacity(rows.len() * width);
        for (_, part) in done {
            match part {
                Ok(part) => buffer.extend_from_slice(&part),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(buffer.into()))
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

    fn file(&self, path: &PathBuf) -> io::Result<Arc<File>> {
        if let Some(file) = self.files.lock().get(path) {
            return Ok(file.clone());
        }
        let file = Arc::new(File::open(path)?);
        let mut files = self.files.lock();
        if files.len() >= OPEN_FILES
            && let Some(any) = files.keys().next().cloned()
        {
            files.remove(&any);
        }
        files.insert(path.clone(), file.clone());
        Ok(file)
    }
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
