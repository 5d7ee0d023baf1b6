//! Checkpoints as objects: pieces first, the manifest last, so that a checkpoint with a manifest is whole.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use object_store::{ObjectStore, ObjectStoreExt, PutPayload, local::LocalFileSystem, path::Path as Location};
use url::Url;

use crate::{
    CheckpointRecord, LedgerError, Result, files,
    object::{self, manifest_object},
};

const ALLOWED_URL: &str = "file:///absolute/folder";

/// Bytes sent as one part. Also above the 5 MiB that S3 wants at least.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// Holds the shards' states. Clones share one store.
#[derive(Clone)]
pub struct CheckpointStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The folder, where the store is one.
    root: PathBuf,
    pub(crate) part_bytes: usize,
}

impl CheckpointStore {
    /// Opens `file:///folder`; the folder is made with mode 0700 where it is missing. Blocking.
    pub fn open(url: &str) -> Result<Self> {
        Self::with_part_bytes(url, PART_BYTES)
    }

    pub(crate) fn with_part_bytes(url: &str, part_bytes: usize) -> Result<Self> {
        let root = folder_of(url)?;
        let failed = |reason: String| LedgerError::ObjectStore { object: url.to_owned(), reason };
        files::create_private_folder(&root).map_err(|error| failed(error.to_string()))?;
        // Without fsync a manifest could outlive the pieces it names when the power fails.
        let store = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(error.to_string()))?;
        let store = store.with_fsync(true).with_automatic_cleanup(true);
        Ok(Self { store: Arc::new(store), root, part_bytes })
    }

    /// Says that all pieces are there: to be written last. Refused where one is missing.
    pub async fn write_manifest(&self, record: &CheckpointRecord) -> Result<()> {
        object::check_pieces(record)?;
        for piece in &record.pieces {
            let found = self.store.head(&location(&piece.object)?).await;
            found.map_err(|error| object_error(&piece.object, error))?;
        }
        let name = manifest_object(&record.job, record.id);
        let json = serde_json::to_vec_pretty(record)
            .map_err(|error| LedgerError::Checkpoint { object: name.clone(), reason: error.to_string() })?;
        self.make_folder(&name).await?;
        let put = self.store.put(&location(&name)?, PutPayload::from(json)).await;
        put.map_err(|error| object_error(&name, error))?;
        self.make_private(&name).await
    }

    /// Deletes the manifest, then the pieces. What is gone already is fine.
    pub async fn delete_checkpoint(&self, record: &CheckpointRecord) -> Result<()> {
        object::check_pieces(record)?;
        let manifest = manifest_object(&record.job, record.id);
        self.delete(&manifest).await?;
        // The manifest's end must be on disk before a piece's.
        self.on_file(&manifest, |file| match files::sync_folder(files::folder_of(file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        })
        .await?;
        for piece in &record.pieces {
            self.delete(&piece.object).await?;
        }
        Ok(())
    }

    async fn delete(&self, object: &str) -> Result<()> {
        match self.store.delete(&location(object)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(object_error(object, error)),
        }
    }

    /// Makes the object's folder before the store does, so that nobody else can enter it.
    pub(crate) async fn make_folder(&self, object: &str) -> Result<()> {
        self.on_file(object, |file| files::create_private_folder(files::folder_of(file))).await
    }

    pub(crate) async fn make_private(&self, object: &str) -> Result<()> {
        self.on_file(object, files::make_private).await
    }

    /// Works on the object's file outside of the asynchronous threads.
    async fn on_file(
        &self,
        object: &str,
        work: impl FnOnce(&Path) -> std::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let file = self.root.join(object);
        let failed = |reason: String| LedgerError::ObjectStore { object: object.to_owned(), reason };
        let done = tokio::task::spawn_blocking(move || work(&file)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

fn folder_of(url: &str) -> Result<PathBuf> {
    let refused = || LedgerError::invalid("store URL", format!("{url:?}"), ALLOWED_URL);
    let parsed = Url::parse(url).map_err(|_| refused())?;
    if parsed.scheme() != "file" || parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(refused());
    }
    parsed.to_file_path().map_err(|()| refused())
}

/// Where an object lies. Its name has been checked against the one form that names have.
pub fn location(object: &str) -> Result<Location> {
    Location::parse(object)
        .map_err(|error| LedgerError::invalid("object", format!("{object:?}"), error.to_string()))
}

pub fn object_error(object: &str, error: object_store::Error) -> LedgerError {
    let object = object.to_owned();
    match error {
        object_store::Error::NotFound { .. } => {
            LedgerError::Checkpoint { object, reason: "it does not exist".to_owned() }
        }
        error => LedgerError::ObjectStore { object, reason: error.to_string() },
    }
}
