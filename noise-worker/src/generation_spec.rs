//! The generation spec of a job: its plan and key, checked against a grant, as the kernel takes them.

use std::sync::Arc;

use checkpoint_store::CheckpointKey;
use noise_kernel::{
    Backend, Generator, History, JobKey, KernelError, NoiseContext, Oracle, Rounds, RowGenerator, RowKeys,
    Stream,
    grid::{GridGenerator, GridMechanism, GridOracle, GridRowError},
};
use plan::{Coefficients, Plan};
use proto::{ElementType, NoiseId, ServiceError, model::LeaseGrant};

/// Everything that decides a job's noise, except the range and the row. Cheap to clone.
#[derive(Clone)]
pub struct GenerationSpec {
    keys: RowKeys,
    rounds: Rounds,
    stream: Stream,
    rows: Rows,
    /// The number of rows of the job.
    pub iterations: u64,
    /// The number of values of state per coordinate, of four bytes each.
    pub slots: usize,
    /// The key that seals the job's checkpoints.
    pub checkpoint_key: CheckpointKey,
}

/// What rows are made with.
#[derive(Clone)]
enum Rows {
    Floats { coefficients: Arc<Coefficients>, scale: f32, history: History },
    Integers(Arc<GridMechanism>),
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
    /// [`ServiceError::Internal`] where the kernel can't run the plan.
    pub fn new(plan: &Plan, key: &JobKey, dimension: u64, noise_id: &NoiseId) -> Result<Self, ServiceError> {
        let rounds = match plan.chacha_rounds() {
            12 => Rounds::Twelve,
            _ => Rounds::Twenty,
        };
        let context = NoiseContext::new(plan, dimension, *noise_id.job_nonce.as_bytes());
        let keys = context.and_then(|context| key.row_keys(&context, &noise_id.lineage.nonces()));
        let keys = keys.map_err(ServiceError::internal)?;
        let rows = Rows::of(plan)?;
        let mut spec = Self {
            stream: rows.stream(&keys, rounds),
            keys,
            rounds,
            rows,
            iterations: plan.iterations(),
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
        if let Rows::Floats { history: chosen, .. } = &mut self.rows {
            *chosen = history;
        }
        Ok(self)
    }

    /// Returns the type of the rows: f32, or i32 of a plan on a grid.
    pub fn element(&self) -> ElementType {
        match self.rows {
            Rows::Floats { .. } => ElementType::F32,
            Rows::Integers(_) => ElementType::I32,
        }
    }

    /// Returns a generator of the coordinates of `range`, before row 0.
    pub fn generator(&self, range: std::ops::Range<u64>) -> Result<RowGenerator, KernelError> {
        let stream = self.stream.clone();
        Ok(match &self.rows {
            Rows::Floats { coefficients, scale, history } => {
                let generator = Generator::new(stream, coefficients.clone(), self.iterations, *scale, range)?;
                RowGenerator::Floats(generator.with_history(*history)?)
            }
            Rows::Integers(mechanism) => {
                RowGenerator::Integers(GridGenerator::new(stream, mechanism.clone(), range)?)
            }
        })
    }

    /// Returns a generator before row `next_row`, with the state of the pieces of `range` in order.
    pub fn restore(
        &self,
        range: std::ops::Range<u64>,
        next_row: u64,
        state: &[&[f32]],
    ) -> Result<RowGenerator, GridRowError> {
        let stream = self.stream.clone();
        Ok(match &self.rows {
            Rows::Floats { coefficients, scale, history } => {
                let coefficients = coefficients.clone();
                let n = self.iterations;
                let generator = Generator::restore(stream, coefficients, n, *scale, range, next_row, state)?;
                RowGenerator::Floats(generator.with_history(*history)?)
            }
            Rows::Integers(mechanism) => {
                let mechanism = mechanism.clone();
                RowGenerator::restore_integers(stream, mechanism, range, next_row, state)?
            }
        })
    }

    /// Returns the reference implementation of rows of floats, which recomputes any row slowly and independently.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for a plan on a grid: [`GenerationSpec::grid_oracle`] has its rows.
    pub fn oracle(&self) -> Result<Oracle, ServiceError> {
        let Rows::Floats { coefficients, scale, .. } = &self.rows else {
            return Err(ServiceError::invalid("plan", "on a grid", "one without [grid]"));
        };
        let oracle =
            Oracle::new(self.keys.clone(), self.rounds, coefficients.clone(), self.iterations, *scale);
        oracle.map_err(ServiceError::internal)
    }

    /// Returns the reference implementation of rows of integers, which recomputes any row slowly and independently.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] for a plan without a grid: [`GenerationSpec::oracle`] has its rows.
    pub fn grid_oracle(&self) -> Result<GridOracle, ServiceError> {
        match &self.rows {
            Rows::Integers(mechanism) => {
                Ok(GridOracle::new(self.keys.clone(), self.rounds, mechanism.clone()))
            }
            Rows::Floats { .. } => Err(ServiceError::invalid("plan", "without a grid", "one with [grid]")),
        }
    }
}

impl Rows {
    fn of(plan: &Plan) -> Result<Self, ServiceError> {
        if let Some(on_grid) = plan.on_grid() {
            let mechanism = GridMechanism::of_plan(on_grid.coefficients(), plan.iterations());
            return Ok(Self::Integers(Arc::new(mechanism.map_err(ServiceError::internal)?)));
        }
        let coefficients = Arc::new(plan.coefficients().map_err(ServiceError::internal)?);
        Ok(Self::Floats { coefficients, scale: plan.scale(), history: History::Redraw })
    }

    fn stream(&self, keys: &RowKeys, rounds: Rounds) -> Stream {
        match self {
            Self::Floats { coefficients, .. } => Stream::of_rows(keys, coefficients, rounds),
            Self::Integers(mechanism) => mechanism.stream(keys, rounds),
        }
    }
}
