//! `rustle ledger adopt`: a copy continues as a ledger of its own.

use std::path::{Path, PathBuf};

use ledger::{AnchorPlace, Ledger};
use node::process::rng;
use release::adoption::{AdoptedJob, adopt};

use super::LedgerPlace;
use crate::key_file;
use crate::output::Answer;

#[derive(Clone, Debug, clap::Args)]
pub struct AdoptArgs {
    #[command(flatten)]
    place: LedgerPlace,
    /// Key that the ledger's anchor is beside, where a session in Python has the ledger; job.key beside the ledger's file,
    /// if there is one
    #[arg(long, value_name = "FILE", requires = "file")]
    key_file: Option<PathBuf>,
}

pub fn run(args: &AdoptArgs) -> anyhow::Result<Answer> {
    let path = args.place.path();
    let place = anchor_place(args, &path)?;
    let ledger = Ledger::open(&path)?;
    let (ledger, jobs) = adopt(&ledger, &place, || Ok::<_, anyhow::Error>(rng::nonce()?))?;
    let job = |AdoptedJob { job, branch, from_row }: &AdoptedJob| match branch {
        Some(branch) => format!("{job}: branch {branch} from row {from_row}"),
        None => format!("{job}: a run of a sweep, finished at row {from_row}"),
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
