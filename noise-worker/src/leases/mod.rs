//! The shards of a worker, as the coordinator last granted them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use node::process::runtime::spawn;
use noise_kernel::{History, JobKey, RowGenerator};
use plan::Plan;
use proto::{
    JobId, Result, ServiceError,
    model::{GrantedLeases, LeaseGrant},
};
use tokio::time::Instant;

use crate::{
    generation_spec::GenerationSpec,
    keyring::Keyring,
    known_signatures::KnownSignatures,
    limits::Limits,
    metric_definitions as metric,
    producer::produce_rows,
    release_log::ReleaseLog,
    restore::restore,
    shard::row::Window,
    shard::{Phase, Shard},
    token_verifier::TokenVerifier,
};

mod status;
mod taken;

pub use status::Registration;
use taken::log_taken;
pub use taken::log_unreadable;

/// Job, shard, and the epoch or the number of a preparation: a worker may hold a shard of one layout beside the shard
/// of that number of the next.
type Key = (JobId, u32, u64);

fn key(grant: &LeaseGrant) -> Key {
    (grant.job.clone(), grant.shard, grant.epoch)
}

/// The shards, in order, so that what is done to all of them is done in the same order in every run.
type Shards = BTreeMap<Key, Arc<Shard>>;

struct LeaseTable {
    shards: Shards,
    /// Shards that are prepared for a later lease; nothing of them is served.
    standbys: Shards,
    verifier: Option<TokenVerifier>,
    /// Without a heartbeat until then, nothing is served: the shards may have another owner.
    valid_until: Instant,
}

/// Signatures that prove keys, by challenge and job.
type SignedProofs = HashMap<([u8; 32], JobId), [u8; 64]>;

pub struct Leases {
    table: Mutex<LeaseTable>,
    keyring: Keyring,
    /// The proofs of keys that were signed.
    proofs: Mutex<SignedProofs>,
    /// The release log on this worker's own disk.
    pub release_log: Arc<ReleaseLog>,
    pub limits: Arc<Limits>,
    /// The signatures that were checked before.
    pub known_signatures: Arc<KnownSignatures>,
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Leases({} shards)", self.table().shards.len())
    }
}

/// A source of plans: the coordinator.
#[async_trait::async_trait]
pub trait PlanSource: Send + Sync + 'static {
    async fn plan(&self, job: &JobId) -> Result<String>;
}

impl Leases {
    pub fn new(keyring: Keyring, release_log: Arc<ReleaseLog>, limits: Limits) -> Arc<Self> {
        let shards = BTreeMap::new();
        let standbys = BTreeMap::new();
        let table = LeaseTable { shards, standbys, verifier: None, valid_until: Instant::now() };
        Arc::new(Self {
            table: Mutex::new(table),
            keyring,
            release_log,
            limits: Arc::new(limits),
            known_signatures: Arc::default(),
            proofs: Mutex::default(),
        })
    }

    fn table(&self) -> MutexGuard<'_, LeaseTable> {
        self.table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Applies the coordinator's grants: keeps what is still granted, drops the rest, starts what is new. Returns whether a
    /// standby is served from now on, a report that the coordinator waits for in the next heartbeat.
    pub fn apply(
        self: &Arc<Self>,
        granted: GrantedLeases,
        verifier: TokenVerifier,
        ttl: Duration,
        asked: Instant,
        plans: &Arc<dyn PlanSource>,
    ) -> bool {
        let mut table = self.table();
        table.verifier = Some(verifier);
        table.valid_until = asked + ttl;
        let mut shards = std::mem::take(&mut table.shards);
        let mut standbys = std::mem::take(&mut table.standbys);
        let stands: Vec<_> = granted.standbys.iter().map(|grant| (key(grant), grant.next_row)).collect();
        // What stays as it is comes first: nothing else may take its state over.
        let new_leases = keep_same(&mut shards, &mut table.shards, granted.leases);
        let new_standbys = keep_same(&mut standbys, &mut table.standbys, granted.standbys);
        log_taken(&new_leases);
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
            table.shards.insert(key, shard);
        }
        for grant in new_standbys {
            let key = key(&grant);
            let shard = adopted(&mut standbys, &grant).unwrap_or_else(|| self.begin(grant, plans));
            table.standbys.insert(key, shard);
        }
        for (key, next_row) in stands {
            table.standbys.get(&key).inspect(|shard| shard.follow(next_row));
        }
        metrics::counter!(metric::LEASES_LOST).increment(shards.len() as u64);
        shards.values().chain(standbys.values()).for_each(|shard| shard.cancelled.cancel());
        self.limits.share_among(table.shards.len() + table.standbys.len());
        self.keyring.keep(|job| has_of(&table.shards, job) || has_of(&table.standbys, job));
        is_taken_over
    }

    fn begin(self: &Arc<Self>, grant: LeaseGrant, plans: &Arc<dyn PlanSource>) -> Arc<Shard> {
        let shard = Shard::new(grant);
        spawn(self.clone().start(shard.clone(), plans.clone()));
        shard
    }

    /// Restores the shard, then generates its rows until the lease is lost.
    async fn start(self: Arc<Self>, shard: Arc<Shard>, plans: Arc<dyn PlanSource>) {
        let grant = shard.grant();
        tracing::debug!(job = %grant.job, shard = grant.shard, range = %grant.range, epoch = grant.epoch, "shard begun");
        let restored = tokio::select! {
            biased;
            restored = self.prepare(&shard, &*plans) => restored,
            () = shard.cancelled.cancelled() => return,
        };
        match restored {
            Ok((spec, generator, window)) => {
                let history_bytes = generator.history_bytes() as u64;
                *shard.generator.lock().await = Some(generator);
                shard.ready(spec, window, history_bytes);
                produce_rows(shard, self.limits.clone()).await;
            }
            Err(error) => {
                tracing::warn!(job = %grant.job, shard = grant.shard, %error, "the state of a lease can't be restored");
                shard.fail(error);
            }
        }
    }

    async fn prepare(
        &self,
        shard: &Shard,
        plans: &dyn PlanSource,
    ) -> Result<(GenerationSpec, RowGenerator, Window)> {
        let grant = shard.grant();
        let key = self.keyring.key(&grant.job)?;
        let text = plans.plan(&grant.job).await?;
        let spec = self.spec(text, key, grant.clone()).await?;
        let (generator, window) = restore(grant, &spec, &self.limits).await?;
        self.limits.row_check.ensure_sound()?;
        Ok((spec, generator, window))
    }

    /// Reads the plan on the pool: it may be megabytes of text, whose matrix takes seconds to check.
    async fn spec(&self, plan: String, key: JobKey, grant: LeaseGrant) -> Result<GenerationSpec> {
        let backend = self.limits.backend;
        let limit_bytes = self.limits.history_bytes;
        let read = move || {
            let plan = Plan::from_toml_str(&plan).map_err(ServiceError::internal)?;
            let spec = GenerationSpec::for_grant(&plan, &key, &grant)?;
            spec.with_backend(backend, History::Auto { limit_bytes }).map_err(ServiceError::internal)
        };
        self.limits.pool.run(read).await.map_err(ServiceError::internal)?
    }

    /// Returns the shard and the verifier of its tokens, while the lease is valid.
    pub fn shard(&self, job: &JobId, shard: u32, epoch: u64) -> Result<(Arc<Shard>, TokenVerifier)> {
        self.limits.row_check.ensure_sound()?;
        let table = self.table();
        let not_owner = || ServiceError::NotOwner { job: job.to_string(), shard };
        // Under the epoch presented, else the newest.
        let all = (job.clone(), shard, 0)..=(job.clone(), shard, u64::MAX);
        let presented = table.shards.get(&(job.clone(), shard, epoch));
        let newest = || table.shards.range(all).next_back().map(|(_, shard)| shard);
        let found = presented.or_else(newest).ok_or_else(not_owner)?;
        if Instant::now() >= table.valid_until {
            return Err(ServiceError::Unavailable {
                what: "the worker's lease (no word from the coordinator)".into(),
            });
        }
        if found.epoch() != epoch {
            let presented = epoch;
            let current = found.epoch();
            return Err(ServiceError::Fenced { job: job.to_string(), shard, presented, current });
        }
        let verifier = table.verifier.clone().ok_or_else(not_owner)?;
        Ok((found.clone(), verifier))
    }

    /// Returns the verifier of what the coordinator signed.
    pub fn verifier(&self) -> Result<TokenVerifier> {
        let unknown =
            || ServiceError::Unavailable { what: "the coordinator's key (no word from it yet)".into() };
        self.table().verifier.clone().ok_or_else(unknown)
    }

    /// Returns the error for a request for a branch that the job has left; `None` where it has not, as far as is known here.
    pub fn superseded(&self, job: &JobId, branch: u64) -> Option<ServiceError> {
        let table = self.table();
        let grant = table.shards.values().find(|shard| shard.job() == job).map(|shard| shard.grant())?;
        let current = grant.branch();
        let from_row = grant.lineage.from_row();
        let job = job.to_string();
        (branch < current).then_some(ServiceError::BranchSuperseded { job, branch, current, from_row })
    }

    /// Returns whether the lease is valid.
    pub fn valid(&self) -> bool {
        Instant::now() < self.table().valid_until
    }

    /// Drops all leases and standbys.
    pub fn clear(&self) {
        let mut table = self.table();
        let shards = std::mem::take(&mut table.shards);
        let standbys = std::mem::take(&mut table.standbys);
        shards.values().chain(standbys.values()).for_each(|shard| shard.cancelled.cancel());
        self.limits.share_among(0);
        self.keyring.keep(|_| false);
    }

    /// Returns whether there are no leases.
    pub fn is_empty(&self) -> bool {
        self.table().shards.is_empty()
    }

    /// Returns whether there are neither leases nor standbys.
    pub fn is_idle(&self) -> bool {
        let table = self.table();
        table.shards.is_empty() && table.standbys.is_empty()
    }
}

fn has_of(shards: &Shards, job: &JobId) -> bool {
    shards.range((job.clone(), 0, 0)..=(job.clone(), u32::MAX, u64::MAX)).next().is_some()
}

/// Moves to `kept` the shards that are granted unchanged, and returns the other grants.
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

/// Takes a shard out of `had` whose state serves the grant too.
fn adopted(had: &mut Shards, grant: &LeaseGrant) -> Option<Arc<Shard>> {
    let of_shard = (grant.job.clone(), grant.shard, 0)..=(grant.job.clone(), grant.shard, u64::MAX);
    let key = had.range(of_shard).find(|(_, shard)| shard.adopt(grant)).map(|(key, _)| key.clone())?;
    had.remove(&key)
}
