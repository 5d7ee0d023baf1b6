//! `rustle ledger`: the file that guards what is released.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use ledger::Ledger;

use crate::output::{Answer, Format};

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Begin a new ledger, once, before the first start of a coordinator or of an MPI launch
    ///
    /// No coordinator begins one by itself: where a ledger is lost, an empty one would know nothing of what was
    /// released. An existing ledger is never replaced.
    Init(InitArgs),
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
        let Self::Init(InitArgs { data_dir, file }) = self;
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
}
