//! Building indexes, whole or by segments, and saying what indexes a dataset has.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_schema::DataType;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use lance::Dataset;
use lance::index::vector::utils::{
    default_distance_type_for, get_vector_dim, get_vector_type, validate_distance_type_for,
};
use lance::index::vector::{StageParams, VectorIndexParams};
use lance::index::{CreateIndexBuilder, DatasetIndexExt, IndexSegment, IntoIndexSegment};
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::pb::vector_index_details::Compression;
use lance_index::pb::{VectorIndexDetails, VectorMetricType};
use lance_index::registry::display_type_from_url;
use lance_index::scalar::{BuiltinIndexType, ScalarIndexParams};
use lance_index::vector::bq::RQBuildParams;
use lance_index::vector::hnsw::builder::HnswBuildParams;
use lance_index::vector::ivf::IvfBuildParams;
use lance_index::vector::pq::PQBuildParams;
use lance_index::vector::sq::builder::SQBuildParams;
use lance_index::{INDEX_FILE_NAME, IndexType, is_system_index};
use lance_linalg::distance::DistanceType;
use lance_table::format::{IndexMetadata, pb};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ahead;
use crate::error::{self, Error, Result};
use crate::write::latest;

/// Options that are absent, empty or 0 are Lance's own.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexRequest {
    pub column: String,
    #[serde(rename = "type")]
    pub index_type: String,
    pub name: Option<String>,
    /// Default: l2; hamming for uint8; cosine for multivectors, which know no other.
    pub metric: Option<String>,
    /// Default: from the number of rows indexed.
    pub partitions: Option<u64>,
    /// Of PQ. Default: at most 8 dimensions each.
    pub sub_vectors: Option<u64>,
    pub num_bits: Option<u64>,
    pub max_level: Option<u64>,
    pub m: Option<u64>,
    pub ef_construction: Option<u64>,
    pub sample_rate: Option<u64>,
    pub max_iterations: Option<u64>,
    pub replace: Option<bool>,
    /// Of a segment, which needs them; a whole index refuses them.
    pub fragments: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalarRequest {
    pub column: String,
    #[serde(rename = "type")]
    pub index_type: String,
    pub name: Option<String>,
    pub replace: Option<bool>,
}

/// Every one has an IVF on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flat,
    Pq,
    Sq,
    Rq,
    HnswFlat,
    HnswSq,
    HnswPq,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Flat,
        Self::Pq,
        Self::Sq,
        Self::Rq,
        Self::HnswFlat,
        Self::HnswSq,
        Self::HnswPq,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Flat => "IVF_FLAT",
            Self::Pq => "IVF_PQ",
            Self::Sq => "IVF_SQ",
            Self::Rq => "IVF_RQ",
            Self::HnswFlat => "IVF_HNSW_FLAT",
            Self::HnswSq => "IVF_HNSW_SQ",
            Self::HnswPq => "IVF_HNSW_PQ",
        }
    }

    fn parse(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "index type {text:?} is not known: use one of {}",
                    Self::ALL.map(Self::name).join(", ")
                ))
            })
    }

    fn has_graph(self) -> bool {
        matches!(self, Self::HnswFlat | Self::HnswSq | Self::HnswPq)
    }

    fn has_product_quantizer(self) -> bool {
        matches!(self, Self::Pq | Self::HnswPq)
    }

    fn is_quantized(self) -> bool {
        !matches!(self, Self::Flat | Self::HnswFlat)
    }
}

struct VectorColumn {
    /// As Lance writes it, so that names it would not parse bare are quoted.
    path: String,
    element: DataType,
    dim: usize,
    multivector: bool,
}

fn field_id(dataset: &Dataset, column: &str) -> Result<i32> {
    let schema = dataset.schema();
    schema.field(column).map(|field| field.id).ok_or_else(|| {
        Error::not_found(format!(
            "column {column:?} does not exist: the columns are {}",
            schema.field_paths().join(", ")
        ))
    })
}

fn vector_column(dataset: &Dataset, column: &str) -> Result<VectorColumn> {
    let schema = dataset.schema();
    let path = schema.field_path(field_id(dataset, column)?)?;
    let not_a_vector = |_: lance::Error| {
        Error::invalid(format!(
            "column {column:?} cannot have a vector index: its type is not a fixed-size list of float16, float32, float64 or uint8, nor a list of such"
        ))
    };
    let (vector, element) = get_vector_type(schema, &path).map_err(not_a_vector)?;
    if element == DataType::Int8 {
        return Err(Error::unsupported(format!(
            "column {column:?} holds int8 vectors, which Lance does not index"
        )));
    }
    let dim = get_vector_dim(schema, &path).map_err(not_a_vector)?;
    Ok(VectorColumn {
        path,
        element,
        dim,
        multivector: matches!(vector, DataType::List(_)),
    })
}

/// A number that was given; 0 is the same as absent.
fn given(name: &str, value: Option<u64>) -> Result<Option<usize>> {
    value
        .filter(|n| *n > 0)
        .map(|n| {
            usize::try_from(n)
                .ok()
                .filter(|n| *n <= u32::MAX as usize)
                .ok_or_else(|| Error::invalid(format!("{name} {n} is too large")))
        })
        .transpose()
}

fn named(name: &Option<String>) -> Option<&str> {
    name.as_deref().filter(|name| !name.is_empty())
}

fn metric(request: &IndexRequest, column: &VectorColumn) -> Result<DistanceType> {
    let metric = match named(&request.metric) {
        None if column.multivector => DistanceType::Cosine,
        None => default_distance_type_for(&column.element),
        Some(text) => match text.to_ascii_lowercase().as_str() {
            "l2" => DistanceType::L2,
            "cosine" => DistanceType::Cosine,
            "dot" => DistanceType::Dot,
            "hamming" => DistanceType::Hamming,
            _ => {
                return Err(Error::invalid(format!(
                    "metric {text:?} is not known: use one of l2, cosine, dot, hamming"
                )));
            }
        },
    };
    if column.multivector && metric != DistanceType::Cosine {
        return Err(Error::invalid(format!(
            "metric {metric} cannot index column {:?}: multivectors have cosine only",
            column.path
        )));
    }
    validate_distance_type_for(metric, &column.element).map_err(|_| {
        let fitting = match column.element {
            DataType::UInt8 => "hamming",
            _ => "l2, cosine or dot",
        };
        Error::invalid(format!(
            "metric {metric} does not fit column {:?} of {} vectors: use {fitting}",
            column.path, column.element
        ))
    })?;
    Ok(metric)
}

/// The fewest sub-vectors of at most 8 dimensions each. More dimensions a code byte lose recall, which a caller that
/// gave no number has not agreed to.
fn default_sub_vectors(dim: usize, num_bits: usize) -> Option<usize> {
    (dim.div_ceil(8)..=dim).find(|n| fits_sub_vectors(dim, *n, num_bits))
}

fn fits_sub_vectors(dim: usize, sub_vectors: usize, num_bits: usize) -> bool {
    // Two 4-bit codes share a byte.
    dim.is_multiple_of(sub_vectors) && (num_bits != 4 || sub_vectors.is_multiple_of(2))
}

fn vector_params(request: &IndexRequest, column: &VectorColumn) -> Result<VectorIndexParams> {
    let kind = Kind::parse(&request.index_type)?;
    let metric = metric(request, column)?;
    let unused = [
        ("sub_vectors", request.sub_vectors, kind.has_product_quantizer()),
        ("num_bits", request.num_bits, kind.is_quantized()),
        ("m", request.m, kind.has_graph()),
        ("ef_construction", request.ef_construction, kind.has_graph()),
        ("max_level", request.max_level, kind.has_graph()),
    ];
    for (name, value, used) in unused {
        if !used && value.is_some_and(|n| n > 0) {
            return Err(Error::invalid(format!(
                "{name} has no meaning for {}: leave it out",
                kind.name()
            )));
        }
    }
    if column.element == DataType::UInt8 && kind.is_quantized() {
        return Err(Error::invalid(format!(
            "column {:?} holds uint8 vectors, which {} cannot index: use IVF_FLAT or IVF_HNSW_FLAT",
            column.path,
            kind.name()
        )));
    }

    let sample_rate = given("sample_rate", request.sample_rate)?;
    let max_iterations = given("max_iterations", request.max_iterations)?;
    let ivf = {
        let default = IvfBuildParams::default();
        IvfBuildParams {
            num_partitions: given("partitions", request.partitions)?,
            sample_rate: sample_rate.unwrap_or(default.sample_rate),
            max_iters: max_iterations.unwrap_or(default.max_iters),
            ..default
        }
    };
    let hnsw = || -> Result<HnswBuildParams> {
        let default = HnswBuildParams::default();
        let max_level = match given("max_level", request.max_level)? {
            None => default.max_level,
            Some(level) => {
                u16::try_from(level).map_err(|_| Error::invalid(format!("max_level {level} is too large")))?
            }
        };
        Ok(HnswBuildParams {
            max_level,
            m: given("m", request.m)?.unwrap_or(default.m),
            ef_construction: given("ef_construction", request.ef_construction)?.unwrap_or(default.ef_construction),
            ..default
        })
    };
    let pq = || -> Result<PQBuildParams> {
        let default = PQBuildParams::default();
        let num_bits = given("num_bits", request.num_bits)?.unwrap_or(default.num_bits);
        if num_bits != 4 && num_bits != 8 {
            return Err(Error::invalid(format!(
                "num_bits {num_bits} is not possible for {}: use 4 or 8",
                kind.name()
            )));
        }
        let suggested = default_sub_vectors(column.dim, num_bits);
        let hint = suggested.map_or_else(
            || "no number fits it, use num_bits 8".to_string(),
            |n| format!("use {n}, for example"),
        );
        let sub_vectors = given("sub_vectors", request.sub_vectors)?
            .or(suggested)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "num_bits 4 needs an even number of sub_vectors that divides the dimension {}: {hint}",
                    column.dim
                ))
            })?;
        if !fits_sub_vectors(column.dim, sub_vectors, num_bits) {
            let even = if num_bits == 4 { " and be even" } else { "" };
            return Err(Error::invalid(format!(
                "sub_vectors {sub_vectors} must divide the dimension {}{even}: {hint}",
                column.dim
            )));
        }
        Ok(PQBuildParams {
            num_sub_vectors: sub_vectors,
            num_bits,
            sample_rate: sample_rate.unwrap_or(default.sample_rate),
            max_iters: max_iterations.unwrap_or(default.max_iters),
            ..default
        })
    };
    let sq = || -> Result<SQBuildParams> {
        let default = SQBuildParams::default();
        match given("num_bits", request.num_bits)? {
            None | Some(8) => Ok(SQBuildParams {
                sample_rate: sample_rate.unwrap_or(default.sample_rate),
                ..default
            }),
            Some(bits) => Err(Error::invalid(format!(
                "num_bits {bits} is not possible for {}: use 8",
                kind.name()
            ))),
        }
    };
    let rq = || -> Result<RQBuildParams> {
        if !column.dim.is_multiple_of(8) {
            return Err(Error::invalid(format!(
                "column {:?} has dimension {}, and {} needs a multiple of 8",
                column.path,
                column.dim,
                kind.name()
            )));
        }
        match given("num_bits", request.num_bits)? {
            None => Ok(RQBuildParams::default()),
            Some(bits @ 1..=9) => Ok(RQBuildParams::new(bits as u8)),
            Some(bits) => Err(Error::invalid(format!(
                "num_bits {bits} is not possible for {}: use 1 to 9",
                kind.name()
            ))),
        }
    };
    Ok(match kind {
        Kind::Flat => VectorIndexParams::with_ivf_flat_params(metric, ivf),
        Kind::Pq => VectorIndexParams::with_ivf_pq_params(metric, ivf, pq()?),
        Kind::Sq => VectorIndexParams::with_ivf_sq_params(metric, ivf, sq()?),
        Kind::Rq => VectorIndexParams::with_ivf_rq_params(metric, ivf, rq()?),
        Kind::HnswFlat => VectorIndexParams::ivf_hnsw(metric, ivf, hnsw()?),
        Kind::HnswSq => VectorIndexParams::with_ivf_hnsw_sq_params(metric, ivf, hnsw()?, sq()?),
        Kind::HnswPq => VectorIndexParams::with_ivf_hnsw_pq_params(metric, ivf, hnsw()?, pq()?),
    })
}

async fn refuse_taken_name(dataset: &Dataset, name: Option<&str>, replace: bool) -> Result<()> {
    let Some(name) = name.filter(|_| !replace) else {
        return Ok(());
    };
    let indices = dataset.load_indices().await?;
    if indices.iter().any(|index| index.name == name) {
        return Err(taken(format!(
            "index {name:?} exists already: choose another name, or replace it"
        )));
    }
    Ok(())
}

fn taken(message: String) -> Error {
    Error::new(error::ALREADY_EXISTS, message)
}

/// Lance has no error kind of its own for a taken index name; the default name is known only to it.
fn build_error(error: lance::Error) -> Error {
    match &error {
        lance::Error::Index { message, .. } if message.contains("already exists") => taken(Error::from(error).message),
        _ => Error::from(error),
    }
}

/// Builds a vector index over the latest version and commits it; returns the new version. Where the rows are too few
/// to train a quantizer, Lance records the index without rows, and it covers nothing.
pub async fn create(dataset: &Arc<Dataset>, request: IndexRequest) -> Result<u64> {
    if request.fragments.as_ref().is_some_and(|f| !f.is_empty()) {
        return Err(Error::invalid(
            "a whole index takes no fragments: build segments over them and commit these",
        ));
    }
    let mut latest = latest(dataset).await?;
    let column = vector_column(&latest, &request.column)?;
    let params = vector_params(&request, &column)?;
    let name = named(&request.name);
    let replace = request.replace.unwrap_or(false);
    refuse_taken_name(&latest, name, replace).await?;
    let columns = [column.path.as_str()];
    let mut builder = CreateIndexBuilder::new(&mut latest, &columns, IndexType::Vector, &params).replace(replace);
    if let Some(name) = name {
        builder = builder.name(name.to_string());
    }
    builder.await.map_err(build_error)?;
    Ok(latest.manifest().version)
}

/// Builds a segment over some fragments of the handle's own version, without committing it; returns the text that
/// [`commit_segments`] takes, on this machine or another. Of fragments that change before that, the commit keeps what
/// the segment still holds truly.
pub async fn create_segment(dataset: &Arc<Dataset>, request: IndexRequest) -> Result<String> {
    let fragments: RoaringBitmap = request.fragments.iter().flatten().copied().collect();
    if fragments.is_empty() {
        return Err(Error::invalid("a segment needs fragments: name the ones it covers"));
    }
    let missing = &fragments - dataset.fragment_bitmap().as_ref();
    if !missing.is_empty() {
        return Err(Error::invalid(format!(
            "fragments {:?} are not in version {}",
            missing.iter().collect::<Vec<_>>(),
            dataset.manifest().version
        )));
    }
    let column = vector_column(dataset, &request.column)?;
    let params = vector_params(&request, &column)?;
    if !column.multivector {
        refuse_too_few_rows(dataset, &fragments, &params)?;
    }
    // The builder wants a dataset it could change, but changes none here.
    let mut pinned = dataset.as_ref().clone();
    let columns = [column.path.as_str()];
    let mut builder = CreateIndexBuilder::new(&mut pinned, &columns, IndexType::Vector, &params)
        .fragments(fragments.iter().collect())
        // A segment may join or replace an index of this name: the commit decides.
        .replace(true);
    if let Some(name) = named(&request.name) {
        builder = builder.name(name.to_string());
    }
    let built = builder.execute_uncommitted().await.map_err(build_error)?;
    if built.fragment_bitmap.as_ref().is_none_or(RoaringBitmap::is_empty) {
        return Err(Error::invalid(format!(
            "fragments {:?} hold too few vectors to train a segment",
            fragments.iter().collect::<Vec<_>>()
        )));
    }
    SegmentText::of(built.into_index_segment()?)
}

/// Training says so too, but only after reading, and without naming the numbers.
fn refuse_too_few_rows(dataset: &Dataset, fragments: &RoaringBitmap, params: &VectorIndexParams) -> Result<()> {
    let rows: Option<usize> = dataset
        .fragments()
        .iter()
        .filter(|fragment| fragments.contains(fragment.id as u32))
        .map(|fragment| fragment.num_rows())
        .sum();
    // Manifests of old writers do not say.
    let Some(rows) = rows else {
        return Ok(());
    };
    for stage in &params.stages {
        match stage {
            StageParams::Ivf(ivf) => {
                if let Some(partitions) = ivf.num_partitions.filter(|n| *n > rows) {
                    return Err(Error::invalid(format!(
                        "partitions {partitions} is more than the {rows} live rows of the fragments: use fewer"
                    )));
                }
            }
            StageParams::PQ(pq) if rows < 1 << pq.num_bits => {
                return Err(Error::invalid(format!(
                    "a product quantizer of {} bits needs at least {} rows to train and the fragments have {rows}: give more fragments, or another index type",
                    pq.num_bits,
                    1 << pq.num_bits
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a commit needs to know of a built segment; its files are found by its id.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentText {
    uuid: String,
    fields: Vec<i32>,
    covering_fields: Vec<i32>,
    dataset_version: u64,
    fragments: Vec<u32>,
    index_version: i32,
    details_type: String,
    /// Hexadecimal.
    details: String,
}

impl SegmentText {
    fn of(segment: IndexSegment) -> Result<String> {
        let (uuid, fragments, fields, covering_fields, details, index_version, dataset_version) = segment.into_parts();
        let text = Self {
            uuid: uuid.to_string(),
            fields,
            covering_fields,
            dataset_version,
            fragments: fragments.iter().collect(),
            index_version,
            details_type: details.type_url.clone(),
            details: to_hex(&details.value),
        };
        serde_json::to_string(&text).map_err(|e| Error::internal(format!("cannot write the segment as JSON: {e}")))
    }

    fn parse(text: &str) -> Result<IndexSegment> {
        let broken = |reason: String| Error::invalid(format!("not an index segment: {reason}"));
        let text: Self = serde_json::from_str(text).map_err(|e| broken(e.to_string()))?;
        let uuid = Uuid::parse_str(&text.uuid).map_err(|e| broken(e.to_string()))?;
        // The message type comes with the manifest's own, so that it is always the one Lance uses.
        let mut details = pb::IndexMetadata::default().index_details.unwrap_or_default();
        details.type_url = text.details_type;
        details.value = from_hex(&text.details).ok_or_else(|| broken("its details are not hexadecimal".to_string()))?;
        Ok(IndexSegment::new(
            uuid,
            text.fragments,
            text.fields,
            Arc::new(details),
            text.index_version,
            text.dataset_version,
            text.covering_fields,
        ))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| (high << 4) | low).collect())
}

/// Commits built segments as the index `name` of the latest version; returns the new version. Segments of that name
/// whose fragments they cover are replaced, others stay.
pub async fn commit_segments(dataset: &Arc<Dataset>, name: &str, column: &str, segments: Vec<String>) -> Result<u64> {
    if name.is_empty() {
        return Err(Error::invalid("the index has no name: give it one"));
    }
    if segments.is_empty() {
        return Err(Error::invalid(format!("index {name:?} has no segments to commit")));
    }
    let segments = segments
        .iter()
        .map(|text| SegmentText::parse(text))
        .collect::<Result<Vec<_>>>()?;
    let mut latest = latest(dataset).await?;
    let column = vector_column(&latest, column)?;
    latest
        .commit_existing_index_segments(name, &column.path, segments)
        .await
        .map_err(build_error)?;
    Ok(latest.manifest().version)
}

/// Builds a scalar index over the latest version and commits it; returns the new version.
pub async fn create_scalar(dataset: &Arc<Dataset>, request: ScalarRequest) -> Result<u64> {
    let (index_type, builtin) = match request.index_type.to_ascii_uppercase().as_str() {
        "BTREE" => (IndexType::BTree, BuiltinIndexType::BTree),
        "BITMAP" => (IndexType::Bitmap, BuiltinIndexType::Bitmap),
        _ => {
            return Err(Error::invalid(format!(
                "scalar index type {:?} is not known: use BTREE or BITMAP",
                request.index_type
            )));
        }
    };
    let mut latest = latest(dataset).await?;
    let path = latest.schema().field_path(field_id(&latest, &request.column)?)?;
    let name = named(&request.name);
    let replace = request.replace.unwrap_or(false);
    refuse_taken_name(&latest, name, replace).await?;
    let params = ScalarIndexParams::for_builtin(builtin);
    let columns = [path.as_str()];
    let mut builder = CreateIndexBuilder::new(&mut latest, &columns, index_type, &params).replace(replace);
    if let Some(name) = name {
        builder = builder.name(name.to_string());
    }
    builder.await.map_err(build_error)?;
    Ok(latest.manifest().version)
}

/// What one segment says of itself.
#[derive(Debug, Default)]
struct Inspected {
    kind: String,
    metric: String,
    partitions: usize,
    problem: Option<String>,
}

/// The dataset's vector indexes, its other indexes, and the reasons why the dataset as a whole must be searched in one
/// scan, all as the "describe" JSON has them. Lance's own bookkeeping indexes are left out.
pub async fn describe_vector_indexes(dataset: &Arc<Dataset>) -> Result<(Vec<Value>, Vec<Value>, Vec<String>)> {
    let indices = dataset.load_indices().await?;
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for index in indices.iter().filter(|index| !is_system_index(index)) {
        by_name.entry(&index.name).or_default().push(index);
    }
    let mut vector = Vec::new();
    let mut other = Vec::new();
    for (name, segments) in by_name {
        let Some(first) = segments.first() else {
            continue;
        };
        let field = first.keyed_field().or(first.fields.first().copied());
        let column = field
            .and_then(|id| dataset.schema().field_path(id).ok())
            .unwrap_or_default();
        if !segments.iter().any(|s| is_vector(dataset, s)) {
            let kind = first
                .index_details
                .as_ref()
                .map_or("unknown", |details| display_type_from_url(&details.type_url));
            other.push(json!({"name": name, "column": column, "type": kind}));
            continue;
        }
        let inspections: Vec<_> = segments
            .iter()
            .map(|segment| inspect(dataset.clone(), column.clone(), (*segment).clone()))
            .collect();
        let inspected: Vec<Inspected> = stream::iter(inspections).buffered(ahead::AT_ONCE).try_collect().await?;
        let known = |of: fn(&Inspected) -> &String| {
            let mut known = inspected.iter().map(of).filter(|text| !text.is_empty());
            known.next().cloned().unwrap_or_default()
        };
        vector.push(json!({
            "name": name,
            "column": column,
            "field_id": field.unwrap_or(-1),
            "type": known(|segment| &segment.kind),
            "metric": known(|segment| &segment.metric),
            "segments": segments
                .iter()
                .zip(&inspected)
                .map(|(segment, inspected)| segment_json(segment, inspected))
                .collect::<Vec<_>>(),
        }));
    }
    // None is known of. A fragment reuse index is not one: Lance translates the rows of each segment by a plan over all
    // segments of the name, not over those selected, so a row of a rewritten fragment is in exactly one of the segments
    // credited with that fragment. Those overlap, and overlapping segments are searched together. A segment without a
    // fragment bitmap concerns its own index only, which says so itself.
    let monolithic = Vec::new();
    Ok((vector, other, monolithic))
}

fn segment_json(segment: &IndexMetadata, inspected: &Inspected) -> Value {
    let fragments = segment.fragment_bitmap.as_ref();
    let mut json = json!({
        "uuid": segment.uuid.to_string(),
        "fragments": fragments.map(|bitmap| bitmap.iter().collect::<Vec<_>>()),
        "type": inspected.kind,
        "metric": inspected.metric,
        "partitions": inspected.partitions,
        "dataset_version": segment.dataset_version,
    });
    if let Some(problem) = &inspected.problem {
        json["problem"] = json!(problem);
    }
    json
}

fn is_vector(dataset: &Dataset, segment: &IndexMetadata) -> bool {
    if let Some(details) = &segment.index_details {
        return details.type_url.ends_with("VectorIndexDetails");
    }
    // Written before indexes said what they are: by its file, else by its column.
    if let Some(files) = &segment.files {
        return files.iter().any(|file| file.path == INDEX_FILE_NAME);
    }
    segment
        .fields
        .first()
        .and_then(|id| dataset.schema().field_by_id(*id))
        .is_some_and(|field| match field.data_type() {
            DataType::FixedSizeList(..) => true,
            DataType::List(item) => matches!(item.data_type(), DataType::FixedSizeList(..)),
            _ => false,
        })
}

/// Opens a segment that has live fragments; only the opened index knows how many partitions it has, and a search will
/// want it open anyway. One that has none is not opened: it may have no file, when it was too small to train.
async fn inspect(dataset: Arc<Dataset>, column: String, segment: IndexMetadata) -> Result<Inspected> {
    let mut inspected = declared(&segment);
    let live = segment.effective_fragment_bitmap(dataset.fragment_bitmap());
    if live.is_some_and(|live| live.is_empty()) {
        return Ok(inspected);
    }
    if column.is_empty() {
        inspected.problem = Some(format!(
            "its column (field ids {:?}) is not in the schema",
            segment.fields
        ));
        return Ok(inspected);
    }
    let opening = async {
        let index = ahead::open(&dataset, &column, &segment, &NoOpMetricsCollector).await?;
        Ok::<_, lance::Error>((
            index.index_type().to_string(),
            index.metric_type().to_string(),
            index.total_partitions(),
        ))
    };
    let opened = AssertUnwindSafe(opening)
        .catch_unwind()
        .await
        .map_err(|panic| panic_text(&*panic).to_string());
    match opened {
        Ok(Ok((kind, metric, partitions))) => {
            inspected.kind = kind;
            inspected.metric = metric;
            inspected.partitions = partitions;
        }
        Ok(Err(failure)) => {
            // A description is kept as long as its dataset: an outage must not become part of it. But to a store a read
            // past the end of a file that was cut short is a failure like any other.
            let may_pass = may_pass(&dataset, &failure).await;
            let failure = Error::from(failure);
            let why = if may_pass {
                wrong_size(&dataset, &segment).await.ok_or(failure)?
            } else {
                failure.message
            };
            inspected.problem = Some(format!("cannot open it: {why}"));
        }
        Err(panic) => inspected.problem = Some(format!("opening it panicked: {panic}")),
    }
    Ok(inspected)
}

fn details(segment: &IndexMetadata) -> Option<VectorIndexDetails> {
    let details = segment.index_details.as_ref();
    details
        .filter(|details| !details.value.is_empty())
        .and_then(|details| details.to_msg().ok())
}

/// Whether the manifest says that the segment has no graph.
pub(crate) fn is_declared_flat(segment: &IndexMetadata) -> bool {
    details(segment).is_some_and(|details| details.hnsw_index_config.is_none())
}

/// Type and metric as the manifest states them; empty where it does not.
fn declared(segment: &IndexMetadata) -> Inspected {
    let Some(details) = details(segment) else {
        return Inspected::default();
    };
    let storage = match details.compression {
        None | Some(Compression::Flat(_)) => "FLAT",
        Some(Compression::Pq(_)) => "PQ",
        Some(Compression::Sq(_)) => "SQ",
        Some(Compression::Rq(_)) => "RQ",
    };
    let graph = if details.hnsw_index_config.is_some() {
        "HNSW_"
    } else {
        ""
    };
    let metric = VectorMetricType::try_from(details.metric_type)
        .map(|metric| DistanceType::from(metric).to_string())
        .unwrap_or_default();
    Inspected {
        kind: format!("IVF_{graph}{storage}"),
        metric,
        ..Default::default()
    }
}

/// Whether trying again may help: the store failed to answer, rather than answered that the file is missing or wrong.
async fn may_pass(dataset: &Dataset, failure: &lance::Error) -> bool {
    if matches!(failure.find_root(), lance::Error::Timeout { .. }) {
        return true;
    }
    let remote = match dataset.object_store(None).await {
        Ok(store) => !store.is_local(),
        Err(_) => false,
    };
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(failure);
    while let Some(source) = next {
        match source.downcast_ref::<object_store::Error>() {
            Some(object_store::Error::NotFound { .. }) => return false,
            Some(_) => return remote,
            None => next = source.source(),
        }
    }
    false
}

/// Which file of a segment has another size than the manifest says; None where all are right or that cannot be told.
async fn wrong_size(dataset: &Dataset, segment: &IndexMetadata) -> Option<String> {
    if segment.base_id.is_some() {
        return None;
    }
    let store = dataset.object_store(None).await.ok()?;
    let folder = dataset.indices_dir().join(segment.uuid.to_string());
    for file in segment.files.iter().flatten().filter(|file| file.size_bytes > 0) {
        let size = store.size(&folder.clone().join(file.path.as_str())).await.ok()?;
        if size != file.size_bytes {
            return Some(format!(
                "{} has {size} bytes and should have {}",
                file.path, file.size_bytes
            ));
        }
    }
    None
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::fixtures::{self, batch, value};
    use crate::write::{Mode, WriteRequest};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StructArray, UInt8Array};
    use arrow_schema::{Field, Schema};

    fn location(root: &tempfile::TempDir) -> String {
        root.path().join("t.lance").to_string_lossy().into_owned()
    }

    fn request(index_type: &str) -> IndexRequest {
        IndexRequest {
            column: "vec".into(),
            index_type: index_type.into(),
            partitions: Some(2),
            max_iterations: Some(5),
            ..Default::default()
        }
    }

    async fn described(uri: &str) -> (Vec<Value>, Vec<Value>, Vec<String>) {
        let dataset = Arc::new(Dataset::open(uri).await.unwrap());
        describe_vector_indexes(&dataset).await.unwrap()
    }

    /// The nearest stored id, by the index alone.
    async fn nearest(uri: &str, query: Vec<f32>) -> i64 {
        let dataset = Dataset::open(uri).await.unwrap();
        let mut scan = dataset.scan();
        scan.nearest("vec", &Float32Array::from(query), 1).unwrap();
        scan.nprobes(100).fast_search();
        scan.project(&["id"]).unwrap();
        let found = scan.try_into_batch().await.unwrap();
        let ids = found.column_by_name("id").unwrap();
        ids.as_primitive::<Int64Type>().value(0)
    }

    #[tokio::test]
    async fn every_type_builds_and_says_what_it_is() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 1, 600).await;
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            let metric = ["l2", "cosine", "dot"][at % 3];
            let version = create(
                &pinned,
                IndexRequest {
                    name: Some("idx".into()),
                    metric: Some(metric.into()),
                    replace: Some(true),
                    ..request(kind.name())
                },
            )
            .await
            .unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
            assert_eq!(version, 2 + at as u64);
            let (vector, other, monolithic) = described(&uri).await;
            assert_eq!(vector.len(), 1);
            assert!(other.is_empty() && monolithic.is_empty());
            let index = &vector[0];
            assert_eq!(index["name"], "idx");
            assert_eq!(index["column"], "vec");
            assert_eq!(index["field_id"], pinned.schema().field("vec").unwrap().id);
            assert_eq!(index["type"], kind.name());
            assert_eq!(index["metric"], metric, "{}", kind.name());
            let segments = index["segments"].as_array().unwrap();
            assert_eq!(segments.len(), 1);
            assert_eq!(segments[0]["type"], kind.name());
            assert_eq!(segments[0]["metric"], metric);
            assert_eq!(segments[0]["fragments"], json!([0]));
            assert!(segments[0]["partitions"].as_u64().unwrap() >= 1);
            assert!(segments[0].get("problem").is_none(), "{}", segments[0]);
        }
    }

    #[tokio::test]
    async fn uint8_vectors_have_hamming_indexes() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let item = Arc::new(Field::new("item", DataType::UInt8, true));
        let bytes: Vec<u8> = (0..600 * 8).map(|i| (value(i) * 127.0) as i8 as u8).collect();
        let vectors = FixedSizeListArray::new(item, 8, Arc::new(UInt8Array::from(bytes)), None);
        let rows = RecordBatch::try_from_iter([("vec", Arc::new(vectors) as ArrayRef)]).unwrap();
        fixtures::write(fixtures::request(&uri, Mode::Create), &[rows])
            .await
            .unwrap();
        let pinned = Arc::new(Dataset::open(&uri).await.unwrap());
        create(&pinned, request("IVF_FLAT")).await.unwrap();
        let (vector, _, _) = described(&uri).await;
        assert_eq!(vector[0]["type"], "IVF_FLAT");
        assert_eq!(vector[0]["metric"], "hamming");
        let refused = create(&pinned, request("IVF_PQ")).await.unwrap_err();
        assert!(refused.message.contains("IVF_HNSW_FLAT"), "{refused}");
    }

    #[tokio::test]
    async fn segments_are_built_apart_and_committed_together() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 4, 300).await;
        let mut segments = Vec::new();
        for (fragments, partitions) in [(vec![1, 0], 3), (vec![2, 3, 3], 2)] {
            segments.push(
                create_segment(
                    &pinned,
                    IndexRequest {
                        fragments: Some(fragments),
                        partitions: Some(partitions),
                        ..request("IVF_FLAT")
                    },
                )
                .await
                .unwrap(),
            );
        }
        assert!(described(&uri).await.0.is_empty(), "nothing committed yet");
        let version = commit_segments(&pinned, "by_parts", "vec", segments.clone())
            .await
            .unwrap();
        assert_eq!(version, 2);
        let (vector, other, _) = described(&uri).await;
        assert!(other.is_empty());
        assert_eq!(vector.len(), 1);
        assert_eq!(vector[0]["name"], "by_parts");
        let mut described_segments = vector[0]["segments"].as_array().unwrap().clone();
        described_segments.sort_by_key(|segment| segment["fragments"][0].as_u64());
        let coverage: Vec<_> = described_segments
            .iter()
            .map(|segment| (segment["fragments"].clone(), segment["partitions"].clone()))
            .collect();
        assert_eq!(coverage, [(json!([0, 1]), json!(3)), (json!([2, 3]), json!(2))]);
        for segment in &described_segments {
            assert_eq!(segment["dataset_version"], 1);
            assert!(
                segments
                    .iter()
                    .any(|text| { text.contains(segment["uuid"].as_str().unwrap()) })
            );
        }
        for id in [0, 450, 1199] {
            assert_eq!(nearest(&uri, fixtures::vector(id)).await, id);
        }
    }

    #[tokio::test]
    async fn a_segment_built_before_an_append_and_a_delete_still_commits() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 2, 300).await;
        let segment = create_segment(
            &pinned,
            IndexRequest {
                fragments: Some(vec![0, 1]),
                ..request("IVF_FLAT")
            },
        )
        .await
        .unwrap();
        fixtures::write(fixtures::request(&uri, Mode::Append), &[batch(600, 10)])
            .await
            .unwrap();
        crate::write::delete(&pinned, "id = 7").await.unwrap();
        commit_segments(&pinned, "late", "vec", vec![segment]).await.unwrap();
        let (vector, _, _) = described(&uri).await;
        assert_eq!(vector[0]["segments"][0]["fragments"], json!([0, 1]));
        assert_ne!(nearest(&uri, fixtures::vector(7)).await, 7);
    }

    #[tokio::test]
    async fn bad_requests_say_what_would_do() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 2, 300).await;
        let refused = async |request: IndexRequest, code: i32, part: &str| {
            let segment = request.fragments.is_some();
            let error = match segment {
                true => create_segment(&pinned, request).await.unwrap_err(),
                false => create(&pinned, request).await.unwrap_err(),
            };
            assert_eq!(error.code, code, "{error}");
            assert!(error.message.contains(part), "{error}");
        };
        let invalid = error::INVALID_ARGUMENT;
        refused(request("HNSW"), invalid, "IVF_HNSW_PQ").await;
        let other = IndexRequest {
            column: "nope".into(),
            ..request("IVF_FLAT")
        };
        refused(other, error::NOT_FOUND, "id, vec").await;
        let other = IndexRequest {
            column: "id".into(),
            ..request("IVF_FLAT")
        };
        refused(other, invalid, "fixed-size list").await;
        for (metric, part) in [("hamming", "l2, cosine or dot"), ("l3", "l2, cosine, dot")] {
            let other = IndexRequest {
                metric: Some(metric.into()),
                ..request("IVF_FLAT")
            };
            refused(other, invalid, part).await;
        }
        let other = IndexRequest {
            sub_vectors: Some(3),
            ..request("IVF_PQ")
        };
        refused(other, invalid, "must divide the dimension 16").await;
        let other = IndexRequest {
            num_bits: Some(5),
            ..request("IVF_PQ")
        };
        refused(other, invalid, "4 or 8").await;
        let other = IndexRequest {
            m: Some(16),
            ..request("IVF_FLAT")
        };
        refused(other, invalid, "no meaning for IVF_FLAT").await;
        let other = IndexRequest {
            fragments: Some(vec![0, 9]),
            ..request("IVF_FLAT")
        };
        refused(other, invalid, "[9]").await;
        let other = IndexRequest {
            fragments: Some(vec![0]),
            partitions: Some(301),
            ..request("IVF_FLAT")
        };
        refused(other, invalid, "300 live rows").await;
        let other = IndexRequest {
            fragments: Some(vec![]),
            ..request("IVF_FLAT")
        };
        refused(other, invalid, "needs fragments").await;
        let nonsense = commit_segments(&pinned, "n", "vec", vec!["{}".into()]).await;
        assert_eq!(nonsense.unwrap_err().code, invalid);
        let none = commit_segments(&pinned, "n", "vec", vec![]).await;
        assert_eq!(none.unwrap_err().code, invalid);
    }

    #[tokio::test]
    async fn a_taken_name_is_refused_unless_replaced() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 1, 300).await;
        let named = IndexRequest {
            name: Some("mine".into()),
            ..request("IVF_FLAT")
        };
        create(&pinned, named.clone()).await.unwrap();
        let taken = create(&pinned, named.clone()).await.unwrap_err();
        assert_eq!(taken.code, error::ALREADY_EXISTS, "{taken}");
        let replacing = IndexRequest {
            replace: Some(true),
            ..named
        };
        create(&pinned, replacing).await.unwrap();
        create(&pinned, request("IVF_FLAT")).await.unwrap();
        let taken = create(&pinned, request("IVF_FLAT")).await.unwrap_err();
        assert_eq!(taken.code, error::ALREADY_EXISTS, "default name: {taken}");
    }

    #[tokio::test]
    async fn scalar_indexes_are_listed_apart() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 1, 300).await;
        for (name, index_type) in [("tree", "BTREE"), ("bits", "bitmap")] {
            let request = ScalarRequest {
                column: "id".into(),
                index_type: index_type.into(),
                name: Some(name.into()),
                ..Default::default()
            };
            create_scalar(&pinned, request).await.unwrap();
        }
        let (vector, other, _) = described(&uri).await;
        assert!(vector.is_empty());
        assert_eq!(
            other,
            [
                json!({"name": "bits", "column": "id", "type": "Bitmap"}),
                json!({"name": "tree", "column": "id", "type": "BTree"}),
            ]
        );
        let request = ScalarRequest {
            column: "id".into(),
            index_type: "HASH".into(),
            ..Default::default()
        };
        let refused = create_scalar(&pinned, request).await.unwrap_err();
        assert!(refused.message.contains("BTREE or BITMAP"), "{refused}");
    }

    #[tokio::test]
    async fn an_index_too_small_to_train_covers_nothing() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 1, 10).await;
        create(&pinned, request("IVF_PQ")).await.unwrap();
        let (vector, _, _) = described(&uri).await;
        let segment = &vector[0]["segments"][0];
        assert_eq!(segment["fragments"], json!([]));
        assert_eq!(segment["partitions"], 0);
        assert_eq!(segment["type"], "IVF_PQ");
        assert!(segment.get("problem").is_none());
    }

    #[tokio::test]
    async fn a_segment_that_cannot_be_opened_is_named_and_the_rest_described() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 2, 300).await;
        let mut segments = Vec::new();
        for fragment in [0, 1] {
            let request = IndexRequest {
                fragments: Some(vec![fragment]),
                ..request("IVF_SQ")
            };
            segments.push(create_segment(&pinned, request).await.unwrap());
        }
        let lost = SegmentText::parse(&segments[0]).unwrap().uuid().to_string();
        commit_segments(&pinned, "idx", "vec", segments).await.unwrap();
        std::fs::remove_dir_all(format!("{uri}/_indices/{lost}")).unwrap();
        let (vector, _, _) = described(&uri).await;
        for segment in vector[0]["segments"].as_array().unwrap() {
            assert_eq!(segment["type"], "IVF_SQ");
            let broken = segment["uuid"] == lost.as_str();
            assert_eq!(segment.get("problem").is_some(), broken, "{segment}");
        }
    }

    #[tokio::test]
    async fn paths_of_nested_and_dotted_columns_are_quoted() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let rows = batch(0, 300);
        let vectors = rows.column_by_name("vec").unwrap().clone();
        let inner = Arc::new(Field::new("a.b", vectors.data_type().clone(), true));
        let outer = StructArray::new(vec![inner.clone()].into(), vec![vectors], None);
        let schema = Schema::new(vec![Field::new("Outer", DataType::Struct(vec![inner].into()), true)]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(outer)]).unwrap();
        fixtures::write(fixtures::request(&uri, Mode::Create), &[rows])
            .await
            .unwrap();
        let pinned = Arc::new(Dataset::open(&uri).await.unwrap());
        let nested = IndexRequest {
            column: "Outer.`a.b`".into(),
            ..request("IVF_FLAT")
        };
        create(&pinned, nested).await.unwrap();
        let (vector, _, _) = described(&uri).await;
        assert_eq!(vector[0]["column"], "Outer.`a.b`");
        assert!(vector[0]["segments"][0].get("problem").is_none());
    }

    #[tokio::test]
    async fn coverage_follows_a_compaction_with_deferred_remapping() {
        let root = tempfile::tempdir().unwrap();
        let uri = location(&root);
        let pinned = fixtures::dataset(&uri, 4, 300).await;
        let mut segments = Vec::new();
        for fragments in [vec![0, 1], vec![2, 3]] {
            let request = IndexRequest {
                fragments: Some(fragments),
                ..request("IVF_FLAT")
            };
            segments.push(create_segment(&pinned, request).await.unwrap());
        }
        commit_segments(&pinned, "idx", "vec", segments).await.unwrap();
        let deferred = crate::write::CompactRequest {
            defer_index_remap: Some(true),
            ..Default::default()
        };
        crate::write::compact(&pinned, &deferred).await.unwrap();
        let dataset = Arc::new(Dataset::open(&uri).await.unwrap());
        let (vector, other, monolithic) = describe_vector_indexes(&dataset).await.unwrap();
        assert!(other.is_empty(), "the fragment reuse index is Lance's own");
        assert!(monolithic.is_empty());
        let live: RoaringBitmap = dataset.fragment_bitmap().as_ref().clone();
        let covered: RoaringBitmap = vector[0]["segments"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|segment| segment["fragments"].as_array().unwrap().clone())
            .map(|fragment| fragment.as_u64().unwrap() as u32)
            .collect();
        assert_eq!(covered & &live, live);
        for id in [0, 450, 1199] {
            assert_eq!(nearest(&uri, fixtures::vector(id)).await, id);
        }
    }

    #[test]
    fn sub_vectors_by_default_hold_at_most_eight_dimensions() {
        for (dim, bits, expected) in [
            (128, 8, Some(16)),
            (100, 8, Some(20)),
            (12, 8, Some(2)),
            (7, 8, Some(1)),
            (127, 8, Some(127)),
            (24, 4, Some(4)),
            (7, 4, None),
        ] {
            assert_eq!(default_sub_vectors(dim, bits), expected, "{dim} at {bits}");
        }
    }

    #[test]
    fn hexadecimal_goes_both_ways() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex(""), Some(vec![]));
        assert_eq!(from_hex("abc"), None);
        assert_eq!(from_hex("zz"), None);
    }

    #[test]
    fn a_request_may_leave_options_out() {
        let request: IndexRequest =
            serde_json::from_str(r#"{"column":"vec","type":"ivf_pq","metric":"","fragments":null}"#).unwrap();
        assert_eq!(request.index_type, "ivf_pq");
        assert!(serde_json::from_str::<IndexRequest>(r#"{"column":"vec"}"#).is_err());
        let unknown = r#"{"column":"vec","type":"IVF_PQ","partition":4}"#;
        assert!(serde_json::from_str::<IndexRequest>(unknown).is_err());
        let _: WriteRequest = serde_json::from_str(r#"{"uri":"u"}"#).unwrap();
    }
}
