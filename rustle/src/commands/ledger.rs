//! `rustle ledger`: the file that guards what is released.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use ledger::Ledger;

use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Begin a new ledger, once, before the first start of a coordinator or of an MPI launch
    ///
    /// No coordinator begins one by itself: where a ledger is lost, an empty one would know nothing of what was
    /// released. An existing ledger is never replaced.
    Init(InitArgs),
    /// Copy a ledger's file, whole and checked, also while a coordinator runs on it
    ///
    /// A copy is older than everything bound after it. On a ledger that is older than what was released, rows can be bound
    /// again: restore one only where the original is lost for good, and see docs/operations.md, Disaster.
    #[command(after_help = "Example:\n  rustle ledger backup --data-dir rustle-data --out ledger-1.redb")]
    Backup(BackupArgs),
}

/// Where a ledger is.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct BackupSource {
    /// Data folder of the coordinator, in which the ledger is ledger.redb
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of the ledger
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    source: BackupSource,
    /// File to write the copy to, which its owner alone may read
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct InitArgs {
    /// Data folder of the coordinator; it is created, and the ledger is ledger.redb in it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of the ledger, as `noise-worker mpi --ledger` names it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl LedgerCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        match self {
            Self::Init(args) => init(args, format),
            Self::Backup(args) => backup(&args, format),
        }
    }
}

fn backup(args: &BackupArgs, format: Format) -> anyhow::Result<ExitCode> {
    let BackupSource { data_dir, file } = &args.source;
    let path = file
        .clone()
        .unwrap_or_else(|| coordinator::ledger_file(data_dir.as_deref().unwrap_or(Path::new(""))));
    if fs::canonicalize(&path).is_ok_and(|path| path == out_file::replaced(&args.out)) {
        return Err(bad_use(format!(
            "--out is {}, which is the ledger; allowed: another file",
            args.out.display()
        )));
    }
    let out = OutFile::open(&args.out, Access::Owner)?;
    let progress = Progress::spinner("reading and checking the ledger");
    let bytes = Ledger::backup(&path)?;
    drop(progress);
    out.write_and_finish(&bytes)?;
    if out_file::is_stdout(&args.out) {
        return Ok(ExitCode::SUCCESS);
    }
    Answer::new()
        .with("ledger", path.display().to_string())
        .with("out", args.out.display().to_string())
        .with("bytes", bytes.len())
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}

fn init(args: InitArgs, format: Format) -> anyhow::Result<ExitCode> {
    let InitArgs { data_dir, file } = args;
    let (path, id) = match (data_dir, file) {
        (_, Some(file)) => {
            let id = node::process::rng::nonce().context("draw the ledger's id")?;
            Ledger::init(&file, id)?;
            (file, id)
        }
        (folder, None) => {
            let folder = folder.unwrap_or_default();
            let id = coordinator::init_ledger(&folder)?;
            (coordinator::ledger_file(&folder), id)
        }
    };
    Answer::new()
        .with("ledger", path.display().to_string())
        .with("ledger_id", id.to_string())
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}
