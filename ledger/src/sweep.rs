//! Clearing up: objects of checkpoints that do not exist, because their writing or their deletion was cut off.

use std::{collections::BTreeMap, io, path::Path};

use futures::TryStreamExt;
use object_store::path::Path as Location;
use proto::JobId;

use crate::{
    CheckpointStore, Result,
    checkpoint_store::{location, object_error},
    object::{Piece, manifest_object},
};

impl CheckpointStore {
    /// Deletes what is stored of the job's checkpoints other than those that `is_kept` by id, manifest first, and
    /// drafts that a killed process left in a folder. Call while nothing of the job is written. Gives the ids.
    ///
    /// Names of another form than ours are left alone. Parts of cut-off uploads to S3 are nobody's to list: a
    /// lifecycle rule of the bucket ends them.
    pub async fn sweep(&self, job: &JobId, is_kept: impl Fn(u64) -> bool + Send) -> Result<Vec<u64>> {
        let mut stale: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut found = self.store.list(Some(&location(job.as_str())?));
        while let Some(object) = found.try_next().await.map_err(|error| object_error(job.as_str(), error))? {
            if let Some((id, name)) = ours(job, &object.location)
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

fn ours(job: &JobId, location: &Location) -> Option<(u64, String)> {
    let name = location.to_string();
    if let Ok(piece) = Piece::parse(&name) {
        return (piece.job == *job).then_some((piece.id, name));
    }
    let id = name.split('/').nth(1)?.parse().ok()?;
    (name == manifest_object(job, id)).then_some((id, name))
}

/// `NAME#NUMBER` is what a folder's store calls a file until it is whole.
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
            // One that got a file meanwhile stays.
            let _ = std::fs::remove_dir(checkpoint.path());
        }
    }
    Ok(())
}

fn is_draft(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.rsplit_once('#').is_some_and(|(_, draft)| number(draft))
}
