//! Changes of the number of shards during a run: the new shards are prepared beside the old ones and replace them in
//! one step.

use std::time::Duration;

use ledger::JobState;
use node::auth::caller;
use proto::{CoordinateRange, JobId, Result, ServiceError, pb, tiling};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::cluster::{PendingLayout, PendingShard};
use crate::coordinator::Coordinator;

/// The time that the new shards may take to become ready: replaying a job's whole past may take long, and the old shards
/// serve meanwhile.
const RESHARD_TIMEOUT: Duration = Duration::from_secs(1800);

impl Coordinator {
    /// Changes the number of shards, and returns when the new shards serve. If no worker has room for one of them, or
    /// they take longer than half an hour, the old ones stay and this fails. A second request for the same number waits
    /// for the same shards.
    pub async fn reshard_job(&self, job: JobId, shards: u32) -> Result<pb::Job> {
        self.check_tenant(&job).await?;
        if self.has_layout(&job, shards)? {
            return self.job_message(&job);
        }
        let number = match self.pending_number(&job, shards)? {
            Some(number) => number,
            None => {
                // Without one the new shards are made from the key: slower, with the same bits.
                if let Err(error) = self.checkpoint(&job).await {
                    warn!(%job, %error, "resharding without a fresh checkpoint");
                }
                self.begin_reshard(&job, shards)?
            }
        };
        let began = Instant::now();
        while self.is_pending(&job, number)? {
            let is_hopeless = began.elapsed() > 2 * self.lease_ttl() && self.has_no_room(&job, number)?;
            if is_hopeless || began.elapsed() > RESHARD_TIMEOUT {
                return Err(self.abandon_reshard(&job, number, began.elapsed()));
            }
            sleep(self.settings().heartbeat / 4).await;
        }
        if self.has_layout(&job, shards)? {
            self.job_message(&job)
        } else {
            Err(ServiceError::Unavailable {
                what: format!("{shards} shards of job {job} (the change was abandoned)"),
            })
        }
    }

    /// Starts preparing a new layout and returns its number. Replaces a layout that was pending before.
    pub fn begin_reshard(&self, job: &JobId, shards: u32) -> Result<u64> {
        let mut cluster = self.cluster();
        let number = cluster.preparation_number();
        let view = cluster.job_mut(job)?;
        if view.record.state != JobState::Running {
            return Err(view.wrong_state("running, to be resharded"));
        }
        let ranges = tiling::split(view.record.dimension, shards.into(), tiling::MAX_SHARDS)?;
        view.shards.iter_mut().for_each(|shard| shard.standby = None);
        let pending = |(range, shard)| PendingShard { shard, range, standby: None, is_unschedulable: false };
        let shards_pending = ranges.into_iter().zip(0..).map(pending).collect();
        view.pending = Some(PendingLayout { number, requested_by: caller(), shards: shards_pending });
        drop(cluster);
        info!(%job, shards, "shards of a new layout are being prepared");
        self.trigger_reconcile();
        Ok(number)
    }

    /// Returns the number of the pending layout if it has this many shards.
    fn pending_number(&self, job: &JobId, shards: u32) -> Result<Option<u64>> {
        let cluster = self.cluster();
        let pending = cluster.job(job)?.pending.as_ref();
        Ok(pending.filter(|pending| pending.shards.len() == shards as usize).map(|pending| pending.number))
    }

    fn is_pending(&self, job: &JobId, number: u64) -> Result<bool> {
        Ok(self.cluster().job(job)?.pending.as_ref().is_some_and(|pending| pending.number == number))
    }

    /// Returns whether a shard of the pending layout finds no worker with room beside what the workers serve now.
    fn has_no_room(&self, job: &JobId, number: u64) -> Result<bool> {
        let cluster = self.cluster();
        let pending = cluster.job(job)?.pending.as_ref().filter(|pending| pending.number == number);
        Ok(pending.is_some_and(|pending| pending.shards.iter().any(|shard| shard.is_unschedulable)))
    }

    /// Returns whether the job has this number of shards already.
    fn has_layout(&self, job: &JobId, shards: u32) -> Result<bool> {
        let cluster = self.cluster();
        let view = cluster.job(job)?;
        let ranges = tiling::split(view.record.dimension, shards.into(), tiling::MAX_SHARDS)?;
        let is_running = view.record.state == JobState::Running;
        Ok(is_running && view.shards.iter().map(|shard| shard.record.range).eq(ranges))
    }

    fn abandon_reshard(&self, job: &JobId, number: u64, waited: Duration) -> ServiceError {
        let mut cluster = self.cluster();
        let pending =
            cluster.job_mut(job).ok().and_then(|view| view.pending.take_if(|it| it.number == number));
        let pending: Vec<PendingShard> = pending.into_iter().flat_map(|pending| pending.shards).collect();
        if let Some(unschedulable) = pending.iter().find(|shard| shard.is_unschedulable) {
            let needed = cluster.job(job).map_or(0, |view| view.shard_memory(unschedulable.range));
            let what = format!(
                "a worker for the new shard {} of job {job} (it needs {needed} bytes beside what is served meanwhile)",
                unschedulable.range
            );
            return ServiceError::Unavailable { what };
        }
        let is_late = |shard: &&PendingShard| shard.standby.as_ref().is_none_or(|standby| !standby.is_ready);
        let missing: Vec<CoordinateRange> = pending.iter().filter(is_late).map(|shard| shard.range).collect();
        warn!(%job, ?missing, "resharding was abandoned: these ranges were not ready in time");
        let waited_ms = waited.as_millis() as u64;
        ServiceError::range_unavailable(job, missing, waited_ms)
    }
}
