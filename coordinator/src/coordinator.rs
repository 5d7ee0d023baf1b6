//! The coordinator's state, shared by its services and its tasks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::Connections;
use ledger::{CheckpointRecord, CheckpointStore, JobRecord, JobState, Ledger, LedgerError};
use node::admission::Budget;
use plan::Plan;
use proto::{JobId, Result};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::blocking::{Stop, with_ledger};
use crate::cluster::{Cluster, JobView};
use crate::config::Settings;
use crate::plan_facts::PlanFacts;
use crate::release::Releaser;
use crate::watch::Watch;

/// Long enough for the longest answers of a few calls at once.
const ANSWER_BYTES: u64 = 64 << 20;
const ACCOUNTS: usize = 2;
const REPORTS: u64 = 4;

pub struct Coordinator {
    pub settings: Settings,
    /// Above that of every coordinator before on this ledger.
    pub epoch: u64,
    pub ledger: Ledger,
    pub releaser: Arc<Releaser>,
    /// `None` where checkpoints are turned off.
    pub store: Option<CheckpointStore>,
    pub connections: Connections,
    pub stop: Stop,
    /// Wakes placement.
    pub nudge: Notify,
    /// Held while shards or states of jobs change in the ledger and then in memory.
    pub changes: tokio::sync::Mutex<()>,
    pub next_checkpoint: std::sync::atomic::AtomicU64,
    pub watch: Watch,
    /// Accounts of privacy for reports, at once: of all callers, and those that one may ask for.
    pub accounts: Arc<Semaphore>,
    pub reports: Budget,
    /// Bytes of long answers on their way to one caller.
    pub answers: Budget,
    cluster: Mutex<Cluster>,
}

impl Coordinator {
    /// Takes a new epoch, and reads every job. Blocks.
    pub fn open(
        ledger: Ledger,
        settings: Settings,
        connections: Connections,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let open = |url: &str| CheckpointStore::open_over(url, settings.s3_plain_http);
        let store = settings.checkpoint_url.as_deref().map(open).transpose()?;
        let epoch = ledger.next_coordinator_epoch()?;
        let releaser = Releaser::new(epoch, settings.token_ttl)?;
        let mut cluster = Cluster::new(settings.lease_ttl, epoch);
        let now = Instant::now();
        for record in ledger.jobs()? {
            cluster.restore_job(read_job(&ledger, record)?, now);
        }
        Ok(Self {
            settings,
            epoch,
            ledger,
            releaser: releaser.into(),
            store,
            connections,
            stop,
            nudge: Notify::new(),
            changes: tokio::sync::Mutex::new(()),
            next_checkpoint: std::sync::atomic::AtomicU64::new(0),
            watch: Watch::default(),
            accounts: Arc::new(Semaphore::new(ACCOUNTS)),
            reports: Budget::counting("reports for this caller", "at once", REPORTS),
            answers: Budget::new(ANSWER_BYTES),
            cluster: Mutex::new(cluster),
        })
    }

    /// Never held over an await.
    pub fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn with_ledger<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Ledger) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T> {
        with_ledger(&self.ledger, &self.stop, call).await
    }

    pub fn store_url(&self) -> &str {
        self.settings.checkpoint_url.as_deref().unwrap_or_default()
    }

    pub fn job_message(&self, job: &JobId) -> Result<proto::pb::Job> {
        Ok(self.cluster().job(job)?.to_message())
    }

    pub fn lease_ttl(&self) -> Duration {
        self.settings.lease_ttl
    }
}

fn read_job(ledger: &Ledger, record: JobRecord) -> anyhow::Result<JobView> {
    let bound = ledger.binding_summary(&record.job, record.branch)?;
    if record.state == JobState::Destroyed {
        return Ok(JobView { bound, ..JobView::new(record, Vec::new(), None) });
    }
    let plan = Plan::from_toml_str(&record.plan_toml)
        .map_err(|error| anyhow::anyhow!("the ledger's plan of job {} can't be read: {error}", record.job))?;
    let facts = PlanFacts::of(&plan, record.dimension)?;
    let shards = ledger.shards(&record.job)?;
    let checkpoints = newest_first(ledger.checkpoints(&record.job)?);
    Ok(JobView { bound, checkpoints, ..JobView::new(record, shards, facts) })
}

fn newest_first(mut checkpoints: Vec<CheckpointRecord>) -> Vec<CheckpointRecord> {
    checkpoints.sort_unstable_by_key(|checkpoint| std::cmp::Reverse(checkpoint.id));
    checkpoints
}
