//! Garbage collection: objects of checkpoints that do not exist, because their writing or deletion was interrupted.

use std::{collections::BTreeMap, io, path::Path};

use futures::TryStreamExt;
use object_store::path::Path as Location;
use proto::{JobId, PieceName, manifest_object};

use crate::{
    CheckpointStore, Result,
    store::{location, object_error},
};

impl CheckpointStore {
    /// Deletes the objects of the job's checkpoints other than those that `is_kept` accepts by id, manifest first, and
    /// drafts that a killed process left in a folder. Returns the ids of deleted checkpoints. Call this while nothing
    /// of the job is written.
    ///
    /// Objects with names of another form are left alone. Parts of interrupted uploads to S3 can't be listed: a
    /// lifecycle rule of the bucket deletes them.
    pub async fn sweep(&self, job: &JobId, is_kept: impl Fn(u64) -> bool + Send) -> Result<Vec<u64>> {
        let mut stale: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut found = self.store.list(Some(&location(job.as_str())?));
        while let Some(object) = found.try_next().await.map_err(|error| object_error(job.as_str(), error))? {
            if let Some((id, name)) = checkpoint_of(job, &object.location)
                && !is_kept(id)
            {
                stale.entry(id).or_default().push(name);
            }
        }
        for (id, names) in &stale {
            let manifest = manifest_object(job, *id);
            let pieces = names.iter().filter(|name| **name != manifest).map(String::as_str);
            self.delete_objects(&manifest, pieces).await?;
        }
        self.on_file(job.as_str(), remove_drafts).await?;
        Ok(stale.into_keys().collect())
    }
}

/// Returns the checkpoint that an object belongs to, and the object's name; `None` where the name has another form.
fn checkpoint_of(job: &JobId, location: &Location) -> Option<(u64, String)> {
    let name = location.to_string();
    if let Ok(piece) = PieceName::parse(&name) {
        return (piece.job == *job).then_some((piece.id, name));
    }
    let id = name.split('/').nth(1)?.parse().ok()?;
    (name == manifest_object(job, id)).then_some((id, name))
}

/// Removes files `NAME#NUMBER`, as a folder's store calls a file until it is complete.
fn remove_drafts(job: &Path) -> io::Result<()> {
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = |folder: &Path| match std::fs::read_dir(folder) {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        read => read?.collect::<io::Result<Vec<_>>>(),
    };
    for checkpoint in entries(job)? {
        if !checkpoint.file_type()?.is_dir() {
            continue;
        }
        let mut files = entries(&checkpoint.path())?;
        for file in files.extract_if(.., |file| is_draft(&file.file_name().to_string_lossy())) {
            match std::fs::remove_file(file.path()) {
                Err(error) if !is_missing(&error) => return Err(error),
                _ => {}
            }
        }
        if files.is_empty() {
            // A folder that got a file meanwhile stays.
            let _ = std::fs::remove_dir(checkpoint.path());
        }
    }
    Ok(())
}

fn is_draft(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once('#').is_some_and(|(_, draft)| number(draft))
}
