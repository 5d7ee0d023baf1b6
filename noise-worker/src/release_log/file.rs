//! The file of the release log, in which every line is chained to those before.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use proto::{JobId, Nonce};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A line of the log.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// A coordinator of this epoch was seen.
    Epoch {
        /// The id of the coordinator's ledger.
        ledger: Nonce,
        /// The epoch.
        epoch: u64,
    },
    /// A job that the lines after this one call by a number.
    Job {
        /// The number of such lines before.
        number: u64,
        /// The id of the job's ledger.
        ledger: Nonce,
        /// The job's nonce.
        nonce: Nonce,
        /// The job's name.
        name: JobId,
    },
    /// The job was seen on this branch.
    Branch {
        /// The job's number.
        job: u64,
        /// The branch.
        branch: u64,
    },
    /// A row was released.
    Row {
        /// The job's number.
        job: u64,
        /// The branch whose noise the row has.
        branch: u64,
        /// The row, counted from 0.
        row: u64,
        /// The commitment as hex digits.
        commitment: String,
    },
}

/// A store of lines. Tests have stores that are slow or fail.
pub trait LineStore: Send {
    /// Appends lines. They are on disk when it returns; after an error, what is on disk is not known.
    fn append(&mut self, lines: &[Line]) -> io::Result<()>;
}

/// Stores no lines: the log lives as long as the process.
pub struct MemoryOnly;

impl LineStore for MemoryOnly {
    fn append(&mut self, _: &[Line]) -> io::Result<()> {
        Ok(())
    }
}

/// The maximum bytes of one append: 65,536 rows of at most 300 bytes each, with room to spare.
const MAX_APPEND_BYTES: usize = 64 << 20;

/// An open log file, which is locked as long as it is open.
pub struct LogFile {
    file: File,
    head: [u8; 32],
}

/// The format of the lines.
const FORMAT: &[u8] = b"rustle mark v2";
/// The format before: its lines name jobs without their ledger, and say of no ledger which epochs were seen.
const FORMER_FORMAT: &[u8] = b"rustle mark v1";

pub(super) fn chained(head: &[u8; 32], json: &[u8]) -> [u8; 32] {
    hash(FORMAT, head, json)
}

fn hash(format: &[u8], head: &[u8; 32], json: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(format).chain_update(head).chain_update(json).finalize().into()
}

/// Splits a line into its hash and its object.
fn parts(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (hash, json) = line.split_at_checked(64)?;
    Some((hash, json.strip_prefix(b" ")?))
}

/// Fails where the first line is of the format before.
fn check_format(bytes: &[u8]) -> anyhow::Result<()> {
    let first = bytes.split(|byte| *byte == b'\n').next().and_then(parts);
    let is_former = first
        .is_some_and(|(found, json)| found == hex::encode(hash(FORMER_FORMAT, &[0; 32], json)).as_bytes());
    ensure!(
        !is_former,
        "has format 1, whose lines do not say of which ledger they are; this build writes format 2. Finish its jobs with the \
         build that wrote it, or, once no ledger of that build is used any more, give this worker another folder"
    );
    Ok(())
}

impl LogFile {
    /// Reads the file line by line, or begins one in a folder of this worker's own. Drops an end that was cut short; fails on
    /// any other damage.
    pub fn open(
        folder: &Path,
        path: &Path,
        mut apply: impl FnMut(Line) -> Result<(), &'static str>,
    ) -> anyhow::Result<Self> {
        let mut log = Self { file: locked(folder, path)?, head: [0; 32] };
        let mut bytes = Vec::new();
        log.file.read_to_end(&mut bytes)?;
        check_format(&bytes)?;
        let mut whole = 0;
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let number = number + 1;
            let damaged = || {
                format!(
                    "is damaged in line {number}; restore it, or give this worker another folder once you know that the ledger is the newest"
                )
            };
            let Some(ended) = line.strip_suffix(b"\n") else {
                log.is_cut(line).with_context(damaged)?;
                break;
            };
            let json = log.read(ended).with_context(damaged)?;
            // The hash shows that the line is whole: what can't be read was written by a newer build.
            let entry = serde_json::from_slice(json).with_context(|| {
                format!("has in line {number} what a newer build wrote; run a build that is not older")
            })?;
            apply(entry).map_err(anyhow::Error::msg).with_context(damaged)?;
            whole += line.len() as u64;
        }
        // The cut line was never acted on: its row was to leave only once all of it was on disk.
        durable_io::crash_point("released::reopen::begin");
        log.file.set_len(whole)?;
        durable_io::crash_point("released::reopen::cut");
        make_durable(path, &bytes[..whole as usize])?;
        durable_io::crash_point("released::reopen::written");
        log.file.sync_all()?;
        durable_io::crash_point("released::reopen::end");
        Ok(log)
    }

    /// Fails where the end without a newline is a whole line whose newline became another byte.
    fn is_cut(&mut self, end: &[u8]) -> anyhow::Result<()> {
        match end.split_last() {
            // A disk may show a zero where it had not written yet.
            Some((byte, line)) if *byte != 0 && self.read(line).is_ok() => {
                bail!("it ends in byte {byte} instead of a newline")
            }
            _ => Ok(()),
        }
    }

    /// Returns the object of a line. Fails where its hash is not that of all lines so far.
    fn read<'a>(&mut self, line: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        let (hash, json) = parts(line).context("is no line of such a record")?;
        let head = chained(&self.head, json);
        ensure!(hash == hex::encode(head).as_bytes(), "its hash does not continue that of the lines before");
        self.head = head;
        Ok(json)
    }
}

impl LineStore for LogFile {
    /// Writes the lines in one piece and waits for the disk.
    fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = String::new();
        let mut head = self.head;
        for line in lines {
            let json = serde_json::to_string(line)?;
            head = chained(&head, json.as_bytes());
            text.push_str(&format!("{} {json}\n", hex::encode(head)));
        }
        if !text.is_empty() {
            durable_io::crash_point("released::append::begin");
            self.file.write_all(text.as_bytes())?;
            durable_io::crash_point("released::append::written");
            self.file.sync_data()?;
            durable_io::crash_point("released::append::end");
        }
        self.head = head;
        Ok(())
    }
}

/// Lines that an earlier process could not sync may be in memory alone, and count as clean: they are written again.
fn make_durable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let begin = bytes.len().saturating_sub(MAX_APPEND_BYTES);
    // Through another descriptor: the locked one always writes at the end.
    OpenOptions::new().write(true).open(path)?.write_all_at(&bytes[begin..], begin as u64)
}

fn locked(folder: &Path, path: &Path) -> anyhow::Result<File> {
    durable_io::create_private_folder(folder)?;
    let is_new = !path.try_exists()?;
    let log = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("is held by another worker; allowed: a folder of its own"),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if is_new {
        durable_io::crash_point("released::create::begin");
        log.sync_all()?;
    }
    // The process that created it may have ended before its name was durable.
    durable_io::sync_folder(folder)?;
    if is_new {
        durable_io::crash_point("released::create::end");
    }
    Ok(log)
}
