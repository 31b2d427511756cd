//! What changes a dataset: writing an Arrow stream, deleting, compacting, tagging.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::buffer::Buffer;
use arrow::ipc::reader::StreamDecoder;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use lance::Dataset;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use lance::dataset::{DeleteBuilder, InsertBuilder, WriteMode, WriteParams};
use lance_file::version::LanceFileVersion;
use lance_io::object_store::{ObjectStoreParams, StorageOptionsAccessor};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};

use crate::error::{self, Error, Result};
use crate::namespace::{self, NamespaceRequest};
use crate::runtime;

/// Batches in flight between the producer and the write: enough to overlap the two, and what bounds memory.
const QUEUED_BATCHES: usize = 4;

/// How long [`Writer::discard`] lets an unfinished write remove its own files before it is cut short.
const CLEAN_UP: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Refuses a dataset that exists.
    #[default]
    Create,
    /// Adds rows; as in Lance, a dataset that does not exist is created.
    Append,
    /// Replaces schema and rows with a new version; a dataset that does not exist is created.
    Overwrite,
}

/// Options that are absent or 0 are Lance's own. Not `Debug`: storage options hold credentials.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// Empty with a namespace, which then says where the table is.
    #[serde(default)]
    pub uri: String,
    #[serde(default)]
    pub mode: Mode,
    pub max_rows_per_file: Option<u64>,
    pub max_rows_per_group: Option<u64>,
    /// Of a new dataset; appending keeps what the dataset has.
    pub stable_row_ids: Option<bool>,
    pub data_storage_version: Option<String>,
    pub storage_options: Option<HashMap<String, String>>,
    pub namespace: Option<NamespaceRequest>,
}

impl WriteRequest {
    fn check(&self) -> Result<()> {
        match (&self.namespace, self.uri.is_empty()) {
            (None, true) => Err(Error::invalid("uri is empty: give the dataset's location")),
            (Some(_), false) => Err(Error::invalid(format!(
                "uri {:?} and a namespace are both given: the namespace already says where the table is",
                self.uri
            ))),
            _ => self.params().map(|_| ()),
        }
    }

    fn params(&self) -> Result<WriteParams> {
        let mut params = WriteParams {
            mode: match self.mode {
                Mode::Create => WriteMode::Create,
                Mode::Append => WriteMode::Append,
                Mode::Overwrite => WriteMode::Overwrite,
            },
            enable_stable_row_ids: self.stable_row_ids.unwrap_or(false),
            ..Default::default()
        };
        if let Some(version) = self.data_storage_version.as_deref().filter(|text| !text.is_empty()) {
            let parsed = version.parse::<LanceFileVersion>().map_err(|e| {
                let reason = Error::from(e).message;
                Error::invalid(format!("data_storage_version {version:?}: {reason}"))
            })?;
            params.data_storage_version = Some(parsed);
        }
        if let Some(rows) = row_count("max_rows_per_file", self.max_rows_per_file)? {
            params.max_rows_per_file = rows;
        }
        if let Some(rows) = row_count("max_rows_per_group", self.max_rows_per_group)? {
            params.max_rows_per_group = rows;
        }
        Ok(params)
    }
}

fn row_count(name: &str, value: Option<u64>) -> Result<Option<usize>> {
    match value.filter(|rows| *rows > 0) {
        None => Ok(None),
        // Lance compares in 32 bits and a larger limit would wrap to a small one.
        Some(rows) => u32::try_from(rows)
            .map(|rows| Some(rows as usize))
            .map_err(|_| Error::invalid(format!("{name} {rows} is too large: the largest is {}", u32::MAX))),
    }
}

enum Message {
    Batch(RecordBatch),
    /// The stream is whole. Only this lets the write commit: a producer that goes away ends it with an error, which
    /// also makes Lance delete the files it has written.
    End,
}

enum State {
    Ready,
    /// A call is running, or was dropped half way, so that what it decoded may be lost.
    Running,
    Failed(Error),
    Finished,
}

struct Task {
    /// Closed, by dropping it, to give the write up.
    batches: Option<mpsc::Sender<Message>>,
    write: JoinHandle<Result<u64>>,
}

/// Writes one Arrow IPC stream, handed over in chunks of any size, while it arrives.
///
/// Nothing is committed before [`Writer::finish`], and nothing at all when the writer is dropped without it or when
/// any call failed or was cancelled. A finish that is cancelled may have committed already: only the dataset knows.
pub struct Writer {
    request: WriteRequest,
    decoder: StreamDecoder,
    task: Option<Task>,
    state: State,
}

impl Writer {
    pub fn open(request: WriteRequest) -> Result<Self> {
        request.check()?;
        Ok(Self {
            request,
            decoder: StreamDecoder::new(),
            task: None,
            state: State::Ready,
        })
    }

    pub async fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.push_buffer(Buffer::from(bytes)).await
    }

    /// As [`Writer::push`], without the copy.
    pub async fn push_owned(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.push_buffer(Buffer::from(bytes)).await
    }

    async fn push_buffer(&mut self, buffer: Buffer) -> Result<()> {
        self.begin()?;
        let pushed = self.decode(buffer).await;
        self.end(pushed, State::Ready)
    }

    /// Commits and returns the new version. The stream must end at a message boundary.
    pub async fn finish(&mut self) -> Result<u64> {
        self.begin()?;
        let committed = self.commit().await;
        self.end(committed, State::Finished)
    }

    /// Ends the writer and waits until its write has stopped and, where it was not committing, removed its files.
    pub async fn discard(mut self) {
        let Some(mut task) = self.task.take() else {
            return;
        };
        task.batches = None;
        let abort = task.write.abort_handle();
        if tokio::time::timeout(CLEAN_UP, &mut task.write).await.is_err() {
            abort.abort();
            // Its outcome is of no interest: the caller gave up on it.
            let _ = task.write.await;
        }
    }

    fn begin(&mut self) -> Result<()> {
        match &self.state {
            State::Ready => {
                self.state = State::Running;
                Ok(())
            }
            State::Running => Err(Error::new(
                error::CANCELLED,
                "an earlier call on this writer was cancelled: nothing is committed, write again",
            )),
            State::Failed(error) => Err(error.clone()),
            State::Finished => Err(Error::invalid("the writer is finished: open another")),
        }
    }

    fn end<T>(&mut self, outcome: Result<T>, next: State) -> Result<T> {
        self.state = match &outcome {
            Ok(_) => next,
            Err(error) => {
                if let Some(task) = &mut self.task {
                    task.batches = None;
                }
                State::Failed(error.clone())
            }
        };
        outcome
    }

    async fn decode(&mut self, mut buffer: Buffer) -> Result<()> {
        while !buffer.is_empty() {
            let batch = self
                .decoder
                .decode(&mut buffer)
                .map_err(|e| Error::invalid(format!("the arrow stream cannot be read: {e}")))?;
            if self.task.is_none()
                && let Some(schema) = self.decoder.schema()
            {
                self.task = Some(start(self.request.clone(), schema));
            }
            if let Some(batch) = batch {
                self.send(Message::Batch(batch)).await?;
            }
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<u64> {
        self.decoder
            .finish()
            .map_err(|_| Error::invalid("the arrow stream ends inside a message: nothing is committed"))?;
        if self.task.is_none() {
            return Err(Error::invalid("the arrow stream is empty: it has no schema"));
        }
        self.send(Message::End).await?;
        // Without this a caller that gives up here would find its rows committed later.
        let mut abort = AbortOnDrop(self.task.as_ref().map(|task| task.write.abort_handle()));
        let committed = self.join().await;
        abort.0 = None;
        committed
    }

    async fn send(&mut self, message: Message) -> Result<()> {
        let batches = self.task.as_ref().and_then(|task| task.batches.as_ref());
        let Some(batches) = batches else {
            return Err(Error::internal("the writer has no write running"));
        };
        if batches.send(message).await.is_ok() {
            return Ok(());
        }
        // The write stopped reading, so it has failed; its own error is the one to report.
        self.join().await?;
        Err(Error::internal(
            "the write ended before its stream did: nothing is committed",
        ))
    }

    async fn join(&mut self) -> Result<u64> {
        let Some(task) = &mut self.task else {
            return Err(Error::internal("the writer has no write running"));
        };
        let joined = (&mut task.write).await;
        self.task = None;
        runtime::joined(joined)
    }
}

struct AbortOnDrop(Option<AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(write) = &self.0 {
            write.abort();
        }
    }
}

fn start(request: WriteRequest, schema: SchemaRef) -> Task {
    let (sender, receiver) = mpsc::channel(QUEUED_BATCHES);
    Task {
        batches: Some(sender),
        write: tokio::spawn(write(request, batch_stream(schema, receiver))),
    }
}

fn batch_stream(schema: SchemaRef, receiver: mpsc::Receiver<Message>) -> SendableRecordBatchStream {
    let batches = futures::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Message::Batch(batch)) => Some((Ok(batch), Some(receiver))),
            Some(Message::End) => None,
            None => Some((
                Err(DataFusionError::Execution(
                    "the stream was given up before its end".to_string(),
                )),
                None,
            )),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

async fn write(request: WriteRequest, batches: SendableRecordBatchStream) -> Result<u64> {
    let mut params = request.params()?;
    let (uri, storage_options) = match &request.namespace {
        Some(namespace) => {
            let target = namespace::write_target(
                namespace,
                request.mode == Mode::Create,
                request.storage_options.as_ref(),
            )
            .await?;
            params.commit_handler = target.commit_handler;
            (target.uri, target.storage_options)
        }
        None => {
            let options = request.storage_options.clone();
            let options = options.map(StorageOptionsAccessor::with_static_options);
            (request.uri.clone(), options.map(Arc::new))
        }
    };
    if storage_options.is_some() {
        params.store_params = Some(ObjectStoreParams {
            storage_options_accessor: storage_options,
            ..Default::default()
        });
    }
    let insert = InsertBuilder::new(uri.as_str()).with_params(&params);
    let dataset = Box::pin(insert.execute_stream(batches))
        .await
        .map_err(namespace::from_lance)?;
    Ok(dataset.manifest().version)
}

/// The newest version of the dataset's branch. Changes are made to it, whatever version a handle is pinned to: a
/// change to an old version would be one to rows that may be gone.
pub(crate) async fn latest(dataset: &Dataset) -> Result<Dataset> {
    let mut latest = dataset.clone();
    latest.checkout_latest().await?;
    Ok(latest)
}

/// Deletes the rows that match an SQL predicate; returns the new version.
pub async fn delete(dataset: &Arc<Dataset>, predicate: &str) -> Result<u64> {
    if predicate.trim().is_empty() {
        return Err(Error::invalid(
            "the predicate is empty: use \"true\" to delete every row",
        ));
    }
    let latest = Arc::new(latest(dataset).await?);
    let deleted = DeleteBuilder::new(latest, predicate).execute().await?;
    Ok(deleted.new_dataset.manifest().version)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactRequest {
    pub target_rows_per_fragment: Option<u64>,
    pub materialize_deletions: Option<bool>,
    pub defer_index_remap: Option<bool>,
}

/// Returns `{"version", "fragments_removed", "fragments_added"}`; when there is nothing to do, the version is the
/// latest and both counts are 0.
pub async fn compact(dataset: &Arc<Dataset>, request: &CompactRequest) -> Result<serde_json::Value> {
    let mut options = CompactionOptions::default();
    if let Some(rows) = row_count("target_rows_per_fragment", request.target_rows_per_fragment)? {
        options.target_rows_per_fragment = rows;
    }
    if let Some(materialize) = request.materialize_deletions {
        options.materialize_deletions = materialize;
    }
    if let Some(defer) = request.defer_index_remap {
        options.defer_index_remap = defer;
    }
    let mut latest = latest(dataset).await?;
    let metrics = Box::pin(compact_files(&mut latest, options, None)).await?;
    Ok(json!({
        "version": latest.manifest().version,
        "fragments_removed": metrics.fragments_removed,
        "fragments_added": metrics.fragments_added,
    }))
}

/// Creates a tag of a version of the dataset's branch, or moves it there.
pub async fn tag(dataset: &Arc<Dataset>, name: &str, version: u64) -> Result<()> {
    let tags = dataset.tags();
    match tags.create(name, version).await {
        Err(lance::Error::RefConflict { .. }) => Ok(tags.update(name, version).await?),
        created => Ok(created?),
    }
}

#[cfg(test)]
pub(crate) mod fixtures {
    use super::*;
    use arrow::ipc::writer::StreamWriter;
    use arrow_array::{FixedSizeListArray, Float32Array, Int64Array};
    use arrow_schema::{DataType, Field, Schema};

    pub(crate) const DIM: usize = 16;

    /// A value in [-1, 1) that depends on nothing but `i` (splitmix64).
    pub(crate) fn value(i: u64) -> f32 {
        let mut z = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn vector(id: i64) -> Vec<f32> {
        (0..DIM).map(|d| value(id as u64 * 1000 + d as u64)).collect()
    }

    /// Rows `start..start + rows` of `id` int64 and `vec` float32[16].
    pub(crate) fn batch(start: i64, rows: usize) -> RecordBatch {
        let ids: Vec<i64> = (start..start + rows as i64).collect();
        let values: Vec<f32> = ids.iter().flat_map(|id| vector(*id)).collect();
        let item = Arc::new(Field::new("item", DataType::Float32, true));
        let vectors = FixedSizeListArray::new(item.clone(), DIM as i32, Arc::new(Float32Array::from(values)), None);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("vec", DataType::FixedSizeList(item, DIM as i32), true),
        ]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(ids)), Arc::new(vectors)]).unwrap()
    }

    /// One IPC stream, ended, of batches with one schema.
    pub(crate) fn ipc(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        for batch in batches {
            writer.write(batch).unwrap();
        }
        writer.into_inner().unwrap()
    }

    pub(crate) fn request(uri: &str, mode: Mode) -> WriteRequest {
        WriteRequest {
            uri: uri.to_string(),
            mode,
            ..Default::default()
        }
    }

    pub(crate) async fn write(request: WriteRequest, batches: &[RecordBatch]) -> Result<u64> {
        let mut writer = Writer::open(request)?;
        writer.push(&ipc(batches)).await?;
        writer.finish().await
    }

    /// A fresh dataset of `fragments` fragments of `rows` rows each.
    pub(crate) async fn dataset(uri: &str, fragments: usize, rows: usize) -> Arc<Dataset> {
        let batches: Vec<_> = (0..fragments).map(|f| batch((f * rows) as i64, rows)).collect();
        let request = WriteRequest {
            max_rows_per_file: Some(rows as u64),
            ..request(uri, Mode::Create)
        };
        write(request, &batches).await.unwrap();
        let dataset = Dataset::open(uri).await.unwrap();
        assert_eq!(dataset.fragments().len(), fragments);
        Arc::new(dataset)
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::{batch, dataset, ipc, request};
    use super::*;
    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use futures::FutureExt;

    fn location(root: &tempfile::TempDir) -> String {
        root.path().join("t.lance").to_string_lossy().into_owned()
    }

    async fn ids(uri: &str) -> Vec<i64> {
        let dataset = Dataset::open(uri).await.unwrap();
        let rows = dataset.scan().try_into_batch().await.unwrap();
        let ids: &Int64Array = rows.column_by_name("id").unwrap().as_primitive::<Int64Type>();
        ids.values().to_vec()
    }

    #[tokio::test]
    async fn a_stream_arrives_whole_whatever_the_chunks() {
        let batches = [batch(0, 40), batch(40, 1), batch(41, 79)];
        let stream = ipc(&batches);
        for chunk in [1, 7, 1000, stream.len()] {
            let root = tempfile::tempdir().unwrap();
            let uri = location(&root);
            let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
            for bytes in stream.chunks(chunk) {
                writer.push(bytes).await.unwrap();
            }
            assert_eq!(writer.finish().await.unwrap(), 1, "chunks of {chunk}");
            assert_eq!(ids(&uri).await, (0..120).collect::<Vec<_>>(), "chunks of {chunk}");
        }
    }

    #[tokio::test]
    async fn modes_create_append_and_overwrite() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let write = |mode, start, rows| {
            let request = request(&uri, mode);
            async move { fixtures::write(request, &[batch(start, rows)]).await }
        };
        assert_eq!(write(Mode::Create, 0, 3).await.unwrap(), 1);
        let refused = write(Mode::Create, 0, 3).await.unwrap_err();
        assert_eq!(refused.code, error::ALREADY_EXISTS, "{refused}");
        assert_eq!(write(Mode::Append, 3, 2).await.unwrap(), 2);
        assert_eq!(ids(&uri).await, [0, 1, 2, 3, 4]);
        assert_eq!(write(Mode::Overwrite, 7, 2).await.unwrap(), 3);
        assert_eq!(ids(&uri).await, [7, 8]);
    }

    #[tokio::test]
    async fn a_failed_write_reports_its_own_error_from_then_on() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        dataset(&uri, 1, 5).await;
        let stream = ipc(&(0..20).map(|i| batch(i, 1)).collect::<Vec<_>>());
        let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
        let mut failures = 0;
        for bytes in stream.chunks(64) {
            if let Err(error) = writer.push(bytes).await {
                assert_eq!(error.code, error::ALREADY_EXISTS, "{error}");
                failures += 1;
            }
        }
        let error = writer.finish().await.unwrap_err();
        assert_eq!(error.code, error::ALREADY_EXISTS, "{error}");
        assert!(failures > 0, "20 batches went into a queue of 4 unnoticed");
        assert_eq!(ids(&uri).await, [0, 1, 2, 3, 4]);
    }

    #[tokio::test]
    async fn a_writer_without_finish_commits_nothing() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let mut dropped = Writer::open(request(&uri, Mode::Create)).unwrap();
        dropped.push(&ipc(&[batch(0, 10)])).await.unwrap();
        drop(dropped);
        let mut discarded = Writer::open(request(&uri, Mode::Create)).unwrap();
        discarded.push(&ipc(&[batch(0, 10)])).await.unwrap();
        discarded.discard().await;
        let missing = Dataset::open(&uri).await.unwrap_err();
        assert_eq!(Error::from(missing).code, error::NOT_FOUND);

        dataset(&uri, 1, 5).await;
        let mut discarded = Writer::open(request(&uri, Mode::Append)).unwrap();
        discarded.push(&ipc(&[batch(5, 10)])).await.unwrap();
        discarded.discard().await;
        let unchanged = Dataset::open(&uri).await.unwrap();
        assert_eq!(unchanged.manifest().version, 1);
        assert_eq!(unchanged.count_rows(None).await.unwrap(), 5);
        let files = std::fs::read_dir(format!("{uri}/data")).unwrap().count();
        assert_eq!(files, 1, "the discarded write left its file behind");
    }

    #[tokio::test]
    async fn a_cancelled_finish_does_not_commit_behind_its_caller() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
        writer.push(&ipc(&[batch(0, 10)])).await.unwrap();
        assert!(writer.finish().now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(Dataset::open(&uri).await.is_err());
        assert_eq!(writer.finish().await.unwrap_err().code, error::CANCELLED);
    }

    #[tokio::test]
    async fn a_cancelled_call_ends_the_writer() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let stream = ipc(&(0..20).map(|i| batch(i, 1)).collect::<Vec<_>>());
        let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
        assert!(
            writer.push(&stream).now_or_never().is_none(),
            "20 batches fitted into a queue of 4 that nobody reads"
        );
        assert_eq!(writer.push(&stream).await.unwrap_err().code, error::CANCELLED);
        assert_eq!(writer.finish().await.unwrap_err().code, error::CANCELLED);
        writer.discard().await;
        assert!(Dataset::open(&uri).await.is_err());
    }

    #[tokio::test]
    async fn a_stream_cut_short_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let stream = ipc(&[batch(0, 10)]);
        for length in [0, 3, stream.len() / 2, stream.len() - 9] {
            let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
            writer.push(&stream[..length]).await.unwrap();
            let error = writer.finish().await.unwrap_err();
            assert_eq!(error.code, error::INVALID_ARGUMENT, "{length} bytes: {error}");
            writer.discard().await;
        }
        let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
        writer.push(&stream).await.unwrap();
        let trailing = writer.push(b"more").await.unwrap_err();
        assert_eq!(trailing.code, error::INVALID_ARGUMENT, "{trailing}");
        writer.discard().await;
        assert!(Dataset::open(&uri).await.is_err());
    }

    #[tokio::test]
    async fn a_stream_without_rows_makes_an_empty_dataset() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        fixtures::write(request(&uri, Mode::Create), &[batch(0, 0)])
            .await
            .unwrap();
        let empty = Dataset::open(&uri).await.unwrap();
        assert_eq!(empty.count_rows(None).await.unwrap(), 0);
        assert!(empty.schema().field("vec").is_some());
    }

    #[tokio::test]
    async fn a_finished_writer_takes_nothing_more() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let mut writer = Writer::open(request(&uri, Mode::Create)).unwrap();
        writer.push_owned(ipc(&[batch(0, 3)])).await.unwrap();
        writer.finish().await.unwrap();
        assert_eq!(writer.finish().await.unwrap_err().code, error::INVALID_ARGUMENT);
        drop(writer);
        assert_eq!(ids(&uri).await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn options_reach_the_dataset() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let written: WriteRequest = serde_json::from_value(serde_json::json!({
            "uri": uri,
            "mode": "create",
            "max_rows_per_file": 10,
            "stable_row_ids": true,
            "data_storage_version": "2.1",
            "storage_options": null,
        }))
        .unwrap();
        fixtures::write(written, &[batch(0, 25)]).await.unwrap();
        let dataset = Dataset::open(&uri).await.unwrap();
        assert_eq!(dataset.fragments().len(), 3);
        assert!(dataset.manifest().uses_stable_row_ids());
    }

    #[test]
    fn a_bad_request_is_refused_when_the_writer_opens() {
        let refused = |request: WriteRequest| Writer::open(request).err().unwrap();
        assert_eq!(refused(request("", Mode::Create)).code, error::INVALID_ARGUMENT);
        let error = refused(WriteRequest {
            data_storage_version: Some("9.9".into()),
            ..request("u", Mode::Create)
        });
        assert!(error.message.contains("9.9"), "{error}");
        let error = refused(WriteRequest {
            max_rows_per_file: Some(1 << 40),
            ..request("u", Mode::Create)
        });
        assert!(error.message.contains("max_rows_per_file"), "{error}");
        assert!(
            serde_json::from_str::<WriteRequest>(r#"{"uri":"u","mode":"upsert"}"#).is_err(),
            "an unknown mode"
        );
    }

    #[tokio::test]
    async fn delete_acts_on_the_latest_version_and_leaves_the_handle() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = dataset(&uri, 1, 10).await;
        fixtures::write(request(&uri, Mode::Append), &[batch(10, 10)])
            .await
            .unwrap();
        let version = delete(&pinned, "id % 2 = 0").await.unwrap();
        assert_eq!(version, 3);
        assert_eq!(ids(&uri).await, (0..20).filter(|id| id % 2 == 1).collect::<Vec<_>>());
        assert_eq!(pinned.manifest().version, 1);
        assert_eq!(pinned.count_rows(None).await.unwrap(), 10);
        assert_eq!(delete(&pinned, " ").await.unwrap_err().code, error::INVALID_ARGUMENT);
    }

    #[tokio::test]
    async fn compact_merges_small_fragments() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = dataset(&uri, 4, 10).await;
        delete(&pinned, "id < 5").await.unwrap();
        let done = compact(&pinned, &CompactRequest::default()).await.unwrap();
        assert_eq!(done["fragments_removed"], 4);
        assert_eq!(done["fragments_added"], 1);
        let latest = Dataset::open(&uri).await.unwrap();
        assert_eq!(done["version"], latest.manifest().version);
        assert_eq!(ids(&uri).await, (5..40).collect::<Vec<_>>());
        let again = compact(&pinned, &CompactRequest::default()).await.unwrap();
        assert_eq!(again["version"], done["version"]);
        assert_eq!(again["fragments_removed"], 0);
    }

    #[tokio::test]
    async fn a_tag_is_created_and_moved() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = dataset(&uri, 1, 10).await;
        delete(&pinned, "id = 0").await.unwrap();
        tag(&pinned, "stable", 1).await.unwrap();
        assert_eq!(pinned.tags().get_version("stable").await.unwrap(), 1);
        tag(&pinned, "stable", 2).await.unwrap();
        assert_eq!(pinned.tags().get_version("stable").await.unwrap(), 2);
        assert!(tag(&pinned, "stable", 99).await.is_err());
        assert_eq!(pinned.tags().get_version("stable").await.unwrap(), 2);
    }
}
