//! Retention: the checkpoints that are kept, and the deletion of the others.

use checkpoint_store::CheckpointStore;
use proto::{CheckpointRecord, JobId};
use tracing::{info, warn};

use crate::coordinator::Coordinator;

impl Coordinator {
    /// Deletes all but the newest checkpoints of the job.
    pub async fn drop_old_checkpoints(&self, store: &CheckpointStore, job: &JobId) {
        let name = job.clone();
        let Ok(checkpoints) = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await else { return };
        let keep = self.settings().keep_checkpoints.max(1);
        for checkpoint in release::checkpoints::expired(&checkpoints, keep) {
            self.drop_checkpoint(store, checkpoint).await;
        }
    }

    /// Deletes a checkpoint's objects, then its entry, so that a failure is tried again next time. Returns whether it
    /// is gone.
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

    /// Deletes all checkpoints of the job. Returns how many are deleted, and how many are left.
    pub async fn delete_checkpoints(&self, job: &JobId) -> (u64, u64) {
        let lock = self.cluster().job(job).map(|view| view.checkpoint_lock.clone());
        let name = job.clone();
        let listed = || self.with_ledger(move |ledger| ledger.checkpoints(&name));
        if self.awaits_anchor() {
            return (0, listed().await.map_or(0, |listed| listed.len() as u64));
        }
        let (Ok(lock), Some(store)) = (lock, self.checkpoint_store()) else { return (0, 0) };
        let _turn = lock.lock().await;
        let listed = listed().await.unwrap_or_default();
        let mut gone = 0;
        let mut left = 0;
        for checkpoint in &listed {
            if self.drop_checkpoint(store, checkpoint).await { gone += 1 } else { left += 1 }
        }
        (gone, left)
    }

    /// Deletes objects that no entry of the ledger names: remains of checkpoints whose writing or deletion was
    /// interrupted. Call while no checkpoint of the job is written. A failure is tried again next time.
    pub async fn delete_unlisted(&self, store: &CheckpointStore, job: &JobId) {
        let name = job.clone();
        let Ok(listed) = self.with_ledger(move |ledger| ledger.checkpoints(&name)).await else { return };
        // A former leader that has not noticed its successor must not delete what that one writes.
        let is_kept = |id: u64| {
            self.checkpoint_ids().is_of_later_epoch(id) || listed.iter().any(|checkpoint| checkpoint.id == id)
        };
        match store.sweep(job, is_kept).await {
            Ok(swept) if swept.is_empty() => {}
            Ok(swept) => {
                info!(%job, ids = ?swept, "deleted objects of incomplete checkpoints")
            }
            Err(error) => warn!(%job, %error, "objects of incomplete checkpoints may remain"),
        }
    }

    /// Deletes the unlisted objects of every job, at the start.
    pub async fn delete_all_unlisted(&self) {
        let Some(store) = self.checkpoint_store() else { return };
        let jobs: Vec<_> = self.cluster().jobs().map(|view| view.record.job.clone()).collect();
        for job in jobs {
            let Ok(lock) = self.cluster().job(&job).map(|view| view.checkpoint_lock.clone()) else {
                continue;
            };
            let _turn = lock.lock().await;
            self.delete_unlisted(store, &job).await;
        }
    }
}
