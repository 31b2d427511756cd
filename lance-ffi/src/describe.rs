//! What a dataset holds, as JSON: enough to plan a search without opening it again.

use arrow_schema::DataType;
use serde_json::{Value, json};

use crate::dataset::{ColumnInfo, Handle};
use crate::error::Result;
use crate::index;

pub fn column(column: &ColumnInfo) -> Value {
    let value_type = match column.element {
        DataType::Float16 => "float16",
        DataType::Float64 => "float64",
        DataType::UInt8 => "uint8",
        _ => "float32",
    };
    json!({
        "field_id": column.field_id,
        "path": column.path,
        "value_type": value_type,
        "dim": column.dim,
        "multivector": column.multivector,
    })
}

pub async fn describe(handle: &Handle) -> Result<Value> {
    let mut fragments = Vec::new();
    for fragment in handle.dataset.get_fragments() {
        // Older manifests do not say; the fragment's files do.
        let physical = fragment.physical_rows().await?;
        let deleted = fragment.count_deletions().await?;
        fragments.push(json!({
            "id": fragment.id(),
            "physical_rows": physical,
            "deleted_rows": deleted,
        }));
    }
    let (indexes, other_indexes, mut monolithic) = index::describe_vector_indexes(&handle.dataset).await?;
    if handle.dataset.fragments().iter().any(|f| !f.overlays.is_empty()) {
        // One scan re-scores all of its candidates exactly once some rows are stale; the scans of a split would not all.
        monolithic.push("data overlays changed rows after they were indexed".into());
    }
    Ok(json!({
        "uri": handle.dataset.uri(),
        "version": handle.version(),
        "stable_row_ids": handle.dataset.manifest().uses_stable_row_ids(),
        "fragments": fragments,
        "indexes": indexes,
        "other_indexes": other_indexes,
        "monolithic": monolithic,
    }))
}
