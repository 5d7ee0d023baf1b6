//! Another number of shards, in mid-run: the new ones are made ready beside the old, then take their place in one step.

use std::time::Duration;

use ledger::JobState;
use proto::{CoordinateRange, JobId, Result, ServiceError, pb, tiling};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::cluster::{Coming, ComingShard};
use crate::coordinator::Coordinator;

/// Replaying a job's whole past may take long; what is served meanwhile is not hurt by it.
const LONGEST: Duration = Duration::from_secs(1800);

impl Coordinator {
    /// Returns when the new shards have taken over. Where no worker has room for one of them, or they take longer than
    /// half an hour, the old ones stay. Asked again while they are made ready, it waits for the same ones.
    pub async fn reshard_job(&self, job: JobId, shards: u32) -> Result<pb::Job> {
        if self.is_cut_so(&job, shards)? {
            return self.job_message(&job);
        }
        let number = match self.number_of_coming(&job, shards)? {
            Some(number) => number,
            None => {
                // Without it the new shards are made again from the key: slower, and the same.
                if let Err(error) = self.checkpoint(&job).await {
                    warn!(%job, %error, "resharding without a fresh checkpoint");
                }
                self.begin_reshard(&job, shards)?
            }
        };
        let began = Instant::now();
        while self.is_coming(&job, number)? {
            let is_hopeless = began.elapsed() > 2 * self.lease_ttl() && self.has_no_room(&job, number)?;
            if is_hopeless || began.elapsed() > LONGEST {
                return Err(self.give_up_reshard(&job, number, began.elapsed()));
            }
            sleep(self.settings.heartbeat / 4).await;
        }
        if self.is_cut_so(&job, shards)? {
            self.job_message(&job)
        } else {
            Err(ServiceError::Unavailable { what: format!("{shards} shards of job {job} (given up)") })
        }
    }

    /// Has the new shards prepared. Gives the number that this layout goes by; one that was coming before is given up.
    pub fn begin_reshard(&self, job: &JobId, shards: u32) -> Result<u64> {
        let mut cluster = self.cluster();
        let number = cluster.preparation_number();
        let view = cluster.job_mut(job)?;
        if view.record.state != JobState::Running {
            return Err(view.wrong_state("running, to be resharded"));
        }
        let ranges = tiling::split(view.record.dimension, shards.into(), tiling::MAX_SHARDS)?;
        view.shards.iter_mut().for_each(|shard| shard.standby = None);
        let coming = |(range, shard)| ComingShard { shard, range, standby: None, is_unplaced: false };
        view.coming = Some(Coming { number, shards: ranges.into_iter().zip(0..).map(coming).collect() });
        drop(cluster);
        info!(%job, shards, "shards of a new layout are being prepared");
        self.nudge.notify_one();
        Ok(number)
    }

    /// The number of the layout that is being made ready, where it has so many shards.
    fn number_of_coming(&self, job: &JobId, shards: u32) -> Result<Option<u64>> {
        let cluster = self.cluster();
        let coming = cluster.job(job)?.coming.as_ref();
        Ok(coming.filter(|coming| coming.shards.len() == shards as usize).map(|coming| coming.number))
    }

    fn is_coming(&self, job: &JobId, number: u64) -> Result<bool> {
        Ok(self.cluster().job(job)?.coming.as_ref().is_some_and(|coming| coming.number == number))
    }

    /// Whether a shard of the new layout finds no worker, beside what the workers serve now.
    fn has_no_room(&self, job: &JobId, number: u64) -> Result<bool> {
        let cluster = self.cluster();
        let coming = cluster.job(job)?.coming.as_ref().filter(|coming| coming.number == number);
        Ok(coming.is_some_and(|coming| coming.shards.iter().any(|shard| shard.is_unplaced)))
    }

    /// Whether the job has these shards already.
    fn is_cut_so(&self, job: &JobId, shards: u32) -> Result<bool> {
        let cluster = self.cluster();
        let view = cluster.job(job)?;
        let ranges = tiling::split(view.record.dimension, shards.into(), tiling::MAX_SHARDS)?;
        let is_running = view.record.state == JobState::Running;
        Ok(is_running && view.shards.iter().map(|shard| shard.record.range).eq(ranges))
    }

    fn give_up_reshard(&self, job: &JobId, number: u64, waited: Duration) -> ServiceError {
        let mut cluster = self.cluster();
        let coming = cluster.job_mut(job).ok().and_then(|view| view.coming.take_if(|it| it.number == number));
        let coming: Vec<ComingShard> = coming.into_iter().flat_map(|coming| coming.shards).collect();
        if let Some(homeless) = coming.iter().find(|shard| shard.is_unplaced) {
            let needed = cluster.job(job).map_or(0, |view| view.shard_memory(homeless.range));
            let what = format!(
                "a worker for the new shard {} of job {job}: it needs {needed} bytes beside what is served meanwhile,",
                homeless.range
            );
            return ServiceError::Unavailable { what };
        }
        let is_late = |shard: &&ComingShard| shard.standby.as_ref().is_none_or(|standby| !standby.is_ready);
        let missing: Vec<CoordinateRange> = coming.iter().filter(is_late).map(|shard| shard.range).collect();
        warn!(%job, ?missing, "resharding given up: these were not ready in time");
        let waited_ms = waited.as_millis() as u64;
        ServiceError::range_unavailable(job, missing, waited_ms)
    }
}
