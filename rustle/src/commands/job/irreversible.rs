//! Commands that can't be undone: `job finish`, `job destroy` and `job rewind`. Each says what it costs first.

use accounting::rewind::ReleasedRows;
use clap::Args;
use client::Jobs;
use plan::Plan;
use proto::{JobId, pb};
use report::Job;

use super::{rewind_budget, show};
use crate::access::CoordinatorArg;
use crate::commands::confirm::ConfirmArgs;
use crate::commands::whole_run::{check_delta, epsilon, left_at, shown};
use crate::output::{Answer, bad_use};
use crate::progress::Progress;

/// δ of a report of which no ε is read.
const DELTA: f64 = 1e-6;

/// The job, which has no default here: ending one takes its name.
#[derive(Args, Clone, Debug)]
pub struct EndArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the job
    #[arg(long)]
    job: JobId,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    rustle job rewind --job trial --to-row 500 --check\n  \
    rustle job rewind --job trial --to-row 500 --yes")]
pub struct RewindArgs {
    #[command(flatten)]
    end: EndArgs,
    /// First row with fresh noise
    #[arg(long, value_name = "T")]
    to_row: u64,
    /// Number of the job's current branch; another is refused [default: the branch whose cost was shown]
    #[arg(long, value_name = "B")]
    expected_branch: Option<u64>,
    /// δ at which ε is stated, strictly between 0 and 1
    #[arg(long, default_value_t = 1e-6, allow_negative_numbers = true)]
    delta: f64,
    /// Show what it would cost, and change nothing; exit status 1 where a budget is too small for the job alone
    #[arg(long)]
    check: bool,
}

impl EndArgs {
    pub fn coordinator(&self) -> &CoordinatorArg {
        &self.coordinator
    }

    async fn jobs(&self) -> anyhow::Result<Jobs> {
        Ok(self.coordinator.client().await?.jobs())
    }

    /// Returns how many rows are released on all branches, as text. A row that two branches bound counts twice: its noise is
    /// another one on each.
    async fn released(&self, jobs: &Jobs) -> anyhow::Result<String> {
        let (_, _, released) = Job::read(&jobs.report(&self.job, DELTA).await?)?;
        Ok(match (rows_of(&released), released.branches.len()) {
            (1, _) => "1 row is released".to_owned(),
            (rows, 0..=1) => format!("{rows} rows are released"),
            (rows, branches) => format!("{rows} rows are released on its {branches} branches"),
        })
    }

    /// Finishes the job.
    pub async fn finish(&self) -> anyhow::Result<Answer> {
        let jobs = self.jobs().await?;
        let job = jobs.get(&self.job).await?;
        let released = self.released(&jobs).await?;
        self.confirm.ask(&format!(
            "Finishing job {} is final: {released}, and it is at row {} of {} on its branch {}; no further row can be bound after \
             this.",
            job.job, job.next_row, job.iterations, job.branch
        ))?;
        Ok(show(&jobs.finish(&self.job).await?))
    }

    /// Destroys the job.
    pub async fn destroy(&self) -> anyhow::Result<Answer> {
        let jobs = self.jobs().await?;
        let job = jobs.get(&self.job).await?;
        let released = self.released(&jobs).await?;
        self.confirm.ask(&format!(
            "Destroying job {} is final: its checkpoints are deleted, and no row of it can be bound or fetched again. The \
             rows that it released stay released: {released}, and it is at row {} of {} on its branch {}.",
            job.job, job.next_row, job.iterations, job.branch
        ))?;
        let progress = Progress::spinner("deleting checkpoints");
        let answer = jobs.destroy(&self.job).await?;
        drop(progress);
        Ok(Answer::new()
            .with("rows_released", answer.rows_released)
            .with("checkpoints_deleted", answer.checkpoints_deleted)
            .with("message", answer.message))
    }
}

impl RewindArgs {
    pub fn coordinator(&self) -> &CoordinatorArg {
        &self.end.coordinator
    }

    /// Rewinds the job, or shows what that would cost.
    pub async fn rewind(&self) -> anyhow::Result<Answer> {
        let name = &self.end.job;
        let jobs = self.end.jobs().await?;
        let job = jobs.get(name).await?;
        let is_current = self.expected_branch.is_none_or(|branch| branch == job.branch);
        if is_current && self.to_row > job.next_row {
            return Err(bad_use(format!(
                "--to-row is {}; allowed: 0 to {}, the next row of job {name}",
                self.to_row, job.next_row
            )));
        }
        let (cost, plan, after) = self.cost(&jobs, &job).await?;
        if self.check {
            let client = self.end.coordinator.client().await?;
            rewind_budget::check(&client, &job, &plan, &after).await?;
            return Ok(cost.answer(Answer::new().with("job", job.job).with("to_row", self.to_row)));
        }
        self.end.confirm.ask(&cost.text(&job, self.to_row))?;
        let expected = self.expected_branch.unwrap_or(job.branch);
        Ok(cost.answer(show(&jobs.rewind(name, self.to_row, expected).await?)))
    }

    /// Computes the cost from what the coordinator reports, by the account that `rustle report` uses. Returns the plan and what is
    /// released once rewound, too.
    async fn cost(&self, jobs: &Jobs, job: &pb::Job) -> anyhow::Result<(RewindCost, Plan, ReleasedRows)> {
        check_delta(self.delta)?;
        let progress = Progress::spinner("computing what the rewind costs");
        let (_, plan, released) = Job::read(&jobs.report(&self.end.job, self.delta).await?)?;
        let before = epsilon(&plan, &released, self.delta)?;
        let released = left_at(released, job.branch, self.to_row);
        let after = epsilon(&plan, &released, self.delta)?;
        drop(progress);
        Ok((RewindCost { delta: self.delta, before, after }, plan, released))
    }
}

fn rows_of(released: &ReleasedRows) -> u64 {
    let ranges = released.branches.iter().flat_map(|branch| &branch.released);
    ranges.map(|(start, end)| end - start).sum()
}

/// ε at δ of a job that runs to its end: as it is, and once rewound.
struct RewindCost {
    delta: f64,
    before: Option<f64>,
    after: Option<f64>,
}

impl RewindCost {
    fn text(&self, job: &pb::Job, to_row: u64) -> String {
        format!(
            "Rewinding job {} to row {to_row} can't be undone: rows from {to_row} on get fresh noise, and those released \
             before stay released. ε of the whole run at δ = {:e}, for batches in any order: {} before, {} after.",
            job.job,
            self.delta,
            shown(self.before),
            shown(self.after)
        )
    }

    fn answer(&self, answer: Answer) -> Answer {
        answer.with("delta", self.delta).with("epsilon_before", self.before).with("epsilon_after", self.after)
    }
}
