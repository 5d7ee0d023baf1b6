//! What is remembered of jobs for the people who watch them: rows over time, and the privacy that they cost. It ends
//! with the process; the ledger is the truth.

mod cost;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use accounting::rewind::{Released, ReleasedBranch};
use ledger::{BranchReleases, JobState};
use metrics::gauge;
use proto::{JobId, Result};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::metric_definitions::JOBS_UNWATCHED;

pub use cost::{Cost, Meter};

/// Jobs watched, running ones first: bounds series, memory and the page.
pub const MOST_JOBS: usize = 100;
const PERIOD: Duration = Duration::from_secs(2);
/// Ten minutes.
const SAMPLES: usize = 300;

#[derive(Debug, Default)]
pub struct Watch {
    jobs: Mutex<BTreeMap<JobId, Watched>>,
}

/// One job as it was seen.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    pub rows_bound: u64,
    pub iterations: u64,
    next_row: u64,
    branch: u64,
    privacy: Privacy,
    /// Rows bound, oldest first.
    samples: VecDeque<(Instant, u64)>,
}

#[derive(Clone, Debug, Default)]
enum Privacy {
    /// Not worked out yet.
    #[default]
    Unknown,
    /// There is nothing to state: no noise.
    Unstated(&'static str),
    Metered {
        meter: Arc<Meter>,
        /// After so many rows, rising.
        spent: Vec<(u64, Cost)>,
    },
}

impl Watched {
    /// What the rows that the last look saw cost at most, and all rows of the plan.
    pub fn spent_and_planned(&self) -> Option<(Cost, Cost)> {
        let (spent, planned) = self.costs()?;
        Some((spent.last()?.1, planned))
    }

    /// Cost after rows, where it was worked out, and that of the plan.
    pub fn costs(&self) -> Option<(&[(u64, Cost)], Cost)> {
        match &self.privacy {
            Privacy::Metered { meter, spent } => Some((spent, meter.planned)),
            _ => None,
        }
    }

    /// (seconds ago, rows bound), oldest first.
    pub fn history(&self, now: Instant) -> impl Iterator<Item = (f64, u64)> {
        self.samples.iter().map(move |(when, rows)| (now.duration_since(*when).as_secs_f64(), *rows))
    }

    /// Over the last half minute that was seen.
    pub fn rows_per_second(&self) -> Option<f64> {
        let (newest, rows) = *self.samples.back()?;
        let recent = |(when, _): &&(Instant, u64)| newest.duration_since(*when) <= Duration::from_secs(30);
        let (oldest, before) = *self.samples.iter().find(recent)?;
        let seconds = newest.duration_since(oldest).as_secs_f64();
        (seconds > 0.0).then(|| rows.saturating_sub(before) as f64 / seconds)
    }

    fn sample(&mut self, now: Instant, seen: &Seen) {
        let Seen { rows_bound, next_row, iterations, branch, .. } = *seen;
        (self.rows_bound, self.next_row, self.iterations) = (rows_bound, next_row, iterations);
        if branch != self.branch {
            self.branch = branch;
            // What was released before is charged for besides; of a plan without noise there is still nothing to say.
            if let Privacy::Metered { .. } = self.privacy {
                self.privacy = Privacy::Unknown;
            }
        }
        self.samples.push_back((now, rows_bound));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Whether the privacy spent is not known for where the job stands.
    fn is_due(&self) -> bool {
        match &self.privacy {
            Privacy::Unknown => true,
            Privacy::Unstated(_) => false,
            Privacy::Metered { spent, .. } => spent.last().is_none_or(|(rows, _)| *rows < self.next_row),
        }
    }
}

/// What the cluster says of a job now.
struct Seen {
    job: JobId,
    rows_bound: u64,
    next_row: u64,
    iterations: u64,
    branch: u64,
}

impl Watch {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, Watched>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn snapshot(&self) -> BTreeMap<JobId, Watched> {
        self.jobs().clone()
    }

    /// For the status: null until it is worked out.
    pub fn privacy(&self, job: &JobId, delta: f64) -> Value {
        let jobs = self.jobs();
        let Some(watched) = jobs.get(job) else { return Value::Null };
        match (&watched.privacy, watched.spent_and_planned()) {
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

    /// Takes in what the cluster says, forgets the jobs that it no longer names, and says whose privacy is due.
    fn take(&self, now: Instant, seen: Vec<Seen>) -> Vec<JobId> {
        let mut jobs = self.jobs();
        let mut before = std::mem::take(&mut *jobs);
        let mut due = Vec::new();
        for seen in seen {
            let mut watched = before.remove(&seen.job).unwrap_or_default();
            watched.sample(now, &seen);
            if watched.is_due() {
                due.push(seen.job.clone());
            }
            jobs.insert(seen.job, watched);
        }
        due
    }

    fn meter(&self, job: &JobId) -> Option<(Option<Arc<Meter>>, u64)> {
        let jobs = self.jobs();
        let watched = jobs.get(job)?;
        let meter = match &watched.privacy {
            Privacy::Metered { meter, .. } => Some(meter.clone()),
            _ => None,
        };
        Some((meter, watched.next_row))
    }

    fn record(&self, job: &JobId, metered: Option<(Arc<Meter>, u64, Cost)>) {
        let mut jobs = self.jobs();
        let Some(watched) = jobs.get_mut(job) else { return };
        match (metered, &mut watched.privacy) {
            // A branch was opened meanwhile: the next look works it out anew.
            (Some((meter, ..)), _) if meter.branch != watched.branch => {}
            (Some((_, rows, cost)), Privacy::Metered { spent, .. }) => spent.push((rows, cost)),
            (Some((meter, rows, cost)), privacy @ Privacy::Unknown) => {
                *privacy = Privacy::Metered { meter, spent: vec![(rows, cost)] };
            }
            (None, privacy) => *privacy = Privacy::Unstated("the plan has no noise"),
            (Some(_), Privacy::Unstated(_)) => {}
        }
    }
}

impl Coordinator {
    /// Runs until shutdown.
    pub async fn keep_watching(self: Arc<Self>, shutdown: CancellationToken) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.look() => {}
            }
        }
    }

    /// One look at all jobs.
    pub async fn look(&self) {
        for job in self.watch.take(Instant::now(), self.seen()) {
            if let Err(error) = self.work_out(&job).await {
                warn!(%job, %error, "the privacy spent so far could not be worked out; trying again");
            }
        }
    }

    fn seen(&self) -> Vec<Seen> {
        let cluster = self.cluster();
        let in_state = |state| cluster.jobs().filter(move |view| view.record.state == state);
        let running_first: Vec<_> = in_state(JobState::Running).chain(in_state(JobState::Finished)).collect();
        gauge!(JOBS_UNWATCHED).set(running_first.len().saturating_sub(MOST_JOBS) as f64);
        let seen = running_first.into_iter().take(MOST_JOBS).map(|view| Seen {
            job: view.record.job.clone(),
            rows_bound: view.bound.rows_bound,
            next_row: view.bound.next_row,
            iterations: view.record.iterations,
            branch: view.record.branch,
        });
        seen.collect()
    }

    async fn work_out(&self, job: &JobId) -> Result<()> {
        let Some((meter, next_row)) = self.watch.meter(job) else { return Ok(()) };
        let plan_toml = self.plan_of(job)?.plan_toml;
        let delta = self.settings.report_delta;
        // Only a new meter asks: reading what was released goes through all rows.
        let released = match &meter {
            Some(_) => Released::straight(0),
            None => {
                let name = job.clone();
                released(self.with_ledger(move |ledger| ledger.released(&name)).await?)
            }
        };
        let metered =
            node::process::blocking::run(move || metered(meter, &plan_toml, delta, &released, next_row)).await;
        self.watch.record(job, metered.map_err(proto::ServiceError::internal)??);
        Ok(())
    }
}

fn released(branches: Vec<BranchReleases>) -> Released {
    let branch = |of: BranchReleases| ReleasedBranch {
        branch: of.branch,
        parent: of.parent,
        from_row: of.from_row,
        released: of.released.iter().map(|rows| (rows.start, rows.end)).collect(),
    };
    Released { branches: branches.into_iter().map(branch).collect() }
}

fn metered(
    meter: Option<Arc<Meter>>,
    plan_toml: &str,
    delta: f64,
    released: &Released,
    next_row: u64,
) -> Result<Option<(Arc<Meter>, u64, Cost)>> {
    let meter = match meter {
        Some(meter) => meter,
        None => match Meter::new(plan_toml, delta, released)? {
            Some(meter) => Arc::new(meter),
            None => return Ok(None),
        },
    };
    let rows = meter.point(next_row);
    let cost = meter.after(rows);
    Ok(Some((meter, rows, cost)))
}
