//! Tables found through a Lance namespace: a directory of tables, or a REST service that knows them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lance::dataset::builder::DatasetBuilder;
use lance::io::commit::namespace_manifest::LanceNamespaceExternalManifestStore;
use lance_io::object_store::{LanceNamespaceStorageOptionsProvider, StorageOptionsAccessor, StorageOptionsProvider};
use lance_namespace::models::{DeclareTableRequest, DescribeTableRequest};
use lance_namespace::{ErrorCode, LanceNamespace, NamespaceError};
use lance_namespace_impls::ConnectBuilder;
use lance_table::io::commit::CommitHandler;
use lance_table::io::commit::external_manifest::ExternalManifestCommitHandler;
use serde::Deserialize;

use crate::error::{self, Error, Result};

const IMPLEMENTATIONS: [&str; 2] = ["dir", "rest"];

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRequest {
    #[serde(rename = "impl")]
    pub implementation: String,
    /// Of the implementation: `root` and `storage.*` for dir, `uri`, `delimiter`, `header.*` and `tls.*` for rest.
    pub properties: Option<HashMap<String, String>>,
    pub table_id: Vec<String>,
}

/// Properties hold credentials, so only their names are shown.
impl fmt::Debug for NamespaceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.properties.iter().flatten().map(|(name, _)| name);
        f.debug_struct("NamespaceRequest")
            .field("impl", &self.implementation)
            .field("properties", &names.collect::<Vec<_>>())
            .field("table_id", &self.table_id)
            .finish()
    }
}

/// Where a write goes, and with which credentials.
pub(crate) struct WriteTarget {
    pub uri: String,
    pub commit_handler: Option<Arc<dyn CommitHandler>>,
    pub storage_options: Option<Arc<StorageOptionsAccessor>>,
}

pub async fn open_builder(request: &NamespaceRequest) -> Result<DatasetBuilder> {
    let client = connect(request).await?;
    DatasetBuilder::from_namespace(client, request.table_id.clone())
        .await
        .map_err(from_lance)
}

async fn connect(request: &NamespaceRequest) -> Result<Arc<dyn LanceNamespace>> {
    if !IMPLEMENTATIONS.contains(&request.implementation.as_str()) {
        return Err(Error::invalid(format!(
            "namespace implementation {:?} is not known: use one of {}",
            request.implementation,
            IMPLEMENTATIONS.join(", ")
        )));
    }
    if request.table_id.is_empty() || request.table_id.iter().any(String::is_empty) {
        return Err(Error::invalid(format!(
            "table id {:?} names no table: give the namespace's parts and then the table's name",
            request.table_id
        )));
    }
    ConnectBuilder::new(request.implementation.as_str())
        .properties(request.properties.clone().unwrap_or_default())
        .connect()
        .await
        .map_err(from_lance)
}

struct Location {
    uri: Option<String>,
    /// The namespace, not the object store, says which version is the latest.
    managed_versions: bool,
    storage_options: Option<HashMap<String, String>>,
    only_declared: bool,
}

async fn declare(client: &dyn LanceNamespace, table_id: &[String]) -> Result<Location> {
    let request = DeclareTableRequest {
        id: Some(table_id.to_vec()),
        ..Default::default()
    };
    let response = client.declare_table(request).await.map_err(from_lance)?;
    Ok(Location {
        uri: response.location,
        managed_versions: response.managed_versioning == Some(true),
        storage_options: response.storage_options,
        only_declared: true,
    })
}

async fn describe(client: &dyn LanceNamespace, table_id: &[String]) -> Result<Location> {
    let request = DescribeTableRequest {
        id: Some(table_id.to_vec()),
        check_declared: Some(true),
        ..Default::default()
    };
    let response = client.describe_table(request).await.map_err(from_lance)?;
    Ok(Location {
        uri: response.location,
        managed_versions: response.managed_versioning == Some(true),
        storage_options: response.storage_options,
        only_declared: response.is_only_declared == Some(true),
    })
}

/// Where the table's data goes; a table the namespace does not know yet is declared there.
///
/// `create` refuses a table that holds data. One that was only declared is taken up again: that is what a write that
/// failed half way leaves, and refusing it would block the name for good.
pub(crate) async fn write_target(
    request: &NamespaceRequest,
    create: bool,
    storage_options: Option<&HashMap<String, String>>,
) -> Result<WriteTarget> {
    let client = connect(request).await?;
    let location = if create {
        match declare(client.as_ref(), &request.table_id).await {
            Err(refused) if refused.code == error::ALREADY_EXISTS => {
                let location = describe(client.as_ref(), &request.table_id).await?;
                if !location.only_declared {
                    return Err(refused);
                }
                location
            }
            declared => declared?,
        }
    } else {
        match describe(client.as_ref(), &request.table_id).await {
            Err(missing) if missing.code == error::NOT_FOUND => declare(client.as_ref(), &request.table_id).await?,
            described => described?,
        }
    };
    let uri = location.uri.ok_or_else(|| {
        Error::internal(format!(
            "the namespace gave no location for table {:?}",
            request.table_id.join(".")
        ))
    })?;
    let commit_handler: Option<Arc<dyn CommitHandler>> = if location.managed_versions {
        let store = LanceNamespaceExternalManifestStore::for_table_uri(client.clone(), request.table_id.clone(), &uri)
            .map_err(from_lance)?;
        Some(Arc::new(ExternalManifestCommitHandler {
            external_manifest_store: Arc::new(store),
        }))
    } else {
        None
    };
    let given = storage_options.cloned();
    let storage_options = match location.storage_options {
        // The namespace's own win, as everywhere in Lance: they are the ones it renews.
        Some(vended) => {
            let provider: Arc<dyn StorageOptionsProvider> = Arc::new(LanceNamespaceStorageOptionsProvider::new(
                client,
                request.table_id.clone(),
            ));
            let mut merged = given.unwrap_or_default();
            merged.extend(vended);
            Some(StorageOptionsAccessor::with_initial_and_provider(merged, provider))
        }
        None => given.map(StorageOptionsAccessor::with_static_options),
    };
    Ok(WriteTarget {
        uri,
        commit_handler,
        storage_options: storage_options.map(Arc::new),
    })
}

/// Lance wraps what a namespace answers, sometimes twice; the answer decides the code.
pub(crate) fn from_lance(error: lance::Error) -> Error {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(source) = next {
        if let Some(answer) = source.downcast_ref::<NamespaceError>() {
            return Error::new(code_of(answer.code()), format!("namespace: {answer}"));
        }
        next = source.source();
    }
    Error::from(error)
}

fn code_of(code: ErrorCode) -> i32 {
    use ErrorCode as C;
    match code {
        C::Unsupported => error::UNSUPPORTED,
        C::NamespaceNotFound
        | C::TableNotFound
        | C::TableIndexNotFound
        | C::TableTagNotFound
        | C::TransactionNotFound
        | C::TableVersionNotFound
        | C::TableColumnNotFound
        | C::TableBranchNotFound => error::NOT_FOUND,
        C::NamespaceAlreadyExists
        | C::TableAlreadyExists
        | C::TableIndexAlreadyExists
        | C::TableTagAlreadyExists
        | C::TableBranchAlreadyExists => error::ALREADY_EXISTS,
        C::InvalidInput | C::TableSchemaValidationError => error::INVALID_ARGUMENT,
        C::NamespaceNotEmpty | C::ConcurrentModification | C::InvalidTableState => error::CONFLICT,
        C::PermissionDenied | C::Unauthenticated | C::ServiceUnavailable | C::Throttling => error::IO,
        C::Internal => error::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::fixtures::{batch, ipc};
    use crate::write::{Mode, WriteRequest, Writer};
    use lance_namespace_impls::{RestAdapter, RestAdapterConfig};

    fn directory(root: &tempfile::TempDir, table: &str) -> NamespaceRequest {
        NamespaceRequest {
            implementation: "dir".into(),
            properties: Some(HashMap::from([(
                "root".to_string(),
                root.path().to_string_lossy().into_owned(),
            )])),
            table_id: vec![table.into()],
        }
    }

    fn writer(namespace: &NamespaceRequest, mode: Mode) -> Writer {
        Writer::open(WriteRequest {
            mode,
            namespace: Some(namespace.clone()),
            ..Default::default()
        })
        .unwrap()
    }

    async fn write(namespace: &NamespaceRequest, mode: Mode, rows: usize) -> Result<u64> {
        let mut writer = writer(namespace, mode);
        writer.push(&ipc(&[batch(0, rows)])).await?;
        writer.finish().await
    }

    async fn rows(namespace: &NamespaceRequest) -> usize {
        let dataset = open_builder(namespace).await.unwrap().load().await.unwrap();
        dataset.count_rows(None).await.unwrap()
    }

    async fn is_created_appended_to_and_overwritten(table: &NamespaceRequest) {
        write(table, Mode::Create, 10).await.unwrap();
        assert_eq!(rows(table).await, 10);
        write(table, Mode::Append, 5).await.unwrap();
        assert_eq!(rows(table).await, 15);
        let refused = write(table, Mode::Create, 1).await.unwrap_err();
        assert_eq!(refused.code, error::ALREADY_EXISTS, "{refused}");
        write(table, Mode::Overwrite, 3).await.unwrap();
        assert_eq!(rows(table).await, 3);
    }

    #[tokio::test]
    async fn a_table_of_a_directory() {
        let root = tempfile::tempdir().unwrap();
        is_created_appended_to_and_overwritten(&directory(&root, "vectors")).await;
    }

    #[tokio::test]
    async fn a_table_of_a_rest_service() {
        let root = tempfile::tempdir().unwrap();
        let server = RestAdapter::new(
            connect(&directory(&root, "served")).await.unwrap(),
            RestAdapterConfig {
                port: 0,
                ..Default::default()
            },
        )
        .start()
        .await
        .unwrap();
        let table = |name: &str| NamespaceRequest {
            implementation: "rest".into(),
            properties: Some(HashMap::from([(
                "uri".to_string(),
                format!("http://127.0.0.1:{}", server.port()),
            )])),
            table_id: vec![name.into()],
        };
        is_created_appended_to_and_overwritten(&table("vectors")).await;
        let missing = open_builder(&table("nothing")).await.unwrap_err();
        assert_eq!(missing.code, error::NOT_FOUND, "{missing}");
    }

    #[tokio::test]
    async fn an_abandoned_create_does_not_block_the_name() {
        let root = tempfile::tempdir().unwrap();
        let table = directory(&root, "vectors");
        let mut abandoned = writer(&table, Mode::Create);
        abandoned.push(&ipc(&[batch(0, 10)])).await.unwrap();
        abandoned.discard().await;
        write(&table, Mode::Create, 4).await.unwrap();
        assert_eq!(rows(&table).await, 4);
    }

    #[tokio::test]
    async fn a_missing_table_and_a_bad_request_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let missing = open_builder(&directory(&root, "nothing")).await.unwrap_err();
        assert_eq!(missing.code, error::NOT_FOUND, "{missing}");
        let mut request = directory(&root, "vectors");
        request.implementation = "glue".into();
        let unknown = open_builder(&request).await.unwrap_err();
        assert_eq!(unknown.code, error::INVALID_ARGUMENT);
        assert!(unknown.message.contains("dir, rest"), "{unknown}");
        let mut request = directory(&root, "vectors");
        request.table_id.clear();
        let nameless = open_builder(&request).await.unwrap_err();
        assert_eq!(nameless.code, error::INVALID_ARGUMENT);
    }

    #[test]
    fn properties_are_not_shown() {
        let root = tempfile::tempdir().unwrap();
        let mut request = directory(&root, "vectors");
        request.properties = Some(HashMap::from([(
            "header.Authorization".to_string(),
            "Bearer secret".to_string(),
        )]));
        let shown = format!("{request:?}");
        assert!(shown.contains("header.Authorization"));
        assert!(!shown.contains("secret"));
    }
}
