//! Commands that can't be undone: `job finish`, `job destroy` and `job rewind`. Each says what it costs first.

use accounting::rewind::{ReleasedBranch, ReleasedRows, charge_with};
use clap::Args;
use client::Jobs;
use plan::Plan;
use proto::{JobId, pb};
use report::Job;

use super::show;
use crate::access::CoordinatorArg;
use crate::commands::confirm::ConfirmArgs;
use crate::figures::rounded_up;
use crate::output::{Answer, bad_use};
use crate::progress::Progress;

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
    /// Show what it would cost, and change nothing
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

    /// Finishes the job.
    pub async fn finish(&self) -> anyhow::Result<Answer> {
        let jobs = self.jobs().await?;
        let job = jobs.get(&self.job).await?;
        self.confirm.ask(&format!(
            "Finishing job {} is final: {} of its {} rows are bound, and no further one can be bound after this.",
            job.job, job.rows_bound, job.iterations
        ))?;
        Ok(show(&jobs.finish(&self.job).await?))
    }

    /// Destroys the job.
    pub async fn destroy(&self) -> anyhow::Result<Answer> {
        let jobs = self.jobs().await?;
        let job = jobs.get(&self.job).await?;
        self.confirm.ask(&format!(
            "Destroying job {} is final: its checkpoints are deleted, and no row of it can be bound or fetched again. The \
             rows that it released stay released: {} of {} are bound on its branch {}.",
            job.job, job.rows_bound, job.iterations, job.branch
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
        let cost = self.cost(&jobs, &job).await?;
        if self.check {
            return Ok(cost.answer(Answer::new().with("job", job.job).with("to_row", self.to_row)));
        }
        self.end.confirm.ask(&cost.text(&job, self.to_row))?;
        let expected = self.expected_branch.unwrap_or(job.branch);
        Ok(cost.answer(show(&jobs.rewind(name, self.to_row, expected).await?)))
    }

    /// Computes the cost from what the coordinator reports, by the account that `rustle report` uses.
    async fn cost(&self, jobs: &Jobs, job: &pb::Job) -> anyhow::Result<RewindCost> {
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(bad_use(format!("--delta is {}; allowed: strictly between 0 and 1", self.delta)));
        }
        let progress = Progress::spinner("computing what the rewind costs");
        let (_, plan, released) = Job::read(&jobs.report(&self.end.job, self.delta).await?)?;
        let cost = RewindCost {
            delta: self.delta,
            before: epsilon(&plan, &released, self.delta)?,
            after: epsilon(&plan, &rewound(released, job.branch, self.to_row), self.delta)?,
        };
        drop(progress);
        Ok(cost)
    }
}

/// Returns what is released once the job has left its branch at `row`.
fn rewound(mut released: ReleasedRows, branch: u64, row: u64) -> ReleasedRows {
    released.branches.push(ReleasedBranch {
        branch: branch + 1,
        parent: Some(branch),
        from_row: row,
        released: Vec::new(),
    });
    released
}

/// Returns ε of a job that releases all rows of its last branch; `None` for a plan without noise.
fn epsilon(plan: &Plan, released: &ReleasedRows, delta: f64) -> anyhow::Result<Option<f64>> {
    let noise = plan.accounted_noise_multiplier();
    if noise <= 0.0 {
        return Ok(None);
    }
    let sensitivity_of = |rows| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
    let charge = charge_with(plan.iterations(), released, sensitivity_of)?;
    let failure = plan.failure_probability();
    Ok(Some(accounting::Report::of_run(charge.total(), noise, failure, delta)?.epsilon))
}

/// ε at δ of a job that runs to its end: as it is, and once rewound.
struct RewindCost {
    delta: f64,
    before: Option<f64>,
    after: Option<f64>,
}

impl RewindCost {
    fn text(&self, job: &pb::Job, to_row: u64) -> String {
        let of = |epsilon: Option<f64>| epsilon.map_or("none (the plan has no noise)".to_owned(), rounded_up);
        format!(
            "Rewinding job {} to row {to_row} can't be undone: rows from {to_row} on get fresh noise, and those released \
             before stay released. ε of the whole run at δ = {:e}, for batches in any order: {} before, {} after.",
            job.job,
            self.delta,
            of(self.before),
            of(self.after)
        )
    }

    fn answer(&self, answer: Answer) -> Answer {
        answer.with("delta", self.delta).with("epsilon_before", self.before).with("epsilon_after", self.after)
    }
}
