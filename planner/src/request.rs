//! The run that a plan is needed for.

use strategy::{Objective, Participation, StrategyError, Workload};
use thiserror::Error;

/// The run to plan for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Rounds n.
    pub iterations: u64,
    /// The rounds one user may take part in where data come in order (**j − i ≥ min_sep**).
    pub participation: Participation,
    /// The mean share of the data in a batch, for cyclic Poisson sampling; `None` where batches can't be sampled.
    pub sampling_probability: Option<f64>,
    /// ε of the guarantee, above 0.
    pub epsilon: f64,
    /// δ of the guarantee, in (0, 1).
    pub delta: f64,
    /// The rows whose error counts.
    pub objective: Objective,
    /// The queries that are released.
    pub workload: Workload,
    /// Coordinates of the flattened parameter vector.
    pub dimension: u64,
    /// Workers that share the vector.
    pub workers: u64,
    /// Bytes of state that one worker may hold; `None` for no limit.
    pub memory_per_worker: Option<u64>,
    /// Whether the plan is to be on a grid, where a buffer of a BLT is binary64 and takes twice the state, and a little of δ is
    /// for the chance of leaving the mechanism.
    pub on_grid: bool,
}

/// The reason why nothing could be suggested.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlannerError {
    /// A number of the request is outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The number.
        what: &'static str,
        /// Its value.
        value: String,
        /// The values it may have.
        allowed: String,
    },
    /// A strategy can't be built or evaluated.
    #[error(transparent)]
    Strategy(#[from] StrategyError),
    /// A strategy has no plan.
    #[error(transparent)]
    Plan(#[from] plan::PlanError),
    /// The account of a mechanism failed.
    #[error(transparent)]
    Accounting(#[from] accounting::AccountingError),
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, PlannerError>;

pub(crate) fn invalid(
    what: &'static str,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> PlannerError {
    PlannerError::Invalid { what, value: value.to_string(), allowed: allowed.into() }
}

impl Request {
    /// Refuses numbers outside their range.
    ///
    /// # Errors
    /// [`PlannerError::Invalid`] naming the number and what is allowed.
    pub fn check(&self) -> Result<()> {
        let n = self.iterations;
        let Participation { min_sep, max_participations } = self.participation;
        if n == 0 {
            return Err(invalid("iterations", 0, "1 or more"));
        }
        if self.dimension == 0 {
            return Err(invalid("dimension", 0, "1 or more"));
        }
        if self.workers == 0 || self.workers > self.dimension {
            return Err(invalid("workers", self.workers, format!("1 to {} (dimension)", self.dimension)));
        }
        let last = (max_participations.max(1) - 1).saturating_mul(min_sep);
        if min_sep == 0 || max_participations == 0 || last >= n {
            let found = format!("{max_participations} at min-sep {min_sep}");
            let allowed = format!("(max-participations − 1)·min-sep below {n} (iterations), both at least 1");
            return Err(invalid("max-participations", found, allowed));
        }
        if let Some(q) = self.sampling_probability.filter(|q| !(*q > 0.0 && *q <= 1.0)) {
            return Err(invalid("sampling-probability", q, "above 0, at most 1"));
        }
        if !(self.epsilon > 0.0 && self.epsilon.is_finite()) {
            return Err(invalid("epsilon", self.epsilon, "finite and above zero"));
        }
        if !(self.delta > 0.0 && self.delta < 1.0) {
            return Err(invalid("delta", self.delta, "strictly between 0 and 1"));
        }
        self.objective.check(n)?;
        Ok(self.workload.check(n)?)
    }

    /// Returns the coordinates of the largest shard.
    #[must_use]
    pub fn shard(&self) -> u64 {
        self.dimension.div_ceil(self.workers)
    }
}
