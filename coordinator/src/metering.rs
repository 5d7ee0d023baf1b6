//! The task that feeds the privacy meter.

use std::sync::Arc;
use std::time::Duration;

use accounting::rewind::ReleasedRows;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ledger::JobState;
use metrics::gauge;
use proto::{JobId, Result};
use release::budget::released_rows;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::metering_turns::MeteringTurns;
use crate::metric_definitions::JOBS_UNWATCHED;
use crate::privacy_meter::{JobSnapshot, MAX_WATCHED_JOBS, SAMPLE_INTERVAL, compute_cost};

/// The time that a status waits for its ε. Later it is stated once it is there.
const STATUS_WAIT: Duration = Duration::from_secs(2);

fn sample_ticks() -> Interval {
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Coordinator {
    /// Samples all jobs and computes their cost, and that of data sets, until shutdown.
    pub async fn keep_metering(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.keep_jobs_metered() => {}
            () = self.keep_budgets_metered() => {}
        }
    }

    /// Samples all jobs and computes their cost, in turns.
    async fn keep_jobs_metered(&self) {
        let mut ticks = sample_ticks();
        let mut turns = MeteringTurns::default();
        let mut metering = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some((job, took)) = metering.next() => turns.end(&job, took),
                _ = ticks.tick() => {
                    turns.set_due(self.privacy_meter().sample(Instant::now(), self.job_snapshots()));
                }
            }
            while let Some(job) = turns.begin() {
                metering.push(self.meter_in_turn(job));
            }
        }
    }

    async fn keep_budgets_metered(&self) {
        let mut ticks = sample_ticks();
        loop {
            ticks.tick().await;
            self.meter_budgets().await;
        }
    }

    async fn meter_in_turn(&self, job: JobId) -> (JobId, Duration) {
        let began = Instant::now();
        self.meter_or_warn(&job).await;
        (job, began.elapsed())
    }

    async fn meter_or_warn(&self, job: &JobId) {
        if let Err(error) = self.meter_job(job).await {
            warn!(%job, %error, "the privacy spent so far could not be computed; trying again");
        }
    }

    /// Samples all jobs once and computes the costs that are due.
    pub async fn meter_jobs(&self) {
        for job in self.privacy_meter().sample(Instant::now(), self.job_snapshots()) {
            self.meter_or_warn(&job).await;
        }
    }

    /// Brings every ε up to the rows that are bound now, unless that takes long or others compute accounts.
    pub async fn meter_now(&self) {
        let Ok(_turn) = self.answer_limits().accounts.try_acquire() else { return };
        let _late = timeout(STATUS_WAIT, self.meter_jobs()).await;
    }

    /// Returns snapshots of the jobs to meter, running ones first.
    fn job_snapshots(&self) -> Vec<JobSnapshot> {
        let cluster = self.cluster();
        let in_state = |state| cluster.jobs().filter(move |view| view.record.state == state);
        let running_first: Vec<_> = in_state(JobState::Running).chain(in_state(JobState::Finished)).collect();
        gauge!(JOBS_UNWATCHED).set(running_first.len().saturating_sub(MAX_WATCHED_JOBS) as f64);
        let snapshots = running_first.into_iter().take(MAX_WATCHED_JOBS).map(|view| JobSnapshot {
            job: view.record.job.clone(),
            rows_bound: view.bound.rows_bound,
            next_row: view.bound.next_row,
            iterations: view.record.iterations,
            branch: view.record.branch,
        });
        snapshots.collect()
    }

    async fn meter_job(&self, job: &JobId) -> Result<()> {
        let Some((meter, next_row)) = self.privacy_meter().meter(job) else { return Ok(()) };
        let plan_toml = self.plan_of(job)?.plan_toml;
        let delta = self.settings().report_delta;
        // Only a new meter needs what was released: reading that goes through all rows.
        let released = match &meter {
            Some(_) => ReleasedRows::straight(0),
            None => {
                let name = job.clone();
                released_rows(&self.with_ledger(move |ledger| ledger.charged(&name)).await?)
            }
        };
        let metered =
            node::process::blocking::run(move || compute_cost(meter, &plan_toml, delta, &released, next_row))
                .await;
        self.privacy_meter().record(job, metered.map_err(proto::ServiceError::internal)??);
        Ok(())
    }
}
