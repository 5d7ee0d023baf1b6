//! The task that writes checkpoints when they are due.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use ledger::JobState;
use proto::JobId;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::checkpointing::interval::{self, Schedule};

/// How often jobs are looked at, at least.
const LOOKING: Duration = Duration::from_secs(1);
/// A thousand jobs of a second each are written in two minutes; a worker that has many in hand writes them in turn.
const JOBS_AT_ONCE: usize = 8;

impl Coordinator {
    /// Runs until shutdown: each job that has bound rows since its last checkpoint, some at once, so that one whose worker
    /// or store hangs does not hold up all others.
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
        let mut writing = FuturesUnordered::new();
        let mut under_way = BTreeSet::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                Some(job) = writing.next() => drop(under_way.remove(&job)),
                _ = ticks.tick() => {}
            }
            for job in self.jobs_due(Instant::now()) {
                if under_way.len() < JOBS_AT_ONCE && under_way.insert(job.clone()) {
                    writing.push(self.checkpoint_due(job));
                }
            }
        }
    }

    /// The failure is logged and counted where it happens.
    async fn checkpoint_due(&self, job: JobId) -> JobId {
        let _logged = self.checkpoint(&job).await;
        job
    }

    /// From one checkpoint of the job to the next; `None` for never. State that costs nothing to make again is
    /// written only where a fixed interval says so.
    pub fn checkpoint_interval(&self, view: &JobView) -> Option<Duration> {
        let schedule = self.settings.checkpoint_schedule;
        if schedule == Schedule::Auto && view.is_stateless() {
            return None;
        }
        interval::interval(schedule, view.cost, self.settings.expectations)
    }

    /// Those that have waited longest come first.
    fn jobs_due(&self, now: Instant) -> Vec<JobId> {
        let cluster = self.cluster();
        let is_due = |view: &&JobView| {
            let moved_on = view.written.is_none_or(|(_, next_row)| next_row != view.bound.next_row);
            let interval = self.checkpoint_interval(view);
            let is_time = interval.is_some_and(|interval| now.duration_since(view.attempted) >= interval);
            view.record.state == JobState::Running && view.bound.next_row > 0 && moved_on && is_time
        };
        let mut due: Vec<_> = cluster.jobs().filter(is_due).collect();
        due.sort_by_key(|view| view.attempted);
        due.into_iter().map(|view| view.record.job.clone()).collect()
    }
}
