//! Reconciliation: the one task that brings owners to the desired state.

use std::sync::Arc;

use metrics::{counter, gauge};
use node::auth::CallerName;
use proto::{JobId, Result};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::cluster::{Cluster, LayoutChange, OwnerChanges};
use crate::coordinator::Coordinator;
use crate::metric_definitions::{
    CHECKPOINT_AGE, JOBS, JOBS_CONTRADICTED, LEASES_CHANGED, SHARDS, SHARDS_UNREADY, WORKERS_ALIVE,
    WORKERS_LOST,
};

/// A pass is followed by a pause of this many times its own length, so that placement takes a fifth of the time at
/// most, and changes that arrive together share one pass.
const PAUSE_PER_PASS: u32 = 4;

impl Coordinator {
    /// Reconciles until shutdown: after every change, and at intervals for leases that end.
    pub async fn keep_reconciled(self: Arc<Self>, shutdown: CancellationToken) {
        // Half a heartbeat after a lease has ended is soon enough.
        let mut ticks = interval(self.settings().heartbeat / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_seen = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.reconcile_triggered() => {}
                _ = ticks.tick() => {}
            }
            self.extend_leases_after_pause(last_seen);
            let began = Instant::now();
            if let Err(error) = self.reconcile().await {
                error!(%error, "owners could not be changed; trying again");
                tokio::time::sleep(self.settings().heartbeat / 2).await;
            }
            // Without a pause, thousands of workers that register in turn would each cause a pass.
            let pause = began.elapsed().saturating_mul(PAUSE_PER_PASS).min(self.settings().heartbeat);
            tokio::time::sleep(pause).await;
            last_seen = Instant::now();
        }
    }

    /// Extends every lease by the time for which this process could not run, such as a suspended machine.
    fn extend_leases_after_pause(&self, last_seen: Instant) {
        let gap = last_seen.elapsed();
        if gap > self.lease_ttl() / 2 {
            warn!(gap_ms = gap.as_millis() as u64, "this process was paused; leases are extended by as much");
            self.cluster().members.extend_leases(gap);
        }
    }

    /// Makes one pass. Returns the number of shards that changed hands: none on a copy of a ledger, which stays as it is, and none
    /// while this coordinator is fenced.
    pub async fn reconcile(&self) -> Result<usize> {
        if self.cluster().copied.is_some() {
            return Ok(0);
        }
        let _change = self.lock_changes().await;
        self.expire_workers();
        // Between these steps, each of which goes through all workers and shards, other calls have their turn.
        yield_now().await;
        record_gauges(&self.cluster(), Instant::now());
        yield_now().await;
        self.cluster().detect_stragglers(Instant::now(), self.settings().straggler_timeout);
        yield_now().await;
        let (desired, layouts) = {
            let now = Instant::now();
            let mut cluster = self.cluster();
            let mut desired = cluster.desired_state(now);
            cluster.note_unschedulable(&desired.unschedulable);
            cluster.prepare(std::mem::take(&mut desired.preparations));
            (desired, cluster.ready_layouts(now))
        };
        let mut changed = 0;
        // A copy that is in use meanwhile would give the same epochs, to other workers. Successors are prepared all the same, and
        // whatever is served stays served.
        let may_change = || !self.is_fenced();
        let owners = desired.changes.into_iter().filter(|it| layouts.iter().all(|to| to.job != it.job));
        for change in owners.take_while(|_| may_change()) {
            self.change_owners(&change).await?;
            changed += change.owners.len();
        }
        for change in layouts.into_iter().take_while(|_| may_change()) {
            self.change_layout(&change).await?;
            changed += change.owners.len();
        }
        Ok(changed)
    }

    fn expire_workers(&self) {
        for worker in self.cluster().expire(Instant::now()) {
            counter!(WORKERS_LOST).increment(1);
            warn!(%worker, "worker sent no heartbeat for the time of a lease: its shards go to others");
        }
    }

    async fn change_owners(&self, change: &OwnerChanges) -> Result<()> {
        let job = change.job.clone();
        let owners = change.for_ledger();
        let records = self.with_ledger(move |ledger| ledger.set_owners(&job, &owners)).await?;
        for (shard, owner) in &change.owners {
            let owner = owner.as_ref().map_or("none", |(worker, _)| worker.as_str());
            info!(job = %change.job, shard, owner, "shard assigned");
        }
        counter!(LEASES_CHANGED).increment(change.owners.len() as u64);
        self.cluster().owners_changed(Instant::now(), change, records);
        Ok(())
    }

    /// Records the new shards, then their owners; between the two they have none.
    async fn change_layout(&self, change: &LayoutChange) -> Result<()> {
        let job = change.job.clone();
        let ranges = change.ranges.clone();
        let owners = OwnerChanges { job: job.clone(), owners: change.owners.clone() }.for_ledger();
        let replaced = job.clone();
        let replace = self.with_ledger(move |ledger| ledger.replace_shards(&replaced, &ranges));
        // The layout is the caller's wish, the placement the coordinator's.
        match self.layout_requester(&job) {
            Some(caller) => drop(caller.scope(replace).await?),
            None => drop(replace.await?),
        }
        let (record, shards) = self
            .with_ledger(move |ledger| {
                let shards = ledger.set_owners(&job, &owners)?;
                Ok((ledger.job(&job)?, shards))
            })
            .await?;
        let record = record.ok_or_else(|| crate::cluster::no_job(&change.job))?;
        info!(job = %change.job, shards = shards.len(), "job resharded");
        counter!(LEASES_CHANGED).increment(change.owners.len() as u64);
        self.cluster().layout_changed(Instant::now(), change, record, shards);
        Ok(())
    }
}

impl Coordinator {
    /// Returns the caller that requested the job's pending layout.
    fn layout_requester(&self, job: &JobId) -> Option<CallerName> {
        self.cluster().job(job).ok()?.pending.as_ref()?.requested_by.clone()
    }
}

fn record_gauges(cluster: &Cluster, now: Instant) {
    gauge!(WORKERS_ALIVE).set(cluster.members.all_live(now).count() as f64);
    let served = || cluster.jobs().filter(|view| view.is_served());
    let shards = || served().flat_map(|view| view.shards.iter().map(move |shard| (view, shard)));
    gauge!(SHARDS).set(shards().count() as f64);
    gauge!(SHARDS_UNREADY)
        .set(shards().filter(|(view, shard)| !cluster.is_covered(now, view, shard)).count() as f64);
    use ledger::JobState::{Destroyed, Finished, Running};
    for (state, name) in [(Running, "running"), (Finished, "finished"), (Destroyed, "destroyed")] {
        let count = cluster.jobs().filter(|view| view.record.state == state).count();
        gauge!(JOBS, "state" => name).set(count as f64);
    }
    gauge!(JOBS_CONTRADICTED).set(cluster.contradicted_jobs() as f64);
    let running = cluster.jobs().filter(|view| view.record.state == ledger::JobState::Running);
    let ages = running
        .filter_map(|view| view.last_checkpoint)
        .map(|last| now.duration_since(last.written_at).as_secs_f64());
    gauge!(CHECKPOINT_AGE).set(ages.fold(0.0, f64::max));
}
