//! The shards this worker holds, as the coordinator last said.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ledger::PlainHttp;
use node::cpu_pool::CpuPool;
use noise_kernel::{Backend, Generator, History, JobKey};
use plan::Plan;
use proto::{JobId, Result, ServiceError, model::LeaseGrant, pb};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    clerk::Clerk,
    config::WorkerArgs,
    keyring::Keyring,
    make::make_rows,
    marks::Marks,
    meter::Meter,
    metric_definitions as metric,
    recipe::Recipe,
    restore::{self, restore},
    row::Window,
    shard::{Phase, Shard},
    snapshot::Budget,
    stores::Stores,
};

/// How rows are made, how far ahead, and the pool they are made on.
#[derive(Debug)]
pub struct Limits {
    pub pool: CpuPool,
    pub ahead_rows: u64,
    /// Of all shards together.
    pub ahead_bytes: u64,
    pub backend: Backend,
    /// Past normals that one shard may keep.
    pub history_bytes: u64,
    /// Memory for copies of state while they are written.
    pub snapshots: Budget,
    /// Turns to read a checkpoint.
    pub restores: Semaphore,
    pub stores: Stores,
    pub meter: Meter,
    shards: std::sync::atomic::AtomicU64,
}

impl Limits {
    pub fn new(pool: CpuPool, args: &WorkerArgs) -> Self {
        let WorkerArgs { ahead_rows, ahead_bytes, backend, history_bytes, .. } = *args;
        let plain_http = if args.s3_plain_http { PlainHttp::Allowed } else { PlainHttp::Refused };
        let (snapshots, stores) = (Budget::new(args.snapshot_bytes), Stores::new(plain_http));
        let (restores, meter, shards) = (Semaphore::new(restore::AT_ONCE), Meter::default(), 0.into());
        Self {
            pool,
            ahead_rows,
            ahead_bytes,
            backend,
            history_bytes,
            snapshots,
            restores,
            stores,
            meter,
            shards,
        }
    }

    /// At the rate that this worker has measured.
    pub fn measured(self, rate: f64) -> Self {
        Self { meter: Meter::of_rate(rate), ..self }
    }

    /// Rows ahead for a shard of `len` coordinates: its share of the bytes, at least one row.
    pub fn ahead_rows(&self, len: u64) -> u64 {
        let shards = self.shards.load(std::sync::atomic::Ordering::Relaxed).max(1);
        (self.ahead_bytes / shards / (4 * len)).clamp(1, self.ahead_rows.max(1))
    }
}

/// Job, shard, and the epoch or the number of a preparation: a worker may hold a shard of one layout beside the shard
/// of that number of the next.
type Key = (JobId, u32, u64);

fn key(grant: &LeaseGrant) -> Key {
    (grant.job.clone(), grant.shard, grant.epoch)
}

/// In order, so that what is done to all of them is done in the same order in every run.
type Shards = BTreeMap<Key, Arc<Shard>>;

struct Held {
    shards: Shards,
    /// Made ready for when their lease comes; nothing of them is served.
    standbys: Shards,
    clerk: Option<Clerk>,
    /// Without a heartbeat until then, nothing is served: the shards may be another's.
    valid_until: Instant,
}

/// All that a heartbeat's answer grants.
#[derive(Debug, Default)]
pub struct Granted {
    pub leases: Vec<LeaseGrant>,
    pub standbys: Vec<LeaseGrant>,
}

pub struct Leases {
    held: Mutex<Held>,
    keyring: Keyring,
    /// What this worker has released, on its own disk.
    pub marks: Arc<Marks>,
    pub limits: Arc<Limits>,
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leases({} shards)", self.held().shards.len())
    }
}

/// Gets a job's plan from the coordinator.
#[async_trait::async_trait]
pub trait Plans: Send + Sync + 'static {
    async fn plan(&self, job: &JobId) -> Result<String>;
}

impl Leases {
    pub fn new(keyring: Keyring, marks: Arc<Marks>, limits: Limits) -> Arc<Self> {
        let (shards, standbys) = (BTreeMap::new(), BTreeMap::new());
        let held = Held { shards, standbys, clerk: None, valid_until: Instant::now() };
        Arc::new(Self { held: Mutex::new(held), keyring, marks, limits: Arc::new(limits) })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes over what the coordinator grants: keeps what is granted still, drops the rest, starts what is new. True
    /// where a shard that was made ready before is served from now on, which the coordinator waits to hear.
    pub fn apply(
        self: &Arc<Self>,
        granted: Granted,
        clerk: Clerk,
        ttl: Duration,
        asked: Instant,
        plans: &Arc<dyn Plans>,
    ) -> bool {
        let mut held = self.held();
        held.clerk = Some(clerk);
        held.valid_until = asked + ttl;
        let (mut shards, mut standbys) =
            (std::mem::take(&mut held.shards), std::mem::take(&mut held.standbys));
        let stands: Vec<_> = granted.standbys.iter().map(|grant| (key(grant), grant.next_row)).collect();
        // What stays as it is comes first: nothing else may take its state over.
        let new_leases = keep_same(&mut shards, &mut held.shards, granted.leases);
        let new_standbys = keep_same(&mut standbys, &mut held.standbys, granted.standbys);
        let mut is_taken_over = false;
        for grant in new_leases {
            let prepared = adopted(&mut standbys, &grant);
            is_taken_over |= prepared.is_some();
            let shard = prepared.or_else(|| adopted(&mut shards, &grant));
            let key = key(&grant);
            let shard = shard.unwrap_or_else(|| {
                metrics::counter!(metric::LEASES_TAKEN).increment(1);
                self.begin(grant, plans)
            });
            held.shards.insert(key, shard);
        }
        for grant in new_standbys {
            let key = key(&grant);
            let shard = adopted(&mut standbys, &grant).unwrap_or_else(|| self.begin(grant, plans));
            held.standbys.insert(key, shard);
        }
        for (key, next_row) in stands {
            held.standbys.get(&key).inspect(|shard| shard.follow(next_row));
        }
        metrics::counter!(metric::LEASES_LOST).increment(shards.len() as u64);
        shards.values().chain(standbys.values()).for_each(|shard| shard.cancelled.cancel());
        let count = held.shards.len() + held.standbys.len();
        self.limits.shards.store(count as u64, std::sync::atomic::Ordering::Relaxed);
        self.keyring.keep(|job| has_of(&held.shards, job) || has_of(&held.standbys, job));
        is_taken_over
    }

    fn begin(self: &Arc<Self>, grant: LeaseGrant, plans: &Arc<dyn Plans>) -> Arc<Shard> {
        let shard = Shard::new(grant);
        tokio::spawn(self.clone().start(shard.clone(), plans.clone()));
        shard
    }

    /// Restores the shard, then makes its rows until the lease is gone.
    async fn start(self: Arc<Self>, shard: Arc<Shard>, plans: Arc<dyn Plans>) {
        let grant = shard.grant();
        tracing::info!(job = %grant.job, shard = grant.shard, range = %grant.range, epoch = grant.epoch, "lease taken");
        let restored = tokio::select! {
            biased;
            restored = self.prepare(&shard, &*plans) => restored,
            () = shard.cancelled.cancelled() => return,
        };
        match restored {
            Ok((recipe, generator, window)) => {
                let history_bytes = generator.history_bytes() as u64;
                *shard.generator.lock().await = Some(generator);
                shard.ready(recipe, window, history_bytes);
                make_rows(shard, self.limits.clone()).await;
            }
            Err(error) => {
                tracing::warn!(job = %grant.job, shard = grant.shard, %error, "lease can't be held");
                shard.fail(error);
            }
        }
    }

    async fn prepare(&self, shard: &Shard, plans: &dyn Plans) -> Result<(Recipe, Generator, Window)> {
        let grant = shard.grant();
        let key = self.keyring.key(&grant.job)?;
        let text = plans.plan(&grant.job).await?;
        let recipe = self.recipe(text, key, grant.clone()).await?;
        let (generator, window) = restore(grant, &recipe, &self.limits).await?;
        Ok((recipe, generator, window))
    }

    /// A plan may be megabytes of text, whose matrix takes seconds to be checked.
    async fn recipe(&self, plan: String, key: JobKey, grant: LeaseGrant) -> Result<Recipe> {
        let (backend, limit_bytes) = (self.limits.backend, self.limits.history_bytes);
        let read = move || {
            let plan = Plan::from_toml_str(&plan).map_err(ServiceError::internal)?;
            let recipe = Recipe::checked(&plan, &key, &grant)?;
            recipe.made_by(backend, History::Auto { limit_bytes }).map_err(ServiceError::internal)
        };
        self.limits.pool.run(read).await.map_err(ServiceError::internal)?
    }

    /// The shard and what checks its tokens, while the lease is good.
    pub fn shard(&self, job: &JobId, shard: u32, epoch: u64) -> Result<(Arc<Shard>, Clerk)> {
        let held = self.held();
        let not_owner = || ServiceError::NotOwner { job: job.to_string(), shard };
        // Under the epoch presented, else the newest.
        let all = (job.clone(), shard, 0)..=(job.clone(), shard, u64::MAX);
        let presented = held.shards.get(&(job.clone(), shard, epoch));
        let newest = || held.shards.range(all).next_back().map(|(_, shard)| shard);
        let found = presented.or_else(newest).ok_or_else(not_owner)?;
        if Instant::now() >= held.valid_until {
            return Err(ServiceError::Unavailable {
                what: "the worker's lease (no word from the coordinator)".into(),
            });
        }
        if found.epoch() != epoch {
            let (presented, current) = (epoch, found.epoch());
            return Err(ServiceError::Fenced { job: job.to_string(), shard, presented, current });
        }
        let clerk = held.clerk.clone().ok_or_else(not_owner)?;
        Ok((found.clone(), clerk))
    }

    /// What to answer a request for a branch that the job has left; `None` where it has not, as far as is known here.
    pub fn superseded(&self, job: &JobId, branch: u64) -> Option<ServiceError> {
        let held = self.held();
        let grant = held.shards.values().find(|shard| shard.job() == job).map(|shard| shard.grant())?;
        let (current, from_row) = (grant.branch(), grant.lineage.from_row());
        let job = job.to_string();
        (branch < current).then_some(ServiceError::BranchSuperseded { job, branch, current, from_row })
    }

    /// False once the lease has run out.
    pub fn valid(&self) -> bool {
        Instant::now() < self.held().valid_until
    }

    pub fn clear(&self) {
        let mut held = self.held();
        let (shards, standbys) = (std::mem::take(&mut held.shards), std::mem::take(&mut held.standbys));
        shards.values().chain(standbys.values()).for_each(|shard| shard.cancelled.cancel());
        self.limits.shards.store(0, std::sync::atomic::Ordering::Relaxed);
        self.keyring.keep(|_| false);
    }

    pub fn is_empty(&self) -> bool {
        self.held().shards.is_empty()
    }

    /// Nothing is held, and nothing made ready.
    pub fn is_idle(&self) -> bool {
        let held = self.held();
        held.shards.is_empty() && held.standbys.is_empty()
    }

    pub fn status(&self) -> Vec<pb::LeaseStatus> {
        let shards: Vec<_> = self.held().shards.values().cloned().collect();
        shards.iter().map(|shard| self.status_of(shard)).collect()
    }

    /// READY once all is made that their jobs will soon ask for.
    pub fn standby_status(&self) -> Vec<pb::LeaseStatus> {
        let shards: Vec<_> = self.held().standbys.values().cloned().collect();
        let status = |shard: &Arc<Shard>| {
            let mut status = self.status_of(shard);
            let ahead_rows = self.limits.ahead_rows(shard.grant().range.len());
            if status.state() == pb::LeaseState::Ready && !shard.is_ahead(ahead_rows) {
                status.set_state(pb::LeaseState::Restoring);
            }
            status
        };
        shards.iter().map(status).collect()
    }

    fn status_of(&self, shard: &Shard) -> pb::LeaseStatus {
        let (state, message) = match shard.phase() {
            Phase::Restoring => (pb::LeaseState::Restoring, String::new()),
            Phase::Ready => (pb::LeaseState::Ready, String::new()),
            Phase::Failed(error) => (pb::LeaseState::Failed, error.to_string()),
        };
        // What a shard is made with was held against its grant when it began, whatever keys come and go since.
        let commitment = match state {
            pb::LeaseState::Ready => Ok(shard.grant().key_commitment.to_vec()),
            _ => self.keyring.key(shard.job()).map(|key| key.commitment().to_vec()),
        };
        pb::LeaseStatus {
            job: shard.job().to_string(),
            shard: shard.grant().shard,
            epoch: shard.epoch(),
            state: state.into(),
            next_row: shard.next_row(),
            state_bytes: shard.state_bytes(),
            ahead_bytes: shard.ahead_bytes(),
            key_commitment: commitment.unwrap_or_default(),
            message,
            released: shard.released(),
            row_seconds: shard.row_time().as_secs_f64(),
            stalled_seconds: shard.stalled().as_secs_f64(),
        }
    }

    /// State and rows kept, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        let held = self.held();
        let shards = held.shards.values().chain(held.standbys.values());
        shards.fold((0, 0), |(state, ahead), s| (state + s.state_bytes(), ahead + s.ahead_bytes()))
    }

    /// Shards held that can't be served yet.
    pub fn restoring(&self) -> usize {
        self.held().shards.values().filter(|shard| shard.phase() == Phase::Restoring).count()
    }

    pub fn record_gauges(&self) {
        let shards: Vec<_> = self.held().shards.values().cloned().collect();
        let (mut restoring, mut ready, mut failed) = (0.0, 0.0, 0.0);
        for shard in &shards {
            match shard.phase() {
                Phase::Restoring => restoring += 1.0,
                Phase::Ready => ready += 1.0,
                Phase::Failed(_) => failed += 1.0,
            }
        }
        for (state, count) in [("restoring", restoring), ("ready", ready), ("failed", failed)] {
            metrics::gauge!(metric::SHARDS, "state" => state).set(count);
        }
        let (state, ahead) = self.memory();
        metrics::gauge!(metric::STATE_BYTES).set(state as f64);
        metrics::gauge!(metric::AHEAD_BYTES).set(ahead as f64);
        let fewest = shards.iter().map(|shard| shard.rows_ahead()).min().unwrap_or(0);
        let furthest = shards.iter().map(|shard| shard.rows_behind()).max().unwrap_or(0);
        let epoch = shards.iter().map(|shard| shard.epoch()).max().unwrap_or(0);
        metrics::gauge!(metric::AHEAD_ROWS).set(fewest as f64);
        metrics::gauge!(metric::BEHIND_ROWS).set(furthest as f64);
        metrics::gauge!(metric::LEASE_EPOCH).set(epoch as f64);
    }
}

fn has_of(shards: &Shards, job: &JobId) -> bool {
    shards.range((job.clone(), 0, 0)..=(job.clone(), u32::MAX, u64::MAX)).next().is_some()
}

/// Moves to `kept` what is granted as it was, and gives back the other grants.
fn keep_same(had: &mut Shards, kept: &mut Shards, grants: Vec<LeaseGrant>) -> Vec<LeaseGrant> {
    let mut others = Vec::new();
    for grant in grants {
        let key = key(&grant);
        // A failed shard stays failed under the same epoch, else it would be tried at every heartbeat.
        let is_same = |shard: &Arc<Shard>| shard.adopt(&grant) || matches!(shard.phase(), Phase::Failed(_));
        match had.get(&key).is_some_and(is_same).then(|| had.remove(&key)).flatten() {
            Some(shard) => _ = kept.insert(key, shard),
            None => others.push(grant),
        }
    }
    others
}

/// A shard whose state serves the grant too.
fn adopted(had: &mut Shards, grant: &LeaseGrant) -> Option<Arc<Shard>> {
    let of_shard = (grant.job.clone(), grant.shard, 0)..=(grant.job.clone(), grant.shard, u64::MAX);
    let key = had.range(of_shard).find(|(_, shard)| shard.adopt(grant)).map(|(key, _)| key.clone())?;
    had.remove(&key)
}
