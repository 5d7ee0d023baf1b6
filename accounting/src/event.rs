//! Events: what ran, as data that can be stored, composed and accounted for.
//!
//! An event describes a mechanism, never its cost. [`Account::new`](crate::Account::new) computes the cost under one
//! neighbouring relation, or refuses the event with a reason.
//!
//! # Contract
//!
//! Events are written to files, logs and reports, and a guarantee may be recomputed from one years later. Therefore
//!
//! * a variant or a field is never removed, and neither is renamed in JSON;
//! * the meaning of a variant or a field never changes: a mechanism with another meaning is a new variant;
//! * a new field has a default under which every event written before it keeps its meaning;
//! * an account may become tighter, or refuse an event that it used to accept, but must never fall below the true cost of
//!   the mechanism that the event describes.
//!
//! Unknown variants and fields are refused when an event is read: an account of a part of an event is no account.

pub use batches::Partition;
use serde::{Deserialize, Serialize};

/// A release of something about the data. Noise multipliers are σ in units of the clip norm; sensitivities are per unit
/// clip norm. The module's contract says what may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// One noisy sum in which every record takes part.
    Gaussian {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
    },
    /// One noisy sum in which each record takes part with the sampling probability, independently.
    PoissonSampledGaussian {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
        /// q, above 0 and at most 1.
        sampling_probability: f64,
    },
    /// One Poisson-sampled noisy sum with a cap: of more than `batch_cap` sampled records a uniformly random
    /// `batch_cap` are kept. The number of records must be public; under adding or removing it is that of either data
    /// set.
    TruncatedPoissonGaussian {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
        /// q, above 0 and at most 1.
        sampling_probability: f64,
        /// The public number of records.
        dataset_size: u64,
        /// The most records of a batch.
        batch_cap: u64,
    },
    /// One noisy sum that a record moves by the k-th sensitivity with the k-th probability.
    MixtureOfGaussians {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
        /// At most 4,096 sensitivities per unit clip norm, zero or above.
        sensitivities: Vec<f64>,
        /// One probability for each sensitivity; they sum to 1.
        probabilities: Vec<f64>,
    },
    /// One epoch of random allocation: each record joins `participations` of `batches_per_epoch` noisy sums, any set of
    /// them being equally likely, drawn by each record on its own and anew in every epoch.
    RandomAllocation {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
        /// t, the batches of an epoch.
        batches_per_epoch: u64,
        /// k, the batches that a record joins.
        participations: u64,
    },
    /// Any mechanism that is (ε, δ)-DP under zeroing out, adding and removing.
    ApproximateDp {
        /// ε, zero or above.
        epsilon: f64,
        /// δ, zero or above and below 1.
        delta: f64,
    },
    /// Any mechanism that is ε-DP under zeroing out, adding and removing.
    PureDp {
        /// ε, zero or above.
        epsilon: f64,
    },
    /// One sum that a record moves by at most 1, with Laplace noise.
    Laplace {
        /// The scale b of the density e^{−|x|/b}/2b, per unit sensitivity.
        noise_multiplier: f64,
    },
    /// One sum of integers with noise of the probabilities ∝ e^{−a|x|}.
    DiscreteLaplace {
        /// a, above 0.
        noise_parameter: f64,
        /// The most that a record moves the sum by, an integer.
        sensitivity: u64,
    },
    /// One sum of integers with noise of the probabilities ∝ e^{−x²/2σ²}.
    DiscreteGaussian {
        /// σ in units of the integers, at most 10⁴.
        standard_deviation: f64,
        /// The most that a record moves the sum by, an integer.
        sensitivity: u64,
    },
    /// One choice by the exponential mechanism, or any mechanism whose losses lie within a range of width ε.
    ExponentialMechanism {
        /// ε, zero or above.
        epsilon: f64,
    },
    /// One noisy sum over a batch of a fixed size, drawn without replacement from a public number of records.
    WithoutReplacementGaussian {
        /// σ, in units of the clip norm.
        noise_multiplier: f64,
        /// The public number of records.
        dataset_size: u64,
        /// The records of a batch.
        batch_size: u64,
    },
    /// The best of a random number of runs of one event, by a score that the event released; the other runs stay secret, and so
    /// does their number. Where a run has a failure probability τ, the selection has `mean`·τ.
    RepeatAndSelect {
        /// One run.
        event: Box<Event>,
        /// The mean number of runs, 1 or more (for a Poisson number, above 0).
        mean: f64,
        /// η of a truncated negative binomial number of runs, zero or above: 1 is geometric, 0 logarithmic. Without it the
        /// number is Poisson.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shape: Option<f64>,
    },
    /// One event repeated, each time with fresh noise.
    SelfComposed {
        /// The event that is repeated.
        event: Box<Event>,
        /// The number of repetitions.
        count: u64,
    },
    /// Several events, each with fresh noise.
    Composed {
        /// The events; their order does not matter.
        events: Vec<Event>,
    },
    /// Tree aggregation over a whole run; participations i < j satisfy j − i ≥ `min_sep`.
    Tree {
        /// σ of each node, in units of the clip norm.
        noise_multiplier: f64,
        /// n, the rounds of the run.
        iterations: u64,
        /// The least distance of two participations of one user, in rounds.
        min_sep: u64,
        /// The most rounds that one user takes part in.
        max_participations: u64,
        /// The rounds at which a new tree begins.
        #[serde(default)]
        restarts: Vec<u64>,
        /// True where a tree that ends early is completed to a power of two.
        #[serde(default)]
        completion: bool,
    },
    /// Any mechanism that is ρ-zCDP under zeroing out, adding and removing.
    ZCdp {
        /// ρ of zero-concentrated DP.
        rho: f64,
    },
    /// A whole run with correlated noise.
    MatrixMechanism(MatrixMechanism),
}

/// A whole run whose sums are released with the correlated noise σζ·C⁻¹Z.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixMechanism {
    /// σ, in units of the clip norm, before C⁻¹.
    pub noise_multiplier: f64,
    /// n, the rounds of the whole run.
    pub iterations: u64,
    /// sens(C) under the participation below, per unit clip norm.
    pub sensitivity: f64,
    /// p, where C has p bands: c_ij = 0 for i − j ≥ p. Cyclic Poisson sampling amplifies only strategies with bands.
    #[serde(default)]
    pub bands: Option<u64>,
    /// `max_j ‖C[:,j]‖`.
    pub largest_column_norm: f64,
    /// The least distance of two participations of one user, in rounds.
    pub min_sep: u64,
    /// The most rounds that one user takes part in.
    pub max_participations: u64,
    /// The way in which the records of each round were chosen.
    #[serde(default)]
    pub sampling: Sampling,
    /// τ, the probability with which the run leaves this mechanism, whichever the data: δ grows by τ(1 + e^ε).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failure_probability: f64,
    /// The digest of the plan that ran, hexadecimal, or empty. Accounts do not depend on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
}

/// The way in which the records of each round were chosen, as far as an event's account relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sampling {
    /// In any order, even an adversarial one, within the participation rule: nothing is amplified.
    #[default]
    AnyOrder,
    /// Cyclic Poisson sampling: p groups independent of the data, of which group r is Poisson-sampled in rounds
    /// ≡ r (mod p) with probability p·q.
    CyclicPoisson {
        /// q, the average over all rounds.
        sampling_probability: f64,
        /// The way in which records were put into groups.
        partition: Partition,
        /// The cap on batches, where there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cap: Option<BatchCap>,
    },
}

/// A cap on batches: of more sampled records a uniformly random `batch_cap` are kept. Who joins a full batch pushes another
/// one out, for which accounts charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchCap {
    /// The most records of a batch.
    pub batch_cap: u64,
    /// The public number of records, or of users where they are the unit.
    pub dataset_size: u64,
}

impl MatrixMechanism {
    /// Describes a run of a p-banded strategy, columns of norm 1, under cyclic Poisson sampling at average rate q, uncapped.
    #[must_use]
    pub fn cyclic_poisson(
        noise_multiplier: f64,
        sampling_probability: f64,
        bands: u64,
        iterations: u64,
        partition: Partition,
    ) -> Self {
        let max_participations = iterations.div_ceil(bands.max(1)).max(1);
        Self {
            noise_multiplier,
            iterations,
            sensitivity: (max_participations as f64).sqrt(),
            bands: Some(bands),
            largest_column_norm: 1.0,
            min_sep: bands.max(1),
            max_participations,
            sampling: Sampling::CyclicPoisson { sampling_probability, partition, cap: None },
            failure_probability: 0.0,
            plan_digest: String::new(),
        }
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Event {
    /// Returns the event repeated `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self::SelfComposed { event: Box::new(self), count }
    }

    /// Returns the kind of the event, as it is written in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gaussian { .. } => "gaussian",
            Self::PoissonSampledGaussian { .. } => "poisson-sampled-gaussian",
            Self::TruncatedPoissonGaussian { .. } => "truncated-poisson-gaussian",
            Self::MixtureOfGaussians { .. } => "mixture-of-gaussians",
            Self::ApproximateDp { .. } => "approximate-dp",
            Self::PureDp { .. } => "pure-dp",
            Self::Laplace { .. } => "laplace",
            Self::DiscreteLaplace { .. } => "discrete-laplace",
            Self::DiscreteGaussian { .. } => "discrete-gaussian",
            Self::ExponentialMechanism { .. } => "exponential-mechanism",
            Self::WithoutReplacementGaussian { .. } => "without-replacement-gaussian",
            Self::RepeatAndSelect { .. } => "repeat-and-select",
            Self::RandomAllocation { .. } => "random-allocation",
            Self::SelfComposed { .. } => "self-composed",
            Self::Composed { .. } => "composed",
            Self::Tree { .. } => "tree",
            Self::ZCdp { .. } => "z-cdp",
            Self::MatrixMechanism(_) => "matrix-mechanism",
        }
    }
}
