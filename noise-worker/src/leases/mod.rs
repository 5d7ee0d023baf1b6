//! The shards this worker holds, as the coordinator last said.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use node::runtime::spawn;
use noise_kernel::{Generator, History, JobKey};
use plan::Plan;
use proto::{JobId, Result, ServiceError, model::LeaseGrant};
use tokio::time::Instant;

use crate::{
    clerk::Clerk,
    keyring::Keyring,
    limits::Limits,
    make::make_rows,
    marks::Marks,
    metric_definitions as metric,
    recipe::Recipe,
    restore::restore,
    row::Window,
    shard::{Phase, Shard},
};

mod status;

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
        let shards = BTreeMap::new();
        let standbys = BTreeMap::new();
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
        let mut shards = std::mem::take(&mut held.shards);
        let mut standbys = std::mem::take(&mut held.standbys);
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
        self.limits.share_among(held.shards.len() + held.standbys.len());
        self.keyring.keep(|job| has_of(&held.shards, job) || has_of(&held.standbys, job));
        is_taken_over
    }

    fn begin(self: &Arc<Self>, grant: LeaseGrant, plans: &Arc<dyn Plans>) -> Arc<Shard> {
        let shard = Shard::new(grant);
        spawn(self.clone().start(shard.clone(), plans.clone()));
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
        let backend = self.limits.backend;
        let limit_bytes = self.limits.history_bytes;
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
            let presented = epoch;
            let current = found.epoch();
            return Err(ServiceError::Fenced { job: job.to_string(), shard, presented, current });
        }
        let clerk = held.clerk.clone().ok_or_else(not_owner)?;
        Ok((found.clone(), clerk))
    }

    /// What to answer a request for a branch that the job has left; `None` where it has not, as far as is known here.
    pub fn superseded(&self, job: &JobId, branch: u64) -> Option<ServiceError> {
        let held = self.held();
        let grant = held.shards.values().find(|shard| shard.job() == job).map(|shard| shard.grant())?;
        let current = grant.branch();
        let from_row = grant.lineage.from_row();
        let job = job.to_string();
        (branch < current).then_some(ServiceError::BranchSuperseded { job, branch, current, from_row })
    }

    /// False once the lease has run out.
    pub fn valid(&self) -> bool {
        Instant::now() < self.held().valid_until
    }

    pub fn clear(&self) {
        let mut held = self.held();
        let shards = std::mem::take(&mut held.shards);
        let standbys = std::mem::take(&mut held.standbys);
        shards.values().chain(standbys.values()).for_each(|shard| shard.cancelled.cancel());
        self.limits.share_among(0);
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
