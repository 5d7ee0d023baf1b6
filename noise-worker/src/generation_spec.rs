//! The generation spec of a job: its plan and key, checked against a grant, as the kernel takes them.

use std::sync::Arc;

use checkpoint_store::CheckpointKey;
use noise_kernel::{
    Backend, Generator, History, JobKey, KernelError, NoiseContext, Oracle, Rounds, RowKeys, Stream,
};
use plan::{Coefficients, Plan};
use proto::{NoiseId, ServiceError, model::LeaseGrant};

/// Everything that decides a job's noise, except the range and the row. Cheap to clone.
#[derive(Clone)]
pub struct GenerationSpec {
    keys: RowKeys,
    rounds: Rounds,
    stream: Stream,
    coefficients: Arc<Coefficients>,
    /// The number of rows of the job.
    pub iterations: u64,
    scale: f32,
    history: History,
    /// The number of `f32` of state per coordinate.
    pub slots: usize,
    /// The key that seals the job's checkpoints.
    pub checkpoint_key: CheckpointKey,
}

impl std::fmt::Debug for GenerationSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GenerationSpec({} iterations, {} slots, [secret])", self.iterations, self.slots)
    }
}

impl GenerationSpec {
    /// Builds the spec of the noise with this id, in a vector of `dimension` coordinates.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for a plan on a grid, whose rows are not `f32`; [`ServiceError::Internal`] where the
    /// kernel can't run the plan.
    pub fn new(plan: &Plan, key: &JobKey, dimension: u64, noise_id: &NoiseId) -> Result<Self, ServiceError> {
        let rounds = match plan.chacha_rounds() {
            12 => Rounds::Twelve,
            _ => Rounds::Twenty,
        };
        let context = NoiseContext::new(plan, dimension, *noise_id.job_nonce.as_bytes());
        let keys = context.and_then(|context| key.row_keys(&context, &noise_id.lineage.nonces()));
        let keys = keys.map_err(ServiceError::internal)?;
        let coefficients = plan.coefficients();
        let coefficients = Arc::new(
            coefficients.map_err(|error| ServiceError::invalid("plan", "on a grid", error.to_string()))?,
        );
        let mut spec = Self {
            stream: Stream::of_rows(&keys, &coefficients, rounds),
            keys,
            rounds,
            coefficients,
            iterations: plan.iterations(),
            scale: plan.scale(),
            history: History::Redraw,
            slots: 0,
            checkpoint_key: CheckpointKey::new(&key.checkpoint_key(noise_id.job_nonce.as_bytes())),
        };
        // The kernel decides how much state it keeps.
        spec.slots = spec.generator(0..1).map_err(ServiceError::internal)?.slots();
        Ok(spec)
    }

    /// Builds the spec of a grant. Fails where the plan, its layout or the key is not the one that the grant
    /// names.
    pub fn for_grant(plan: &Plan, key: &JobKey, grant: &LeaseGrant) -> Result<Self, ServiceError> {
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
        let context = NoiseContext::new(plan, grant.dimension, *grant.job_nonce.as_bytes());
        let layout_digest = context.map_err(ServiceError::internal)?.layout_digest;
        if layout_digest != grant.layout_digest {
            // The plan's digest doesn't cover its layout, and the noise depends on it.
            let expected = format!("{} of the layout", hex::encode(grant.layout_digest));
            let actual = format!("{} of the layout", hex::encode(layout_digest));
            return Err(ServiceError::PlanDigestMismatch { expected, actual });
        }
        Self::new(plan, key, grant.dimension, &grant.noise_id())
    }

    /// Chooses how the rows are generated; their bits are the same. Fails where this processor lacks the instruction set.
    pub fn with_backend(mut self, backend: Backend, history: History) -> Result<Self, KernelError> {
        self.stream = self.stream.with_backend(backend)?;
        self.history = history;
        Ok(self)
    }

    /// Returns a generator of the coordinates of `range`, before row 0.
    pub fn generator(&self, range: std::ops::Range<u64>) -> Result<Generator, KernelError> {
        let stream = self.stream.clone();
        let coefficients = self.coefficients.clone();
        Generator::new(stream, coefficients, self.iterations, self.scale, range)?.with_history(self.history)
    }

    /// Returns a generator before row `next_row`, with the state of the pieces of `range` in order.
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

    /// Returns the reference implementation, which recomputes any row slowly and independently.
    pub fn oracle(&self) -> Result<Oracle, KernelError> {
        Oracle::new(self.keys.clone(), self.rounds, self.coefficients.clone(), self.iterations, self.scale)
    }
}
