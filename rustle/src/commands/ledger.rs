//! `rustle ledger`: the file that guards what is released.

mod adopt;
mod backup;
mod compact;
mod diff;
mod log;
mod since;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use ledger::Ledger;
use node::process::rng;

use self::adopt::AdoptArgs;
use self::backup::BackupArgs;
use self::compact::CompactArgs;
use self::diff::DiffArgs;
use self::log::{ExportArgs, LogArgs};
use self::verify::VerifyArgs;
use crate::output::{Answer, Format};

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Begin a new ledger, once, before the first start of a coordinator or of an MPI launch
    ///
    /// No coordinator begins one by itself: where a ledger is lost, an empty one would know nothing of what was
    /// released. An existing ledger is never replaced, and none is begun beside an anchor or a checkpoint of an earlier one.
    Init(LedgerPlace),
    /// Let a copy of a ledger, or an older copy in its place, go on as a ledger of its own
    ///
    /// Opens a branch with fresh noise in every running job, at its first unbound row, and gives the ledger a new id: what
    /// workers know of the other one says nothing about it. The rows from there on are charged as if the other copy
    /// released them all, to data sets beyond their budgets too; runs of sweeps are finished. What else the other copy
    /// released since is in no account of this one, and every report says so. While nothing has the ledger open.
    Adopt(AdoptArgs),
    /// Copy a ledger's file, whole and checked, also while a coordinator runs on it
    ///
    /// A copy is older than everything bound after it, and binds nothing in another place until `rustle ledger adopt`.
    /// Restore one only where the original is lost for good: docs/operations.md, Disaster.
    #[command(after_help = "Example:\n  rustle ledger backup --data-dir rustle-data --out ledger-1.redb")]
    Backup(BackupArgs),
    /// Archive destroyed jobs, and give the room that is free in a ledger's file, or in its log in etcd, back, while nothing has it open
    ///
    /// The entries and bindings of a destroyed job are removed for good; one entry of its chain stands for them, with what
    /// its reports say, the hash of the last entry before, and a root of its bindings. The job stays destroyed, its name
    /// stays in use, and its report says the same. Take an export before, where single bindings are to be shown later.
    #[command(
        after_help = "Example:\n  rustle ledger export --data-dir rustle-data --out chains.jsonl\n  rustle ledger compact --data-dir rustle-data"
    )]
    Compact(CompactArgs),
    /// Print what a ledger's file has recorded, and who did it when; with --format json, one line for each entry
    ///
    /// Reads a ledger that nothing has open, or a copy, and writes nothing to it.
    #[command(after_help = "Example:\n  rustle ledger log --data-dir rustle-data --job trial --since 24h")]
    Log(LogArgs),
    /// Check every entry of a ledger's file, or of an export, and print the heads; exit status 1 names the first wrong entry
    ///
    /// Hashes every chain anew, replays it and compares it with every table, as opening the ledger does. An export has no
    /// tables. Of an archived job the archive is checked, and what came after it. Reads a ledger that nothing has open, or a
    /// copy, and writes nothing to it. Whether entries are missing at a chain's end shows by --head alone, with a head that was
    /// kept elsewhere.
    #[command(after_help = "Example:\n  rustle ledger verify --file ledger-1.redb")]
    Verify(VerifyArgs),
    /// Write the entries of a ledger's file as JSON lines, each with its event as the text that was hashed
    ///
    /// Reads a ledger that nothing has open, or a copy, and writes nothing to it.
    #[command(after_help = "Example:\n  rustle ledger export --data-dir rustle-data --out chains.jsonl")]
    Export(ExportArgs),
    /// Compare two ledgers' files, chain by chain; exit status 1 unless they are the same
    ///
    /// Says which is the beginning of which, or at which entry they part. Reads ledgers that nothing has open, or copies.
    Diff(DiffArgs),
}

/// Where a ledger is.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct LedgerPlace {
    /// Data folder of the coordinator, in which the ledger is ledger.redb; `init` creates it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of the ledger, as `noise-worker mpi --ledger` names it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl LedgerCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Log(args) => return log::log(&args, format),
            Self::Verify(args) => return verify::run(&args, format),
            Self::Export(args) => return log::export(&args, format),
            Self::Diff(args) => return diff::diff(&args, format),
            Self::Init(place) => init(&place)?.print(format)?,
            Self::Adopt(args) => adopt::run(&args)?.print(format)?,
            Self::Backup(args) => backup::run(&args, format)?,
            Self::Compact(args) => compact::run(args)?.print(format)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl LedgerPlace {
    fn path(&self) -> PathBuf {
        match (&self.data_dir, &self.file) {
            (_, Some(file)) => file.clone(),
            (folder, None) => coordinator::ledger_file(folder.as_deref().unwrap_or(Path::new(""))),
        }
    }
}

fn init(place: &LedgerPlace) -> anyhow::Result<Answer> {
    let id = match &place.data_dir {
        Some(folder) => coordinator::init_ledger(folder)?,
        None => {
            let id = rng::nonce().context("draw the ledger's id")?;
            Ledger::init(&place.path(), id)?;
            id
        }
    };
    let answer = Answer::new().with("ledger", place.path().display().to_string());
    Ok(answer.with("ledger_id", id.to_string()))
}
