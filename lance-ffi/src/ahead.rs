//! Opens a segment in a store with one wait, where Lance alone takes five.
//!
//! Lance reads the end of the index file three times over, its centroids, and the end of the file beside it, each when the
//! one before has come. Here the first of these reads fetches what all of them want, and the others find it.

use std::fmt::{self, Debug, Display};
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use lance::Dataset;
use lance::index::DatasetIndexInternalExt;
use lance::io::WrappingObjectStore;
use lance_index::metrics::MetricsCollector;
use lance_index::vector::VectorIndex;
use lance_index::{INDEX_AUXILIARY_FILE_NAME, INDEX_FILE_NAME};
use lance_table::format::IndexMetadata;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::index::is_declared_flat;

/// Segments opened at a time: each waits for the store, and does little else. Lance asks a store for no more than 64 things
/// at a time.
pub(crate) const AT_ONCE: usize = 64;

/// The index file of a segment without a graph holds its centroids and little else: up to this size it is read whole.
const WHOLE: u64 = 4 << 20;

/// What Lance reads first of a file in a store.
const TAIL: u64 = 64 << 10;

pub async fn open(
    dataset: &Dataset,
    column: &str,
    segment: &IndexMetadata,
    metrics: &dyn MetricsCollector,
) -> lance::Result<Arc<dyn VectorIndex>> {
    let Some(wanted) = wanted(dataset, segment).await? else {
        return dataset.open_vector_index(column, &segment.uuid, metrics).await;
    };
    let wanted = Arc::new(wanted);
    let opened = dataset
        .with_object_store_wrappers([Arc::new(Ends(wanted.clone())) as Arc<dyn WrappingObjectStore>])
        .open_vector_index(column, &segment.uuid, metrics)
        .await;
    // The index keeps its store, which from now on only passes on.
    wanted.forget();
    opened
}

/// None where there is no wait to save, or where it is not known what to read.
async fn wanted(dataset: &Dataset, segment: &IndexMetadata) -> lance::Result<Option<Wanted>> {
    if segment.base_id.is_some() || dataset.object_store(None).await?.is_local() {
        return Ok(None);
    }
    let sizes = segment.file_size_map();
    let folder = dataset.indices_dir().join(segment.uuid.to_string());
    let end = |name: &str, whole: u64| {
        let size = sizes.get(name).copied().filter(|size| *size > 0)?;
        let start = if size <= whole { 0 } else { size.saturating_sub(TAIL) };
        Some((folder.clone().join(name), start..size))
    };
    let whole = if is_declared_flat(segment) { WHOLE } else { TAIL };
    let files = [end(INDEX_FILE_NAME, whole), end(INDEX_AUXILIARY_FILE_NAME, TAIL)];
    let files: Vec<_> = files.into_iter().flatten().collect();
    Ok((!files.is_empty()).then(|| Wanted::new(files)))
}

struct Part {
    path: Path,
    range: Range<u64>,
    bytes: Bytes,
    meta: ObjectMeta,
}

struct Wanted {
    files: Vec<(Path, Range<u64>)>,
    /// None once they are forgotten.
    parts: Mutex<Option<Arc<OnceCell<Vec<Part>>>>>,
}

impl Wanted {
    fn new(files: Vec<(Path, Range<u64>)>) -> Self {
        Self {
            files,
            parts: Mutex::new(Some(Arc::default())),
        }
    }

    fn names(&self, path: &Path) -> bool {
        self.files.iter().any(|(file, _)| file == path)
    }

    fn forget(&self) {
        *self.parts.lock() = None;
    }

    /// What cannot be read is left to Lance, which says so in its own words.
    async fn fetch(&self, store: &Arc<dyn ObjectStore>) -> Vec<Part> {
        let reads = self.files.iter().map(|(path, range)| async move {
            let options = GetOptions {
                range: Some(range.clone().into()),
                ..Default::default()
            };
            let got = store.get_opts(path, options).await.ok()?;
            let meta = got.meta.clone();
            let bytes = got.bytes().await.ok()?;
            (bytes.len() as u64 == range.end - range.start).then(|| Part {
                path: path.clone(),
                range: range.clone(),
                bytes,
                meta,
            })
        });
        futures::future::join_all(reads).await.into_iter().flatten().collect()
    }

    async fn get(&self, store: &Arc<dyn ObjectStore>, path: &Path, options: &GetOptions) -> Option<GetResult> {
        if !self.names(path) || !plain(options) {
            return None;
        }
        let parts = self.parts.lock().clone()?;
        let parts = parts.get_or_init(|| self.fetch(store)).await;
        let part = parts.iter().find(|part| part.path == *path)?;
        let range = match &options.range {
            None => 0..part.meta.size,
            Some(GetRange::Bounded(range)) => range.clone(),
            Some(_) => return None,
        };
        let from = range.start.checked_sub(part.range.start)?;
        let to = range.end.checked_sub(part.range.start)?;
        if from > to || to > part.bytes.len() as u64 {
            return None;
        }
        let bytes = part.bytes.slice(from as usize..to as usize);
        Some(GetResult {
            payload: GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed()),
            meta: part.meta.clone(),
            range,
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }
}

/// Whether nothing but a range is asked for, as Lance does.
fn plain(options: &GetOptions) -> bool {
    let GetOptions {
        if_match: None,
        if_none_match: None,
        if_modified_since: None,
        if_unmodified_since: None,
        version: None,
        head: false,
        ..
    } = options
    else {
        return false;
    };
    true
}

struct Ends(Arc<Wanted>);

impl Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ends")
    }
}

impl WrappingObjectStore for Ends {
    fn wrap(&self, _: &str, inner: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        Arc::new(WithEnds {
            wanted: self.0.clone(),
            inner,
        })
    }

    fn wrap_paginated(&self, _: &str, lister: Arc<dyn PaginatedListStore>) -> Option<Arc<dyn PaginatedListStore>> {
        Some(lister)
    }
}

/// Answers from what was fetched, and passes on everything else.
struct WithEnds {
    wanted: Arc<Wanted>,
    inner: Arc<dyn ObjectStore>,
}

impl Debug for WithEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.inner, f)
    }
}

impl Display for WithEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, f)
    }
}

#[async_trait]
impl ObjectStore for WithEnds {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        match self.wanted.get(&self.inner, path, &options).await {
            Some(found) => Ok(found),
            None => self.inner.get_opts(path, options).await,
        }
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, PutResult};

    const SIZE: u64 = 1000;

    fn contents() -> Vec<u8> {
        (0..SIZE).map(|at| (at % 251) as u8).collect()
    }

    fn found(wanted: &Wanted) -> usize {
        wanted.parts.lock().as_ref().unwrap().get().unwrap().len()
    }

    async fn store(files: Vec<(Path, Range<u64>)>) -> (Arc<Wanted>, WithEnds) {
        let inner = InMemory::new();
        for name in ["a", "b"] {
            let _: PutResult = inner.put(&name.into(), contents().into()).await.unwrap();
        }
        let wanted = Arc::new(Wanted::new(files));
        (
            wanted.clone(),
            WithEnds {
                wanted,
                inner: Arc::new(inner),
            },
        )
    }

    #[tokio::test]
    async fn every_range_is_what_the_store_holds() {
        let (wanted, store) = store(vec![("a".into(), 600..SIZE), ("missing".into(), 0..10)]).await;
        for range in [600..1000, 700..701, 599..1000, 0..SIZE, 0..10, 650..650, 990..1200] {
            for name in ["a", "b"] {
                let options = GetOptions {
                    range: Some(range.clone().into()),
                    ..Default::default()
                };
                let ours = store.get_opts(&name.into(), options.clone()).await;
                let plain = store.inner.get_opts(&name.into(), options).await;
                match plain {
                    Ok(plain) => {
                        let ours = ours.unwrap();
                        assert_eq!(ours.range, plain.range, "{range:?} of {name}");
                        assert_eq!(ours.meta, plain.meta);
                        assert_eq!(
                            ours.bytes().await.unwrap(),
                            plain.bytes().await.unwrap(),
                            "{range:?} of {name}"
                        );
                    }
                    Err(_) => assert!(range.is_empty() || ours.is_err(), "{range:?} of {name}"),
                }
            }
        }
        assert_eq!(found(&wanted), 1, "what is missing is not found");
        assert!(store.get(&"missing".into()).await.is_err());
        wanted.forget();
        assert_eq!(store.get(&"a".into()).await.unwrap().bytes().await.unwrap(), contents());
    }

    #[tokio::test]
    async fn a_whole_file_is_answered_whole() {
        let (_, store) = store(vec![("a".into(), 0..SIZE)]).await;
        let got = store.get(&"a".into()).await.unwrap();
        assert_eq!(got.range, 0..SIZE);
        assert_eq!(got.bytes().await.unwrap(), contents());
        let options = GetOptions {
            if_match: Some("another".into()),
            ..Default::default()
        };
        assert!(
            store.get_opts(&"a".into(), options).await.is_err(),
            "a condition is the store's to check"
        );
    }

    #[tokio::test]
    async fn a_file_of_another_size_is_left_to_lance() {
        let (wanted, store) = store(vec![("a".into(), 900..SIZE + 100)]).await;
        let tail = GetOptions {
            range: Some((950..SIZE).into()),
            ..Default::default()
        };
        let got = store.get_opts(&"a".into(), tail).await.unwrap();
        assert_eq!(got.bytes().await.unwrap(), contents()[950..]);
        assert_eq!(found(&wanted), 0);
    }
}
