//! `rustle ledger compact`: destroyed jobs archived, and the file's free room given back.

use std::fs;
use std::path::Path;

use anyhow::Context;
use ledger::{ArchivedJob, Archives, Ledger, MAX_ARCHIVE_BYTES, TooLargeArchive};

use super::LedgerPlace;
use crate::output::Answer;
use crate::progress::Progress;

pub fn run(place: &LedgerPlace) -> anyhow::Result<Answer> {
    let path = place.path();
    let progress = Progress::spinner("checking and compacting the ledger");
    // Of a file that is missing, the ledger says what to do.
    let before = length(&path).unwrap_or(0);
    let Archives { archived, too_large } = Ledger::compact(&path)?;
    drop(progress);
    let after = length(&path).with_context(|| format!("the length of {}", path.display()))?;
    let name = |archived: &ArchivedJob| archived.job.to_string();
    let left = |TooLargeArchive { job, bytes }: &TooLargeArchive| {
        format!("{job}, whose archive would have {bytes} bytes; allowed: at most {MAX_ARCHIVE_BYTES}")
    };
    Ok(Answer::new()
        .with("ledger", path.display().to_string())
        .with("archived", archived.iter().map(name).collect::<Vec<_>>())
        .with("left_as_they_are", too_large.iter().map(left).collect::<Vec<_>>())
        .with("entries_removed", archived.iter().map(|job| job.entries).sum::<u64>())
        .with("bindings_removed", archived.iter().map(|job| job.rows).sum::<u64>())
        .with("bytes_before", before)
        .with("bytes_after", after))
}

fn length(path: &Path) -> std::io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.len())
}
