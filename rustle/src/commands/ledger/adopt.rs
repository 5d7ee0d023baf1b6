//! `rustle ledger adopt`: a copy continues as a ledger of its own.

use std::path::{Path, PathBuf};

use ledger::{AnchorPlace, BranchReleases, JobRecord, JobState, Ledger, LedgerError};
use node::process::rng;
use plan::Plan;
use proto::RowRange;
use release::adoption::{AdoptedJob, adopt};
use release::budget::released_rows;
use serde_json::{Value, json};

use super::LedgerPlace;
use crate::commands::confirm::ConfirmArgs;
use crate::commands::whole_run::{check_delta, epsilon, left_at, shown};
use crate::key_file;
use crate::output::{Answer, bad_use};
use crate::progress::Progress;

/// Jobs whose cost the question states; the answer has all.
const STATED_JOBS: usize = 20;

#[derive(Clone, Debug, clap::Args)]
pub struct AdoptArgs {
    #[command(flatten)]
    place: LedgerPlace,
    /// Key that the ledger's anchor is beside, where a session in Python has the ledger; job.key beside the ledger's file,
    /// if there is one
    #[arg(long, value_name = "FILE", requires = "file")]
    key_file: Option<PathBuf>,
    /// δ at which ε is stated, strictly between 0 and 1
    #[arg(long, default_value_t = 1e-6, allow_negative_numbers = true)]
    delta: f64,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub fn run(args: &AdoptArgs) -> anyhow::Result<Answer> {
    check_delta(args.delta)?;
    let path = args.place.path();
    let place = anchor_place(args, &path)?;
    let ledger = Ledger::open(&path)?;
    ledger.take_up(&place, rng::nonce()?)?;
    let costs = costs(&ledger, args.delta)?;
    args.confirm(&ledger, &path, &costs)?;
    let (ledger, jobs) = adopt(&ledger, &place, || Ok::<_, anyhow::Error>(rng::nonce()?))?;
    let job = |AdoptedJob { job, branch, from_row }: &AdoptedJob| match branch {
        Some(branch) => format!("{job}: branch {branch} from row {from_row}"),
        None => format!("{job}: a run of a sweep, finished at row {from_row}"),
    };
    let jobs: Vec<_> = jobs.iter().map(job).collect();
    Ok(Answer::new()
        .with("ledger", path.display().to_string())
        .with("ledger_id", ledger.id()?.to_string())
        .with("adopted", jobs.join(", "))
        .with("delta", args.delta)
        .with("costs", costs.iter().map(JobCost::json).collect::<Vec<_>>()))
}

impl AdoptArgs {
    /// States the cost, and waits for a yes. Error: the ledger is not known to be a copy, and `--yes` is missing; another answer.
    fn confirm(&self, ledger: &Ledger, path: &Path, costs: &[JobCost]) -> anyhow::Result<()> {
        let path = path.display();
        let cost = stated(costs, self.delta);
        let asked = match ledger.copied() {
            // The error's own text ends with this command.
            Some(LedgerError::Copied { found, witness, .. }) => format!(
                "Ledger {path} may be a copy, or an older copy in its place: {found} (says {witness}).\nAdopting it can't be undone. {cost}"
            ),
            Some(proof) => format!("Adopting ledger {path} can't be undone: {proof}\n{cost}"),
            None => format!(
                "Nothing proves that ledger {path} is a copy or an old one, and one that is neither binds as it is, at no cost. \
                 Adopt it only where workers know of rows that it lacks, or where its anchor is beside a key in another folder, \
                 which --key-file names.\n{cost}"
            ),
        };
        if ledger.copied().is_none() && !self.confirm.is_given() {
            return Err(bad_use(format!(
                "{asked} Nothing was adopted: --yes is missing; add it to adopt the ledger all the same"
            )));
        }
        self.confirm.ask(&asked)
    }
}

/// What adopting costs a running job.
struct JobCost {
    job: String,
    from_row: u64,
    before: Option<f64>,
    after: Option<f64>,
}

impl JobCost {
    fn json(&self) -> Value {
        let Self { job, from_row, before, after } = self;
        json!({ "job": job, "from_row": from_row, "epsilon_before": before, "epsilon_after": after })
    }
}

/// Returns what adopting costs each running job with an unbound row: from there on its rows count as released by the other copy
/// too. A run of a sweep, which is finished instead, costs no more than its sweep.
fn costs(ledger: &Ledger, delta: f64) -> anyhow::Result<Vec<JobCost>> {
    let progress = Progress::spinner("computing what adopting costs");
    let mut costs = Vec::new();
    for record in ledger.jobs()?.into_iter().filter(|record| record.state == JobState::Running) {
        let from_row = first_unbound(&record, &ledger.released(&record.job)?);
        let is_of_sweep = ledger.charge(&record.job)?.is_some_and(|charge| charge.sweep.is_some());
        if from_row >= record.iterations || is_of_sweep {
            continue;
        }
        let plan = Plan::from_toml_str(&record.plan_toml)?;
        let before = released_rows(&ledger.charged(&record.job)?);
        let after = released_rows(&ledger.charged_once_adopted(&record, from_row)?);
        costs.push(JobCost {
            job: record.job.to_string(),
            from_row,
            before: epsilon(&plan, &before, delta)?,
            after: epsilon(&plan, &left_at(after, record.branch, from_row), delta)?,
        });
    }
    drop(progress);
    Ok(costs)
}

/// Returns the first row of the job that no branch of its lineage has bound.
fn first_unbound(record: &JobRecord, released: &[BranchReleases]) -> u64 {
    let mut row = 0;
    for (branch, rows) in record.lineage.cut(RowRange { start: 0, end: record.iterations }) {
        for range in released.iter().filter(|one| one.branch == branch).flat_map(|one| &one.released) {
            if range.start <= row {
                row = row.max(range.end.min(rows.end));
            }
        }
        if row < rows.end {
            return row;
        }
    }
    record.iterations
}

fn stated(costs: &[JobCost], delta: f64) -> String {
    if costs.is_empty() {
        return "No running job has an unbound row: adopting costs no ε.".to_owned();
    }
    let one = |cost: &JobCost| {
        let [before, after] = [cost.before, cost.after].map(shown);
        format!("{} from row {}: {before} before, {after} after", cost.job, cost.from_row)
    };
    let mut said: Vec<_> = costs.iter().take(STATED_JOBS).map(one).collect();
    if costs.len() > STATED_JOBS {
        said.push(format!("and {} jobs more", costs.len() - STATED_JOBS));
    }
    format!(
        "Each running job gets fresh noise from its first unbound row on, and what the other copy may release counts too. ε of the \
         whole run at δ = {delta:e}, for batches in any order:\n  {}.",
        said.join(";\n  ")
    )
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
