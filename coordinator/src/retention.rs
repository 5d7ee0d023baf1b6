//! Which checkpoints stay, and what is cleared up.

use checkpoint_store::CheckpointStore;
use proto::{CheckpointRecord, JobId};
use tracing::{info, warn};

use crate::coordinator::Coordinator;

impl Coordinator {
    pub async fn drop_old_checkpoints(&self, store: &CheckpointStore, job: &JobId) {
        let name = job.clone();
        let Ok(checkpoints) = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await else { return };
        let keep = self.settings.keep_checkpoints.max(1);
        let old = checkpoints.len().saturating_sub(keep);
        for checkpoint in &checkpoints[..old] {
            self.drop_checkpoint(store, checkpoint).await;
        }
    }

    /// Objects before the entry: what could not be deleted is tried again next time. True when it is gone.
    async fn drop_checkpoint(&self, store: &CheckpointStore, checkpoint: &CheckpointRecord) -> bool {
        if let Err(error) = store.delete_checkpoint(checkpoint).await {
            warn!(job = %checkpoint.job, id = checkpoint.id, %error, "checkpoint could not be deleted");
            return false;
        }
        let job = checkpoint.job.clone();
        let id = checkpoint.id;
        if let Ok(view) = self.cluster().job_mut(&job) {
            view.checkpoints.retain(|kept| kept.id != id);
        }
        self.with_ledger(move |ledger| ledger.remove_checkpoint(&job, id)).await.is_ok()
    }

    /// All of the job's; how many are gone, and how many are left.
    pub async fn delete_checkpoints(&self, job: &JobId) -> (u64, u64) {
        let writing = self.cluster().job(job).map(|view| view.checkpointing.clone());
        let name = job.clone();
        let (Ok(writing), Some(store)) = (writing, &self.store) else { return (0, 0) };
        let _writing = writing.lock().await;
        let listed = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await.unwrap_or_default();
        let mut gone = 0;
        let mut left = 0;
        for checkpoint in &listed {
            if self.drop_checkpoint(store, checkpoint).await { gone += 1 } else { left += 1 }
        }
        (gone, left)
    }

    /// Deletes what no entry of the ledger names: the rest of checkpoints whose writing or deletion was cut off. Call
    /// while no checkpoint of the job is written. What can't be deleted now is tried again next time.
    pub async fn sweep(&self, store: &CheckpointStore, job: &JobId) {
        let name = job.clone();
        let Ok(listed) = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await else { return };
        // A coordinator that leads no more, and has not noticed, would delete what its successor writes.
        let is_kept =
            |id: u64| self.is_of_later_epoch(id) || listed.iter().any(|checkpoint| checkpoint.id == id);
        match store.sweep(job, is_kept).await {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => {
                info!(%job, ids = ?swept, "objects of checkpoints that were never whole are deleted")
            }
            Err(error) => warn!(%job, %error, "objects of checkpoints that were never whole may remain"),
        }
    }

    /// At start: nothing is written yet.
    pub async fn sweep_all(&self) {
        let Some(store) = &self.store else { return };
        let jobs: Vec<_> = self.cluster().jobs().map(|view| view.record.job.clone()).collect();
        for job in jobs {
            let Ok(one_at_a_time) = self.cluster().job(&job).map(|view| view.checkpointing.clone()) else {
                continue;
            };
            let _writing = one_at_a_time.lock().await;
            self.sweep(store, &job).await;
        }
    }
}
