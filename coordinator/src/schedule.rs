//! The task that writes checkpoints when they are due.

use std::{sync::Arc, time::Duration};

use ledger::JobState;
use proto::JobId;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::pace::{self, Schedule};

/// How often jobs are looked at, at least.
const LOOKING: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Runs until shutdown: one after another, each job that has bound rows since its last checkpoint.
    pub async fn keep_checkpointing(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = self.sweep_all() => {}
        }
        let schedule = self.settings.checkpoint_schedule;
        let every = match schedule {
            Schedule::Every(every) => LOOKING.min(every),
            _ => LOOKING,
        };
        if schedule == Schedule::Never || self.store.is_none() {
            return;
        }
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            for job in self.jobs_due(Instant::now()) {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    // The failure is logged and counted where it happens.
                    _logged = self.checkpoint(&job) => {}
                }
            }
        }
    }

    /// From one checkpoint of the job to the next; `None` for never. State that costs nothing to make again is
    /// written only where a fixed interval says so.
    pub fn checkpoint_interval(&self, view: &JobView) -> Option<Duration> {
        let schedule = self.settings.checkpoint_schedule;
        if schedule == Schedule::ByCost && view.is_stateless() {
            return None;
        }
        pace::interval(schedule, view.cost, self.settings.expectations)
    }

    fn jobs_due(&self, now: Instant) -> Vec<JobId> {
        let cluster = self.cluster();
        let is_due = |view: &&JobView| {
            let moved_on = view.written.is_none_or(|(_, next_row)| next_row != view.bound.next_row);
            let interval = self.checkpoint_interval(view);
            let is_time = interval.is_some_and(|interval| now.duration_since(view.attempted) >= interval);
            view.record.state == JobState::Running && view.bound.next_row > 0 && moved_on && is_time
        };
        cluster.jobs().filter(is_due).map(|view| view.record.job.clone()).collect()
    }
}
