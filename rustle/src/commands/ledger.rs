//! `rustle ledger`: the file that guards what is released.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use ledger::{AnchorPlace, Ledger};
use node::process::rng;
use release::adoption::{AdoptedJob, adopt};

use crate::key_file;
use crate::output::{Answer, Format};

#[derive(Clone, Debug, Subcommand)]
pub enum LedgerCommand {
    /// Begin a new ledger, once, before the first start of a coordinator or of an MPI launch
    ///
    /// No coordinator begins one by itself: where a ledger is lost, an empty one would know nothing of what was
    /// released. An existing ledger is never replaced.
    Init(LedgerPlace),
    /// Let a copy of a ledger, or an older copy in its place, go on as a ledger of its own
    ///
    /// Opens a branch with fresh noise in every running job, at its first unbound row, and gives the ledger a new id: what
    /// workers know of the other one says nothing about it. Data sets are charged for that as for a rewind. What the
    /// other one released since the copy is in no account of this one. While nothing has the ledger open.
    Adopt(AdoptArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub struct AdoptArgs {
    #[command(flatten)]
    place: LedgerPlace,
    /// Key that the ledger's anchor is beside, where a session in Python has the ledger; job.key beside the ledger's file,
    /// if there is one
    #[arg(long, value_name = "FILE", requires = "file")]
    key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct LedgerPlace {
    /// Data folder of the coordinator; it is created, and the ledger is ledger.redb in it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// File of the ledger, as `noise-worker mpi --ledger` names it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl LedgerCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let answer = match self {
            Self::Init(place) => init(&place)?,
            Self::Adopt(args) => adopted(&args)?,
        };
        answer.print(format)?;
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

fn adopted(args: &AdoptArgs) -> anyhow::Result<Answer> {
    let path = args.place.path();
    let place = anchor_place(args, &path)?;
    let ledger = Ledger::open(&path)?;
    let (ledger, jobs) = adopt(&ledger, &place, || Ok::<_, anyhow::Error>(rng::nonce()?))?;
    let job = |AdoptedJob { job, branch, from_row }: &AdoptedJob| {
        format!("{job}: branch {branch} from row {from_row}")
    };
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    Ok(Answer::new()
        .with("ledger", path.display().to_string())
        .with("ledger_id", ledger.id()?.to_string())
        .with("adopted", jobs.join(", ")))
}

/// Returns where the process that has the ledger open keeps the anchor: a session in Python beside the key, others beside the
/// ledger.
fn anchor_place(args: &AdoptArgs, ledger: &Path) -> anyhow::Result<AnchorPlace> {
    let beside = ledger.with_file_name("job.key");
    let has_own = args.place.file.is_some() && beside.exists();
    Ok(match args.key_file.as_deref().or(has_own.then_some(&*beside)) {
        Some(key) => AnchorPlace::of_key(key, &key_file::read(key)?.commitment()),
        None => AnchorPlace::of_ledger(ledger),
    })
}
