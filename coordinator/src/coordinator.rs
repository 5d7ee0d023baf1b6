//! The coordinator's parts, and how its services and tasks get at each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use checkpoint_store::CheckpointStore;
use client::Connections;
use ledger::{AnchorTrouble, Ledger, LedgerError, Principal};
use proto::{JobId, Result};
use release::authority::ReleaseAuthority;
use release::checkpoints::CheckpointIds;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::answer_limits::AnswerLimits;
use crate::audit_log::{AuditFault, AuditLog};
use crate::blocking::{FatalStop, with_ledger};
use crate::budget_meter::BudgetMeter;
use crate::cluster::Cluster;
use crate::config::Settings;
use crate::health::HealthMonitor;
use crate::privacy_meter::PrivacyMeter;
use crate::quotas::Quotas;
use crate::read_job::read_job;

/// A coordinator on an open ledger. Its parts are reached by the methods below and nothing else.
pub struct Coordinator {
    settings: Settings,
    /// Higher than that of every earlier coordinator on this ledger, unless it is a copy.
    epoch: u64,
    /// Connections to the workers.
    connections: Connections,
    state: State,
    release_authority: Arc<ReleaseAuthority>,
    checkpoints: Checkpoints,
    privacy_meter: PrivacyMeter,
    budget_meter: BudgetMeter,
    health: HealthMonitor,
    answer_limits: AnswerLimits,
    quotas: Arc<Quotas>,
}

/// The ledger and the memory that follows it.
struct State {
    ledger: Ledger,
    /// `None` where no file is to have one.
    audit_logs: Vec<AuditLog>,
    stop: FatalStop,
    cluster: Mutex<Cluster>,
    /// Held while shards or states of jobs change, first in the ledger and then in memory.
    changes: tokio::sync::Mutex<()>,
    /// Starts a pass of placement.
    reconcile_trigger: Notify,
    /// Starts a comparison of workers' watermarks with the ledger.
    watermark_check_trigger: Notify,
}

struct Checkpoints {
    /// `None` if checkpoints are turned off.
    store: Option<CheckpointStore>,
    ids: CheckpointIds,
}

impl Coordinator {
    /// Takes a new epoch and reads every job. On a ledger that is a copy it takes none, and has no checkpoint store: what the
    /// original's workers and checkpoints are stays as it is. Blocks.
    pub fn open(
        ledger: Ledger,
        settings: Settings,
        connections: Connections,
        stop: FatalStop,
    ) -> anyhow::Result<Self> {
        let open = |url: &str| CheckpointStore::open_over(url, settings.s3_plain_http);
        let copied = ledger.copied();
        let store = settings.checkpoint_url.as_deref().filter(|_| copied.is_none());
        let store = store.map(open).transpose()?;
        let epoch = match copied {
            Some(_) => ledger.coordinator_epoch()?,
            None => ledger.next_coordinator_epoch()?,
        };
        let to_file = settings.audit_log.as_deref().map(AuditLog::open).transpose()?;
        let to_collector = settings.audit_otlp.as_deref().map(AuditLog::to_collector).transpose()?;
        let audit_logs: Vec<_> = to_file.into_iter().chain(to_collector).collect();
        if !audit_logs.is_empty() {
            AuditLog::follow(&audit_logs, &ledger);
        }
        let release_authority = ReleaseAuthority::new(epoch, settings.token_ttl)?;
        let mut cluster = Cluster::new(settings.lease_ttl, ledger.id()?, epoch);
        cluster.copied = copied.map(Into::into);
        let now = Instant::now();
        // Whether or not the ledger has jobs: an old copy may have none. The first coordinator of a ledger does not wait:
        // no worker has seen one before. Where the ledger is a copy from before its first start, its jobs draw nonces of
        // their own, and what workers report of it stops them whenever it comes.
        if epoch > 1 && cluster.copied.is_none() {
            cluster.members.begin_grace_period(now);
        }
        for record in ledger.jobs()? {
            cluster.restore_job(read_job(&ledger, record)?, now);
        }
        let state = State {
            ledger: ledger.acting_as(Principal::coordinator()),
            audit_logs,
            stop,
            cluster: Mutex::new(cluster),
            changes: tokio::sync::Mutex::new(()),
            reconcile_trigger: Notify::new(),
            watermark_check_trigger: Notify::new(),
        };
        let quotas = Arc::new(Quotas::new(settings.quotas));
        Ok(Self {
            settings,
            epoch,
            connections,
            state,
            release_authority: release_authority.into(),
            checkpoints: Checkpoints { store, ids: CheckpointIds::new(epoch) },
            privacy_meter: PrivacyMeter::default(),
            budget_meter: BudgetMeter::default(),
            health: HealthMonitor::default(),
            answer_limits: AnswerLimits::new(),
            quotas,
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time after which a worker that sends no heartbeat loses its shards.
    pub fn lease_ttl(&self) -> Duration {
        self.settings.lease_ttl
    }

    /// Returns the epoch, which is higher than that of every earlier coordinator on this ledger; on a copy that of the last one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the connections to the workers.
    pub fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Locks the state in memory. Never hold the lock over an await.
    pub fn cluster(&self) -> MutexGuard<'_, Cluster> {
        let mut cluster = self.state.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        // A ledger may be found to be a copy at any time.
        if cluster.copied.is_none() {
            cluster.copied = self.state.ledger.copied().map(Into::into);
        }
        cluster
    }

    /// Returns why the ledger's anchor in the checkpoint store is not renewed; `None` where it is, or needs not be.
    pub fn anchor_trouble(&self) -> Option<AnchorTrouble> {
        self.state.ledger.anchor_trouble()
    }

    /// Runs one call of the ledger on a blocking thread, as the caller that this task acts for, or the coordinator itself.
    pub async fn with_ledger<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Ledger) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T> {
        match node::auth::caller() {
            Some(caller) => {
                let by = Principal::new(caller.as_str()).of_person(caller.person().cloned());
                let ledger = self.state.ledger.acting_as(by);
                with_ledger(&ledger, &self.state.stop, call).await
            }
            None => with_ledger(&self.state.ledger, &self.state.stop, call).await,
        }
    }

    /// Waits for the right to change shards or states of jobs. Hold it until ledger and memory agree.
    pub async fn lock_changes(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.state.changes.lock().await
    }

    /// Looks whether the anchor beside the ledger was replaced.
    pub fn look_at_anchor(&self) {
        self.state.ledger.look_at_anchor();
    }

    /// Starts a pass of placement soon.
    pub fn trigger_reconcile(&self) {
        self.state.reconcile_trigger.notify_one();
    }

    /// Waits until a pass of placement is triggered.
    pub fn reconcile_triggered(&self) -> Notified<'_> {
        self.state.reconcile_trigger.notified()
    }

    /// Starts a comparison of the watermarks that have arrived with the ledger.
    pub fn trigger_watermark_check(&self) {
        self.state.watermark_check_trigger.notify_one();
    }

    /// Waits until a comparison of watermarks is triggered.
    pub fn watermark_check_triggered(&self) -> Notified<'_> {
        self.state.watermark_check_trigger.notified()
    }

    /// Returns the latch that ends this coordinator with a reason.
    pub fn fatal_stop(&self) -> &FatalStop {
        &self.state.stop
    }

    /// Returns the one signer of release grants and orders.
    pub fn release_authority(&self) -> &Arc<ReleaseAuthority> {
        &self.release_authority
    }

    /// Returns the checkpoint store; `None` if checkpoints are turned off, once the ledger is known to be a copy, and until
    /// [`Self::awaits_anchor`] has ended.
    pub fn checkpoint_store(&self) -> Option<&CheckpointStore> {
        let is_closed = self.state.ledger.copied().is_some() || self.awaits_anchor();
        self.checkpoints.store.as_ref().filter(|_| !is_closed)
    }

    /// Returns whether the ledger's anchor was not taken up yet: checkpoints may be those of another coordinator.
    pub fn awaits_anchor(&self) -> bool {
        self.state.ledger.awaits_lease()
    }

    /// Returns whether this coordinator has no lease of an anchor that it needs: a copy of the ledger may be in use meanwhile.
    pub fn is_fenced(&self) -> bool {
        self.state.ledger.is_fenced()
    }

    /// Returns the checkpoint store's URL; empty if checkpoints are turned off.
    pub fn store_url(&self) -> &str {
        self.settings.checkpoint_url.as_deref().unwrap_or_default()
    }

    /// Returns the source of checkpoint numbers.
    pub fn checkpoint_ids(&self) -> &CheckpointIds {
        &self.checkpoints.ids
    }

    /// Returns the privacy meter.
    pub fn privacy_meter(&self) -> &PrivacyMeter {
        &self.privacy_meter
    }

    /// Returns the budget meter.
    pub fn budget_meter(&self) -> &BudgetMeter {
        &self.budget_meter
    }

    /// Returns the health monitor.
    pub fn health(&self) -> &HealthMonitor {
        &self.health
    }

    /// Returns the quotas of jobs and callers.
    pub fn quotas(&self) -> &Arc<Quotas> {
        &self.quotas
    }

    /// Returns what is wrong with each audit log in which something is.
    pub fn audit_faults(&self) -> impl Iterator<Item = AuditFault> {
        self.state.audit_logs.iter().filter_map(AuditLog::fault)
    }

    /// Returns the limits on long answers.
    pub fn answer_limits(&self) -> &AnswerLimits {
        &self.answer_limits
    }

    /// Returns a job as clients see it.
    pub fn job_message(&self, job: &JobId) -> Result<proto::pb::Job> {
        let cluster = self.cluster();
        Ok(cluster.message_of(Instant::now(), cluster.job(job)?))
    }
}

#[cfg(test)]
impl Coordinator {
    pub fn ledger(&self) -> &Ledger {
        &self.state.ledger
    }

    pub fn set_checkpoint_store(&mut self, store: CheckpointStore) {
        self.checkpoints.store = Some(store);
    }
}
