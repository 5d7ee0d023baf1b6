//! Anchors: one small object for each ledger, beside its checkpoints. It is written over the version that was read and over no
//! other, so that of several writers one finds out that it is not alone.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use bytes::Bytes;
use durable_io::{create_private_file, folder_of, sync_folder};
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use proto::Nonce;

use crate::{
    CheckpointError, CheckpointStore, Result,
    store::{location, object_error},
};

/// An anchor as it was read.
#[derive(Clone, Debug)]
pub struct StoredAnchor {
    /// Its contents.
    pub bytes: Vec<u8>,
    /// What to write over.
    pub version: AnchorVersion,
}

/// A version of an anchor.
#[derive(Clone, Debug)]
pub struct AnchorVersion(Version);

#[derive(Clone, Debug)]
enum Version {
    /// The contents: a folder numbers no versions.
    Contents(Vec<u8>),
    Object(UpdateVersion),
}

impl CheckpointStore {
    /// Reads the anchor of a ledger; `None` where there is none.
    pub async fn read_anchor(&self, ledger: &Nonce) -> Result<Option<StoredAnchor>> {
        let name = anchor_object(ledger);
        if let Some(folder) = &self.folder {
            let path = folder.join(&name);
            let found = self.in_folder(&name, move || read(&path)).await?;
            let stored = |bytes: Vec<u8>| {
                let version = AnchorVersion(Version::Contents(bytes.clone()));
                StoredAnchor { bytes, version }
            };
            return Ok(found.map(stored));
        }
        let got = match self.store.get(&location(&name)?).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(object_error(&name, error)),
        };
        let object = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        let bytes = got.bytes().await.map_err(|error| object_error(&name, error))?.to_vec();
        Ok(Some(StoredAnchor { bytes, version: AnchorVersion(Version::Object(object)) }))
    }

    /// Writes the anchor of a ledger over the version `over`; where that is `None`, a first one. Returns the new version, or `None`
    /// where another one is there, which is left as it is. After an error it may have been written or not.
    ///
    /// A bucket must honour the conditions `If-Match` and `If-None-Match` on writes.
    pub async fn write_anchor(
        &self,
        ledger: &Nonce,
        bytes: Vec<u8>,
        over: Option<&AnchorVersion>,
    ) -> Result<Option<AnchorVersion>> {
        let name = anchor_object(ledger);
        if let Some(folder) = &self.folder {
            let path = folder.join(&name);
            let expected = match over {
                None => None,
                Some(AnchorVersion(Version::Contents(contents))) => Some(contents.clone()),
                Some(AnchorVersion(Version::Object(_))) => return Ok(None),
            };
            let replacing = move || {
                let is_replaced = replace(&path, expected.as_deref(), &bytes)?;
                Ok(is_replaced.then_some(AnchorVersion(Version::Contents(bytes))))
            };
            return self.in_folder(&name, replacing).await;
        }
        let mode = match over {
            None => PutMode::Create,
            Some(AnchorVersion(Version::Object(version))) => PutMode::Update(version.clone()),
            Some(AnchorVersion(Version::Contents(_))) => return Ok(None),
        };
        let put = PutOptions::from(mode);
        match self.store.put_opts(&location(&name)?, PutPayload::from(Bytes::from(bytes)), put).await {
            Ok(put) => Ok(Some(AnchorVersion(Version::Object(put.into())))),
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {
                Ok(None)
            }
            // S3's answer where the object that was to be replaced is gone. A first one finds its bucket missing by it.
            Err(object_store::Error::NotFound { .. }) if over.is_some() => Ok(None),
            Err(error) => Err(object_error(&name, error)),
        }
    }

    /// Runs one call for an anchor in a folder. It fails while an earlier one hangs, as on a file system that is gone: each would
    /// keep a thread.
    async fn in_folder<T: Send + 'static>(
        &self,
        name: &str,
        call: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let failed = |reason: String| CheckpointError::Store { object: name.to_owned(), reason };
        let turn = self.anchor_turn.clone().try_lock_owned();
        let turn =
            turn.map_err(|_| failed("an earlier call of the folder has not returned yet".to_owned()))?;
        let called = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            call()
        });
        let called = called.await.map_err(|error| failed(error.to_string()))?;
        called.map_err(|error| failed(error.to_string()))
    }
}

/// Returns the anchor's name: with more characters than a job's folder may have.
fn anchor_object(ledger: &Nonce) -> String {
    format!("ledger-{ledger}.anchor")
}

/// Reads the file; `None` where there is none.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file's contents where they are `expected`, under a lock that processes of other hosts respect where the file
/// system shares locks. Returns whether they were. Fails while another one writes.
fn replace(path: &Path, expected: Option<&[u8]>, bytes: &[u8]) -> io::Result<bool> {
    let lock = locked(&path.with_extension("lock"))?;
    if read(path)?.as_deref() != expected {
        return Ok(false);
    }
    let draft = path.with_extension("new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_private_file(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    sync_folder(folder_of(path))?;
    drop(lock);
    Ok(true)
}

fn locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    const LEDGER: Nonce = Nonce::from_bytes([7; 32]);

    /// A folder, and what answers conditional writes as a bucket does.
    fn stores(folder: &Path) -> [CheckpointStore; 2] {
        let url = format!("file://{}", folder.display());
        [CheckpointStore::open(&url).unwrap(), CheckpointStore::new(Arc::new(InMemory::new()), None)]
    }

    #[tokio::test]
    async fn an_anchor_is_written_over_the_version_that_was_read_alone() {
        let folder = tempfile::tempdir().unwrap();
        for store in stores(folder.path()) {
            assert!(store.read_anchor(&LEDGER).await.unwrap().is_none());
            let write = |text: &str, over: Option<AnchorVersion>| {
                let store = store.clone();
                let bytes = text.as_bytes().to_vec();
                async move { store.write_anchor(&LEDGER, bytes, over.as_ref()).await.unwrap() }
            };
            let first = write("first", None).await.unwrap();
            assert!(write("another", None).await.is_none(), "created twice");
            let second = write("second", Some(first.clone())).await.unwrap();
            assert!(write("third", Some(first)).await.is_none(), "over a version that is gone");
            let read = store.read_anchor(&LEDGER).await.unwrap().unwrap();
            assert_eq!(read.bytes, b"second");
            write("third", Some(read.version)).await.unwrap();
            assert!(write("fourth", Some(second)).await.is_none());
            let other = Nonce::from_bytes([8; 32]);
            assert!(store.read_anchor(&other).await.unwrap().is_none(), "ledgers have one each");
        }
    }

    #[tokio::test]
    async fn of_many_writers_at_once_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        for store in stores(folder.path()) {
            let mut over = None;
            for round in 0..8 {
                let writing = (0..8).map(|writer| {
                    // As of another process: those that find the folder locked fail.
                    let store = CheckpointStore { anchor_turn: Arc::default(), ..store.clone() };
                    let over: Option<AnchorVersion> = over.clone();
                    let bytes = format!("{round}-{writer}").into_bytes();
                    tokio::spawn(async move { store.write_anchor(&LEDGER, bytes, over.as_ref()).await })
                });
                let done = futures::future::join_all(writing).await;
                let mut won = done.into_iter().filter_map(|written| written.unwrap().ok().flatten());
                over = Some(won.next().expect("one succeeds"));
                assert!(won.next().is_none(), "round {round}: two writers succeeded");
            }
        }
    }

    #[tokio::test]
    async fn a_folder_that_hangs_keeps_one_call_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let [store, _] = stores(folder.path());
        let turn = store.anchor_turn.clone().lock_owned().await;
        let read = store.read_anchor(&LEDGER).await.map(drop);
        let written = store.write_anchor(&LEDGER, vec![1], None).await.map(drop);
        for refused in [read, written] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("an earlier call of the folder has not returned yet"), "{refused}");
        }
        drop(turn);
        // Another process hangs while it has the lock.
        let lock = locked(&folder.path().join(anchor_object(&LEDGER)).with_extension("lock")).unwrap();
        store.write_anchor(&LEDGER, vec![1], None).await.unwrap_err();
        drop(lock);
        store.write_anchor(&LEDGER, vec![1], None).await.unwrap().unwrap();
    }
}
