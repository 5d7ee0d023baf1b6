//! The privacy meter: for each job the rows bound over time and the privacy that they have cost, for the status page,
//! the status and the metrics.
//!
//! It takes [`JobSnapshot`]s and knows nothing of the cluster. It lives in memory only; the ledger is the truth.

mod cost;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounting::rewind::ReleasedRows;
use proto::{JobId, Result};
use serde_json::{Value, json};
use tokio::time::Instant;

pub use cost::{BranchMeter, PrivacyCost};

/// The jobs that are metered, running ones first: a bound on metrics, memory and the page.
pub const MAX_WATCHED_JOBS: usize = 100;
/// The time between two samples of a job.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Samples kept of each job: ten minutes.
const MAX_SAMPLES: usize = 300;
/// The time over which a job's rate is measured.
const RATE_WINDOW: Duration = Duration::from_secs(30);

/// The histories of all metered jobs.
#[derive(Debug, Default)]
pub struct PrivacyMeter {
    jobs: Mutex<BTreeMap<JobId, JobHistory>>,
}

/// The history of one job.
#[derive(Clone, Debug, Default)]
pub struct JobHistory {
    pub rows_bound: u64,
    pub iterations: u64,
    next_row: u64,
    branch: u64,
    privacy: Privacy,
    /// Rows bound at each sample, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

/// The privacy that a job has cost.
#[derive(Clone, Debug, Default)]
enum Privacy {
    /// Not computed yet.
    #[default]
    Pending,
    /// There is no guarantee to state, for this reason.
    Unstated(&'static str),
    Metered {
        meter: Arc<BranchMeter>,
        /// The cost after each number of rows, rising.
        spent: Vec<(u64, PrivacyCost)>,
    },
}

impl JobHistory {
    /// Returns upper bounds on the cost of the rows sampled last, and of all rows of the plan.
    pub fn spent_and_planned(&self) -> Option<(PrivacyCost, PrivacyCost)> {
        let (spent, planned) = self.costs()?;
        Some((spent.last()?.1, planned))
    }

    fn costs(&self) -> Option<(&[(u64, PrivacyCost)], PrivacyCost)> {
        match &self.privacy {
            Privacy::Metered { meter, spent } => Some((spent, meter.planned)),
            _ => None,
        }
    }

    /// Returns the rate at which rows were bound over the last half minute of samples.
    pub fn rows_per_second(&self) -> Option<f64> {
        let (newest, rows) = *self.samples.back()?;
        let recent = |(when, _): &&(Instant, u64)| newest.duration_since(*when) <= RATE_WINDOW;
        let (oldest, before) = *self.samples.iter().find(recent)?;
        let seconds = newest.duration_since(oldest).as_secs_f64();
        (seconds > 0.0).then(|| rows.saturating_sub(before) as f64 / seconds)
    }

    fn sample(&mut self, now: Instant, snapshot: &JobSnapshot) {
        let JobSnapshot { rows_bound, next_row, iterations, branch, .. } = *snapshot;
        self.rows_bound = rows_bound;
        self.next_row = next_row;
        self.iterations = iterations;
        if branch != self.branch {
            self.branch = branch;
            // Rows released on the branch before are charged too. A plan without noise still has nothing to state.
            if let Privacy::Metered { .. } = self.privacy {
                self.privacy = Privacy::Pending;
            }
        }
        self.samples.push_back((now, rows_bound));
        if self.samples.len() > MAX_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Returns whether the cost must be computed for the job's next row.
    fn is_due(&self) -> bool {
        match &self.privacy {
            Privacy::Pending => true,
            Privacy::Unstated(_) => false,
            Privacy::Metered { spent, .. } => spent.last().is_none_or(|(rows, _)| *rows < self.next_row),
        }
    }
}

/// A job at one moment: all that the meter needs to know of it.
#[derive(Clone, Debug)]
pub struct JobSnapshot {
    pub job: JobId,
    pub rows_bound: u64,
    pub next_row: u64,
    pub iterations: u64,
    pub branch: u64,
}

impl PrivacyMeter {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, JobHistory>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of all histories.
    pub fn histories(&self) -> BTreeMap<JobId, JobHistory> {
        self.jobs().clone()
    }

    /// Returns the privacy of a job as the status shows it: null until it is computed.
    pub fn privacy(&self, job: &JobId, delta: f64) -> Value {
        let jobs = self.jobs();
        let Some(history) = jobs.get(job) else { return Value::Null };
        match (&history.privacy, history.spent_and_planned()) {
            (Privacy::Unstated(reason), _) => json!({ "unstated": reason }),
            (_, Some((spent, planned))) => json!({
                "delta": delta,
                "epsilon_spent": spent.epsilon,
                "epsilon_planned": planned.epsilon,
                "rho_spent": spent.rho,
                "rho_planned": planned.rho,
                "exact": spent.exact,
            }),
            _ => Value::Null,
        }
    }

    /// Returns ε of what a job has spent and of its whole plan, as upper bounds. ε spent is `None` until it is computed for
    /// the job's present branch and next row, for an older one would be too small.
    pub fn epsilon(&self, job: &JobId, branch: u64, next_row: u64) -> (Option<f64>, Option<f64>) {
        let jobs = self.jobs();
        let Some((spent, planned)) =
            jobs.get(job).filter(|history| history.branch == branch).and_then(JobHistory::costs)
        else {
            return (None, None);
        };
        let newest = spent.last().filter(|(rows, _)| *rows >= next_row);
        (newest.map(|(_, cost)| cost.epsilon), Some(planned.epsilon))
    }

    /// Returns the rate at which the job's rows were bound lately.
    pub fn rows_per_second(&self, job: &JobId) -> Option<f64> {
        self.jobs().get(job)?.rows_per_second()
    }

    /// Samples these jobs and forgets all others. Returns those whose cost must be computed.
    pub fn sample(&self, now: Instant, snapshots: Vec<JobSnapshot>) -> Vec<JobId> {
        let mut jobs = self.jobs();
        let mut before = std::mem::take(&mut *jobs);
        let mut due = Vec::new();
        for snapshot in snapshots {
            let mut history = before.remove(&snapshot.job).unwrap_or_default();
            history.sample(now, &snapshot);
            if history.is_due() {
                due.push(snapshot.job.clone());
            }
            jobs.insert(snapshot.job, history);
        }
        due
    }

    /// Returns a job's branch meter, if it has one, and its next row. `None` if the job is not metered.
    pub fn meter(&self, job: &JobId) -> Option<(Option<Arc<BranchMeter>>, u64)> {
        let jobs = self.jobs();
        let history = jobs.get(job)?;
        let meter = match &history.privacy {
            Privacy::Metered { meter, .. } => Some(meter.clone()),
            _ => None,
        };
        Some((meter, history.next_row))
    }

    /// Records a cost that was computed.
    pub fn record(&self, job: &JobId, metered: Option<MeterReading>) {
        let mut jobs = self.jobs();
        let Some(history) = jobs.get_mut(job) else { return };
        match (metered, &mut history.privacy) {
            // A branch was opened meanwhile: the next sample computes the cost again.
            (Some((meter, ..)), _) if meter.branch != history.branch => {}
            (Some((_, rows, cost)), Privacy::Metered { spent, .. }) => spent.push((rows, cost)),
            (Some((meter, rows, cost)), privacy @ Privacy::Pending) => {
                *privacy = Privacy::Metered { meter, spent: vec![(rows, cost)] };
            }
            (None, privacy) => *privacy = Privacy::Unstated("the plan has no noise"),
            (Some(_), Privacy::Unstated(_)) => {}
        }
    }
}

/// A branch's meter, and the cost after a number of rows.
pub type MeterReading = (Arc<BranchMeter>, u64, PrivacyCost);

/// Computes the cost after `next_row`, with a new meter if there is none. Returns `None` if the plan has no noise. Long
/// plans take seconds.
pub fn compute_cost(
    meter: Option<Arc<BranchMeter>>,
    plan_toml: &str,
    delta: f64,
    released: &ReleasedRows,
    next_row: u64,
) -> Result<Option<MeterReading>> {
    let meter = match meter {
        Some(meter) => meter,
        None => match BranchMeter::new(plan_toml, delta, released)? {
            Some(meter) => Arc::new(meter),
            None => return Ok(None),
        },
    };
    let rows = meter.point(next_row);
    let cost = meter.after(rows);
    Ok(Some((meter, rows, cost)))
}
