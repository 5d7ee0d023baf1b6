//! What a shard is made with: the job's plan and key, checked against the grant, as the kernel takes them.

use std::sync::Arc;

use ledger::CheckpointKey;
use noise_kernel::{Backend, Generator, History, JobKey, KernelError, Oracle, Rounds, RowKeys, Stream};
use plan::{Coefficients, Plan};
use proto::{JobId, Lineage, ServiceError, model::LeaseGrant};

/// Everything but the range and the row. Cheap to clone.
#[derive(Clone)]
pub struct Recipe {
    keys: RowKeys,
    rounds: Rounds,
    stream: Stream,
    coefficients: Arc<Coefficients>,
    pub iterations: u64,
    scale: f32,
    history: History,
    /// State floats for each coordinate.
    pub slots: usize,
    /// Seals what is stored of the job.
    pub checkpoint_key: CheckpointKey,
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recipe({} iterations, {} slots, [secret])", self.iterations, self.slots)
    }
}

impl Recipe {
    /// All rows from one branch's key.
    pub fn new(plan: &Plan, key: &JobKey, job: &JobId, branch: u64) -> Result<Self, ServiceError> {
        Self::of_lineage(plan, key, job, &Lineage::of_branch(branch))
    }

    pub fn of_lineage(
        plan: &Plan,
        key: &JobKey,
        job: &JobId,
        lineage: &Lineage,
    ) -> Result<Self, ServiceError> {
        let rounds = match plan.chacha_rounds() {
            12 => Rounds::Twelve,
            _ => Rounds::Twenty,
        };
        let keys = key.row_keys(job.as_str(), &lineage.pairs(), &plan.digest());
        let keys = keys.map_err(ServiceError::internal)?;
        let coefficients = Arc::new(plan.coefficients());
        let mut recipe = Self {
            stream: Stream::of_rows(&keys, &coefficients, rounds),
            keys,
            rounds,
            coefficients,
            iterations: plan.iterations(),
            scale: plan.scale(),
            history: History::Redraw,
            slots: 0,
            checkpoint_key: CheckpointKey::new(&key.checkpoint_key(job.as_str())),
        };
        // The kernel says how much state it keeps.
        recipe.slots = recipe.generator(0..1).map_err(ServiceError::internal)?.slots();
        Ok(recipe)
    }

    /// Refuses a plan or a key that is not the one the grant names.
    pub fn checked(plan: &Plan, key: &JobKey, grant: &LeaseGrant) -> Result<Self, ServiceError> {
        if plan.digest() != grant.plan_digest {
            let expected = hex::encode(grant.plan_digest);
            let actual = hex::encode(plan.digest());
            return Err(ServiceError::PlanDigestMismatch { expected, actual });
        }
        if key.commitment() != grant.key_commitment {
            let expected = hex::encode(grant.key_commitment);
            let actual = hex::encode(key.commitment());
            return Err(ServiceError::KeyMismatch { job: grant.job.to_string(), expected, actual });
        }
        Self::of_lineage(plan, key, &grant.job, &grant.lineage)
    }

    /// The same rows made in a chosen way. Error: an instruction set this processor lacks.
    pub fn made_by(mut self, backend: Backend, history: History) -> Result<Self, KernelError> {
        self.stream = self.stream.with_backend(backend)?;
        self.history = history;
        Ok(self)
    }

    pub fn generator(&self, range: std::ops::Range<u64>) -> Result<Generator, KernelError> {
        let stream = self.stream.clone();
        let coefficients = self.coefficients.clone();
        Generator::new(stream, coefficients, self.iterations, self.scale, range)?.with_history(self.history)
    }

    pub fn restore(
        &self,
        range: std::ops::Range<u64>,
        next_row: u64,
        state: &[&[f32]],
    ) -> Result<Generator, KernelError> {
        let stream = self.stream.clone();
        let coefficients = self.coefficients.clone();
        Generator::restore(stream, coefficients, self.iterations, self.scale, range, next_row, state)?
            .with_history(self.history)
    }

    /// What everything this recipe makes is checked against.
    pub fn oracle(&self) -> Result<Oracle, KernelError> {
        Oracle::new(self.keys.clone(), self.rounds, self.coefficients.clone(), self.iterations, self.scale)
    }
}
