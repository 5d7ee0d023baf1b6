//! The task that writes checkpoints when they are due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use ledger::JobState;
use proto::JobId;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::checkpointing::interval::{self, Schedule};
use crate::cluster::JobView;
use crate::coordinator::Coordinator;

/// The longest time between two looks at which jobs are due.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Checkpoints written at once: a thousand jobs of one second each then take two minutes. A worker that gets several
/// writes one after another.
const JOBS_AT_ONCE: usize = 8;

impl Coordinator {
    /// Writes due checkpoints until shutdown. Several are written at once, so that a job whose worker or store hangs
    /// does not delay all others.
    pub async fn keep_checkpointing(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = self.begin_checkpointing() => {}
        }
        let schedule = self.settings().checkpoint_schedule;
        let every = match schedule {
            Schedule::Every(every) => POLL_INTERVAL.min(every),
            _ => POLL_INTERVAL,
        };
        if schedule == Schedule::Never || self.checkpoint_store().is_none() {
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

    /// Deletes what earlier coordinators left half-written, once no other one can hold the ledger.
    async fn begin_checkpointing(&self) {
        while self.awaits_anchor() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.delete_all_unlisted().await;
    }

    /// Writes one checkpoint. A failure is logged and counted where it happens.
    async fn checkpoint_due(&self, job: JobId) -> JobId {
        let _logged = self.checkpoint(&job).await;
        job
    }

    /// Returns the time from one checkpoint of the job to the next; `None` for never. A job without state is written
    /// only at a fixed interval.
    pub fn checkpoint_interval(&self, view: &JobView) -> Option<Duration> {
        let schedule = self.settings().checkpoint_schedule;
        if schedule == Schedule::Auto && view.is_stateless() {
            return None;
        }
        interval::interval(schedule, view.checkpoint_cost, self.settings().expectations)
    }

    /// Returns the jobs that have bound rows since their last checkpoint and are due, longest wait first.
    fn jobs_due(&self, now: Instant) -> Vec<JobId> {
        let cluster = self.cluster();
        let is_due = |view: &&JobView| {
            let moved_on = view.last_checkpoint.is_none_or(|last| last.next_row != view.bound.next_row);
            let interval = self.checkpoint_interval(view);
            let is_time = interval.is_some_and(|interval| now.duration_since(view.last_attempt) >= interval);
            view.record.state == JobState::Running && view.bound.next_row > 0 && moved_on && is_time
        };
        let mut due: Vec<_> = cluster.jobs().filter(is_due).collect();
        due.sort_by_key(|view| view.last_attempt);
        due.into_iter().map(|view| view.record.job.clone()).collect()
    }
}
