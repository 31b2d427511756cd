//! A dataset pinned to one version, and what is kept warm beside it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::compute::{concat_batches, take as arrow_take};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use lance::Dataset;
use lance::dataset::ProjectionRequest;
use lance::dataset::builder::DatasetBuilder;
use lance::index::DatasetIndexExt;
use lance::session::Session;
use lance_linalg::distance::{DistanceType, multivec_distance};
use lance_table::format::IndexMetadata;
use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::error::{Error, INTERNAL, IO, NOT_FOUND, Result, VERSION_GONE};
use crate::namespace::{self, NamespaceRequest};
use crate::place::Places;
use crate::runtime::in_parts;
use crate::vectors::Vectors;
use crate::warm::Warm;

/// As Lance's own defaults: enough for the indexes of a few large tables, bounded in a host with other work.
const DEFAULT_INDEX_CACHE_BYTES: usize = 6 << 30;
const DEFAULT_METADATA_CACHE_BYTES: usize = 1 << 30;

/// Not `Debug`: storage options hold credentials.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    #[serde(default)]
    pub uri: String,
    pub version: Option<u64>,
    pub tag: Option<String>,
    pub branch: Option<String>,
    pub storage_options: Option<HashMap<String, String>>,
    pub namespace: Option<NamespaceRequest>,
    pub index_cache_bytes: Option<u64>,
    pub metadata_cache_bytes: Option<u64>,
}

pub struct Handle {
    pub dataset: Arc<Dataset>,
    pub warm: Warm,
    pub places: Places,
    indices: OnceCell<Arc<Vec<IndexMetadata>>>,
    live_rows: OnceCell<u64>,
}

/// Rows worth a task of their own when rows are read by id.
const ROWS_A_CORE: usize = 24;

#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    pub field_id: i32,
    /// Canonical path, quoted where Lance needs it.
    pub path: String,
    pub element: DataType,
    pub dim: usize,
    pub multivector: bool,
}

async fn builder(request: &OpenRequest) -> Result<DatasetBuilder> {
    let mut builder = match &request.namespace {
        Some(namespace) => namespace::open_builder(namespace).await?,
        None if request.uri.is_empty() => {
            return Err(Error::invalid("uri is empty: give the dataset's location"));
        }
        None => DatasetBuilder::from_uri(&request.uri),
    };
    if let Some(options) = &request.storage_options {
        builder = builder.with_storage_options(options.clone());
    }
    Ok(builder)
}

/// Opens exactly the version asked for. A version, tag or branch that is missing from a dataset that exists is told
/// apart from a dataset that does not.
pub async fn open(request: OpenRequest) -> Result<Handle> {
    if request.tag.is_some() && (request.version.is_some() || request.branch.is_some()) {
        return Err(Error::invalid(
            "tag excludes version and branch: a tag already names one version",
        ));
    }
    let session = Arc::new(Session::new(
        request
            .index_cache_bytes
            .map_or(DEFAULT_INDEX_CACHE_BYTES, |n| n as usize),
        request
            .metadata_cache_bytes
            .map_or(DEFAULT_METADATA_CACHE_BYTES, |n| n as usize),
        Default::default(),
    ));
    let mut wanted = builder(&request).await?.with_session(session.clone());
    let pinned = match (&request.tag, &request.branch, request.version) {
        (Some(tag), ..) => {
            wanted = wanted.with_tag(tag);
            Some(format!("tag {tag:?}"))
        }
        (None, Some(branch), version) => {
            wanted = wanted.with_branch(branch, version);
            Some(match version {
                Some(version) => format!("version {version} of branch {branch:?}"),
                None => format!("branch {branch:?}"),
            })
        }
        (None, None, Some(version)) => {
            wanted = wanted.with_version(version);
            Some(format!("version {version}"))
        }
        (None, None, None) => None,
    };
    let dataset = match wanted.load().await {
        Ok(dataset) => dataset,
        Err(error) => {
            let error = namespace::from_lance(error);
            let Some(pinned) = pinned.filter(|_| error.code == NOT_FOUND) else {
                return Err(error);
            };
            let Ok(latest) = builder(&request).await?.with_session(session).load().await else {
                return Err(error);
            };
            let latest = latest.version().version;
            return Err(match request.version {
                Some(version) if version <= latest => Error::new(
                    VERSION_GONE,
                    format!(
                        "{pinned} no longer exists (the latest is {latest}): it was cleaned up, plan again on a newer version"
                    ),
                ),
                _ => Error::not_found(format!(
                    "{pinned} does not exist in the dataset (the latest version is {latest})"
                )),
            });
        }
    };
    Ok(Handle::new(dataset))
}

impl Handle {
    pub fn new(dataset: Dataset) -> Self {
        Self {
            dataset: Arc::new(dataset),
            warm: Warm::default(),
            places: Places::default(),
            indices: OnceCell::new(),
            live_rows: OnceCell::new(),
        }
    }

    pub fn version(&self) -> u64 {
        self.dataset.manifest().version
    }

    pub async fn indices(&self) -> Result<&Arc<Vec<IndexMetadata>>> {
        self.indices
            .get_or_try_init(|| async { Ok(self.dataset.load_indices().await?) })
            .await
    }

    pub async fn live_rows(&self) -> Result<u64> {
        self.live_rows
            .get_or_try_init(|| async { Ok(self.dataset.count_rows(None).await? as u64) })
            .await
            .copied()
    }

    /// The live rows of some fragments.
    pub async fn live_rows_of(&self, fragments: &[u32]) -> Result<u64> {
        let mut rows = 0;
        for fragment in self.dataset.get_fragments() {
            if fragments.contains(&(fragment.id() as u32)) {
                rows += fragment.count_rows(None).await? as u64;
            }
        }
        Ok(rows)
    }

    pub fn column(&self, path: &str) -> Result<ColumnInfo> {
        let schema = self.dataset.schema();
        let field = schema.field(path).ok_or_else(|| {
            Error::not_found(format!(
                "column {path:?} does not exist: the columns are {}",
                schema.field_paths().join(", ")
            ))
        })?;
        let not_a_vector = || {
            Error::invalid(format!(
                "column {path:?} has type {}: a vector column is a fixed-size list of float16, float32, float64 or uint8, or a list of such",
                field.data_type()
            ))
        };
        let (vector, multivector) = match field.data_type() {
            DataType::FixedSizeList(item, dim) => ((item.data_type().clone(), dim), false),
            DataType::List(item) => match item.data_type() {
                DataType::FixedSizeList(item, dim) => ((item.data_type().clone(), *dim), true),
                _ => return Err(not_a_vector()),
            },
            _ => return Err(not_a_vector()),
        };
        let (element, dim) = vector;
        if !matches!(
            element,
            DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::UInt8
        ) {
            return Err(not_a_vector());
        }
        Ok(ColumnInfo {
            field_id: field.id,
            path: schema.field_path(field.id)?,
            element,
            dim: dim as usize,
            multivector,
        })
    }

    /// Says that the version is gone when that is why `error` happened: files that a cleanup removed surface as
    /// "not found" from deep inside a read.
    pub async fn explain(&self, error: Error) -> Error {
        // From inside a query plan it comes as text, so other codes are looked into as well.
        if !matches!(error.code, NOT_FOUND | IO | INTERNAL) {
            return error;
        }
        let location = self.dataset.manifest_location();
        let store = match self.dataset.object_store(None).await {
            Ok(store) => store,
            Err(_) => return error,
        };
        match store.exists(&location.path).await {
            Ok(false) => Error::new(
                VERSION_GONE,
                format!(
                    "version {} no longer exists: it was cleaned up, plan again on a newer version",
                    self.version()
                ),
            ),
            _ => error,
        }
    }

    /// Rows in the order given, each once for each time it is named.
    pub async fn take(&self, row_ids: &[u64], columns: &[String]) -> Result<RecordBatch> {
        let schema = self.dataset.schema();
        for column in columns {
            if schema.field(column).is_none() {
                return Err(Error::not_found(format!(
                    "column {column:?} does not exist: the columns are {}",
                    schema.field_paths().join(", ")
                )));
            }
        }
        let projection = ProjectionRequest::from_schema(schema.project(columns)?);
        let mut distinct = row_ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if !self.dataset.manifest().uses_stable_row_ids() {
            // A row id is an address here, and Lance has no code of its own for one that leads nowhere.
            let fragments = self.dataset.fragment_bitmap();
            if let Some(id) = distinct.iter().find(|id| !fragments.contains((**id >> 32) as u32)) {
                return Err(Error::not_found(format!(
                    "row {id} is not live in version {}: take row ids that a search of this version gave",
                    self.version()
                )));
            }
        }
        let batch = self.rows(&distinct, projection).await?;
        if batch.num_rows() != distinct.len() {
            let missing = distinct.len() - batch.num_rows();
            return Err(Error::not_found(format!(
                "{missing} of {} rows are not live in version {}: take row ids that a search of this version gave",
                distinct.len(),
                self.version()
            )));
        }
        if distinct == row_ids {
            return Ok(batch);
        }
        let order: UInt32Array = row_ids
            .iter()
            .map(|id| distinct.binary_search(id).map(|at| at as u32).ok())
            .collect();
        Ok(arrow::compute::take_record_batch(&batch, &order)?)
    }

    /// Rows by ascending row id, read by all cores: Lance reads and decodes one take on one.
    async fn rows(&self, ids: &[u64], projection: ProjectionRequest) -> Result<RecordBatch> {
        let batches = in_parts(ids, ROWS_A_CORE, |part| {
            let (dataset, projection) = (self.dataset.clone(), projection.clone());
            async move { Ok(dataset.take_rows(&part, projection).await?) }
        })
        .await?;
        Ok(concat_batches(&batches[0].schema(), &batches)?)
    }

    /// Values of a column by ascending row id, as Lance reads them. All rows must be live.
    pub async fn decoded(&self, column: &ColumnInfo, ids: &[u64]) -> Result<ArrayRef> {
        let schema = self.dataset.schema().project(&[column.path.as_str()])?;
        let batch = self.rows(ids, ProjectionRequest::from_schema(schema)).await?;
        if batch.num_rows() != ids.len() {
            return Err(Error::internal(format!(
                "{} candidate rows were asked for and {} came back: the index holds rows that are not live in version {}",
                ids.len(),
                batch.num_rows(),
                self.version()
            )));
        }
        nested_column(&batch, &column.path)
    }

    /// Exact distances of (query, row) pairs, with the same kernels as Lance's flat search. NaN where a row has no
    /// vector.
    pub async fn refine(
        &self,
        column: &str,
        metric: DistanceType,
        vectors: &Vectors,
        pairs: &[(u32, u64)],
    ) -> Result<Vec<f32>> {
        let info = self.column(column)?;
        vectors.check(&info)?;
        let mut distinct: Vec<u64> = pairs.iter().map(|(_, row)| *row).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let stored = match self.places.vectors(self, &info, &distinct).await? {
            Some(vectors) => vectors,
            None => self.decoded(&info, &distinct).await?,
        };
        let mut by_query: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, (query, _)) in pairs.iter().enumerate() {
            by_query.entry(*query).or_default().push(at);
        }
        let mut out = vec![f32::NAN; pairs.len()];
        for (query, positions) in by_query {
            let rows: UInt32Array = positions
                .iter()
                .map(|at| distinct.binary_search(&pairs[*at].1).ok().map(|i| i as u32))
                .collect();
            let subset =
                if positions.len() == distinct.len() && rows.values().iter().enumerate().all(|(i, r)| i as u32 == *r) {
                    stored.clone()
                } else {
                    arrow_take(stored.as_ref(), &rows, None)?
                };
            let distances = exact_distances(&vectors.query(query as usize)?, &subset, metric)?;
            for (at, distance) in positions.into_iter().zip(distances) {
                out[at] = distance;
            }
        }
        Ok(out)
    }
}

fn exact_distances(query: &ArrayRef, stored: &ArrayRef, metric: DistanceType) -> Result<Vec<f32>> {
    let mut distances: Vec<f32> = match stored.data_type() {
        DataType::FixedSizeList(..) => {
            let computed = metric.arrow_batch_func()(query.as_ref(), stored.as_fixed_size_list())?;
            (0..computed.len())
                .map(|i| {
                    if computed.is_null(i) {
                        f32::NAN
                    } else {
                        computed.value(i)
                    }
                })
                .collect()
        }
        DataType::List(_) => multivec_distance(query.as_ref(), stored.as_list(), metric)?,
        other => {
            return Err(Error::internal(format!("vectors came back as {other}, not as a list")));
        }
    };
    for (at, distance) in distances.iter_mut().enumerate() {
        if stored.is_null(at) {
            *distance = f32::NAN;
        }
    }
    Ok(distances)
}

/// The array at a field path of a batch that holds just that path.
fn nested_column(batch: &RecordBatch, path: &str) -> Result<ArrayRef> {
    let parts = lance_core::datatypes::parse_field_path(path)?;
    let missing = || Error::internal(format!("column {path:?} is not in the rows read"));
    let mut parts = parts.iter();
    let mut array = parts
        .next()
        .and_then(|name| batch.column_by_name(name))
        .ok_or_else(missing)?
        .clone();
    for name in parts {
        let parent = array.as_struct_opt().ok_or_else(missing)?.clone();
        let child = parent.column_by_name(name).ok_or_else(missing)?.clone();
        // A struct that is null hides its children, which may still hold bytes.
        array = match parent.nulls() {
            None => child,
            Some(outer) => {
                let nulls = arrow::buffer::NullBuffer::union(Some(outer), child.nulls());
                let data = child
                    .to_data()
                    .into_builder()
                    .nulls(nulls)
                    .build()
                    .map_err(Error::from)?;
                arrow_array::make_array(data)
            }
        };
    }
    Ok(array)
}
