//! Checkpoints as objects: pieces first, the manifest last, so that a checkpoint with a manifest is whole.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use durable_io::{create_private_folder, folder_of, make_private, sync_folder};
use object_store::{
    ObjectStore, ObjectStoreExt, PutMode, PutPayload, local::LocalFileSystem, path::Path as Location,
};
use proto::{CheckpointRecord, check_pieces, manifest_object};
use tokio::sync::Mutex;
use url::Url;

use crate::plain_http::PlainHttp;
use crate::{CheckpointError, Result, object_fail_point::object_fail_point};

/// The bytes of one write to a file: some parts are in memory for each shard that is written.
const FILE_PART_BYTES: usize = 1024 * 1024;

/// The bytes of one part of an upload: above the 5 MiB that S3 requires.
const BUCKET_PART_BYTES: usize = 8 * 1024 * 1024;

/// Plain bytes sealed together: they are converted, sealed and hashed while they are in cache.
const SEGMENT_BYTES: u32 = 256 * 1024;

/// A folder or bucket with the states of shards. Clones share one store.
#[derive(Clone)]
pub struct CheckpointStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The folder, where the store is one.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) part_bytes: usize,
    pub(crate) segment_bytes: u32,
    /// Held by a call for an anchor in a folder, which may hang.
    pub(crate) anchor_turn: Arc<Mutex<()>>,
}

impl CheckpointStore {
    /// Opens `file:///folder`, or `s3://bucket/prefix` where the feature `s3` is built in. A missing folder is
    /// created with mode 0700. Blocking.
    pub fn open(url: &str) -> Result<Self> {
        Self::open_over(url, PlainHttp::Refused)
    }

    /// Opens a store, with a choice about plain HTTP.
    pub fn open_over(url: &str, plain_http: PlainHttp) -> Result<Self> {
        let parsed = Url::parse(url).map_err(|_| refused_url(url))?;
        match parsed.scheme() {
            "file" => Self::open_folder(url, &parsed),
            "s3" => open_bucket(url, plain_http),
            _ => Err(refused_url(url)),
        }
    }

    fn open_folder(url: &str, parsed: &Url) -> Result<Self> {
        let root = url_folder(parsed).ok_or_else(|| refused_url(url))?;
        let failed = |reason: String| CheckpointError::Store { object: url.to_owned(), reason };
        create_private_folder(&root).map_err(|error| failed(error.to_string()))?;
        // Without fsync a manifest could outlive the pieces it names when the power fails.
        let store = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(error.to_string()))?;
        let store = store.with_fsync(true).with_automatic_cleanup(true);
        Ok(Self::new(Arc::new(store), Some(root)))
    }

    /// Returns a store in any object store, such as a simulated one.
    pub fn over(store: Arc<dyn ObjectStore>) -> Self {
        Self::new(store, None)
    }

    pub(crate) fn new(store: Arc<dyn ObjectStore>, folder: Option<PathBuf>) -> Self {
        let part_bytes = if folder.is_some() { FILE_PART_BYTES } else { BUCKET_PART_BYTES };
        Self { store, folder, part_bytes, segment_bytes: SEGMENT_BYTES, anchor_turn: Arc::default() }
    }

    /// Returns the same store with parts and segments of other sizes, as tests of small objects need. `segment_bytes`:
    /// 64 to 2²⁴, a multiple of 4.
    pub fn with_sizes(self, part_bytes: usize, segment_bytes: u32) -> Self {
        Self { part_bytes, segment_bytes, ..self }
    }

    /// Writes the manifest, which states that all pieces are there: to be called last. Refused where a piece is
    /// missing, or where the checkpoint has another manifest already.
    pub async fn write_manifest(&self, record: &CheckpointRecord) -> Result<()> {
        check_pieces(record)?;
        for piece in &record.pieces {
            let found = self.store.head(&location(&piece.object)?).await;
            found.map_err(|error| object_error(&piece.object, error))?;
        }
        let name = manifest_object(&record.job, record.id);
        let json = serde_json::to_vec_pretty(record)
            .map_err(|error| CheckpointError::Unusable { object: name.clone(), reason: error.to_string() })?;
        let json = Bytes::from(json);
        self.make_folder(&name).await?;
        object_fail_point!("checkpoint::manifest::begin", name);
        let location = location(&name)?;
        let put =
            self.store.put_opts(&location, PutPayload::from(json.clone()), PutMode::Create.into()).await;
        object_fail_point!("checkpoint::manifest::end", name);
        match put {
            Ok(_) => self.make_private(&name).await,
            // A put whose answer was lost, sent again. Compared by bytes: a damaged one may still read as the same
            // record.
            Err(object_store::Error::AlreadyExists { .. }) if self.read_manifest(&name).await? == json => {
                Ok(())
            }
            Err(error) => Err(object_error(&name, error)),
        }
    }

    async fn read_manifest(&self, name: &str) -> Result<Bytes> {
        let got = self.store.get(&location(name)?).await.map_err(|error| object_error(name, error))?;
        got.bytes().await.map_err(|error| object_error(name, error))
    }

    /// Deletes the manifest, then the pieces. An object that is gone already is no error.
    pub async fn delete_checkpoint(&self, record: &CheckpointRecord) -> Result<()> {
        check_pieces(record)?;
        let pieces = record.pieces.iter().map(|piece| piece.object.as_str());
        self.delete_objects(&manifest_object(&record.job, record.id), pieces).await
    }

    pub(crate) async fn delete_objects(
        &self,
        manifest: &str,
        pieces: impl Iterator<Item = &str> + Send,
    ) -> Result<()> {
        object_fail_point!("checkpoint::delete::begin", manifest);
        self.delete(manifest).await?;
        // The manifest's deletion must be durable before a piece's.
        self.on_file(manifest, |file| match sync_folder(folder_of(file)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        })
        .await?;
        for piece in pieces {
            object_fail_point!("checkpoint::delete::piece", piece);
            self.delete(piece).await?;
        }
        Ok(())
    }

    async fn delete(&self, object: &str) -> Result<()> {
        match self.store.delete(&location(object)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(object_error(object, error)),
        }
    }

    /// Creates the object's folder before the store does, so that no other user can enter it.
    pub(crate) async fn make_folder(&self, object: &str) -> Result<()> {
        self.on_file(object, |file| create_private_folder(folder_of(file))).await
    }

    pub(crate) async fn make_private(&self, object: &str) -> Result<()> {
        self.on_file(object, make_private).await
    }

    /// Works on the object's file outside of the asynchronous threads. Does nothing where objects are not files.
    pub(crate) async fn on_file(
        &self,
        object: &str,
        work: impl FnOnce(&Path) -> std::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let file = folder.join(object);
        let failed = |reason: String| CheckpointError::Store { object: object.to_owned(), reason };
        let done = tokio::task::spawn_blocking(move || work(&file)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

#[cfg(feature = "s3")]
fn open_bucket(url: &str, plain_http: PlainHttp) -> Result<CheckpointStore> {
    Ok(CheckpointStore::new(crate::s3::open(url, plain_http)?, None))
}

#[cfg(not(feature = "s3"))]
fn open_bucket(url: &str, _: PlainHttp) -> Result<CheckpointStore> {
    let allowed = "file:///absolute/folder; s3:// needs a build with the feature `s3`";
    Err(CheckpointError::invalid("store URL", format!("{url:?}"), allowed))
}

fn refused_url(url: &str) -> CheckpointError {
    let allowed = "file:///absolute/folder, or s3://bucket/prefix where the feature `s3` is built in";
    CheckpointError::invalid("store URL", format!("{url:?}"), allowed)
}

fn url_folder(url: &Url) -> Option<PathBuf> {
    let is_plain = url.query().is_none() && url.fragment().is_none();
    is_plain.then(|| url.to_file_path().ok()).flatten()
}

/// Returns the object's place in the store. Its name was checked against the one form that names have.
pub fn location(object: &str) -> Result<Location> {
    Location::parse(object)
        .map_err(|error| CheckpointError::invalid("object", format!("{object:?}"), error.to_string()))
}

pub fn object_error(object: &str, error: object_store::Error) -> CheckpointError {
    let object = object.to_owned();
    match error {
        object_store::Error::NotFound { .. } => {
            CheckpointError::Unusable { object, reason: "it does not exist".to_owned() }
        }
        error => CheckpointError::Store { object, reason: error.to_string() },
    }
}
