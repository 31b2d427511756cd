//! Loading what searches will need, before they need it.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lance_table::format::IndexMetadata;
use serde::Deserialize;
use uuid::Uuid;

use crate::dataset::{ColumnInfo, Handle};
use crate::error::{Error, Result};
use crate::metrics::Counters;

/// Segments whose partitions are read at a time; each reads in windows of its own.
const SEGMENTS_AT_A_TIME: usize = 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrewarmRequest {
    column: Option<String>,
    index: Option<String>,
    #[serde(default)]
    segments: Vec<Uuid>,
    filter: Option<String>,
    /// Read every partition, not just centroids and masks; the default.
    #[serde(default = "yes")]
    partitions: bool,
}

fn yes() -> bool {
    true
}

pub async fn run(handle: &Arc<Handle>, request: PrewarmRequest) -> Result<()> {
    let column = match &request.column {
        Some(path) => handle.column(path)?,
        None => indexed_column(handle, request.index.as_deref()).await?,
    };
    let counters = Counters::default();
    let chosen: Vec<_> = handle
        .indices()
        .await?
        .iter()
        .filter(|meta| {
            meta.fields.first() == Some(&column.field_id)
                && request.index.as_ref().is_none_or(|name| *name == meta.name)
                && (request.segments.is_empty() || request.segments.contains(&meta.uuid))
                && !meta
                    .fragment_bitmap
                    .as_ref()
                    .is_some_and(|b| b.is_disjoint(handle.dataset.fragment_bitmap()))
        })
        .collect();
    if chosen.is_empty() && (request.index.is_some() || !request.segments.is_empty()) {
        return Err(Error::not_found(format!(
            "no segment of that name or id covers column {:?}",
            column.path
        )));
    }
    let mut loads = Vec::with_capacity(chosen.len());
    for meta in chosen {
        loads.push(segment(handle, &column.path, meta, request.partitions, &counters));
    }
    futures::stream::iter(loads)
        .buffer_unordered(SEGMENTS_AT_A_TIME)
        .try_collect::<()>()
        .await?;
    if let Some(filter) = &request.filter {
        let filter = crate::filter::complete(filter)?;
        handle.warm.check_filter(handle, &filter).await?;
        handle.warm.filter(handle, &filter, &counters).await?;
    }
    Ok(())
}

async fn indexed_column(handle: &Handle, index: Option<&str>) -> Result<ColumnInfo> {
    let name = index.ok_or_else(|| Error::invalid("prewarming needs a column, an index name, or both"))?;
    let indices = handle.indices().await?;
    let field = indices
        .iter()
        .find(|meta| meta.name == name)
        .and_then(|meta| meta.fields.first())
        .ok_or_else(|| Error::not_found(format!("index {name:?} does not exist")))?;
    handle.column(&handle.dataset.schema().field_path(*field)?)
}

async fn segment(
    handle: &Handle,
    column: &str,
    meta: &IndexMetadata,
    partitions: bool,
    counters: &Counters,
) -> Result<()> {
    let segment = handle.warm.segment(handle, column, meta, counters).await?;
    if partitions {
        segment.index.prewarm().await?;
    }
    Ok(())
}
