//! What happened, as data: events that can be kept, composed and accounted for.
//!
//! An event says what was run, never what it costs. [`Account::new`](crate::Account::new) works that out for one
//! neighbouring relation, or says why it can't.

pub use batches::Partition;
use serde::{Deserialize, Serialize};

/// Something that was released about the data. Noise multipliers are σ in units of the clip norm; sensitivities
/// are per unit clip norm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// One sum, all records taking part.
    Gaussian { noise_multiplier: f64 },
    /// One sum, each record taking part with the sampling probability, independently.
    PoissonSampledGaussian { noise_multiplier: f64, sampling_probability: f64 },
    /// The same, but of more than `batch_cap` sampled records a uniformly random `batch_cap` are kept. The number
    /// of records must be public; under adding or removing it is that of the larger data set.
    TruncatedPoissonGaussian {
        noise_multiplier: f64,
        sampling_probability: f64,
        dataset_size: u64,
        batch_cap: u64,
    },
    /// One sum that moves by sensitivity k with probability k.
    MixtureOfGaussians { noise_multiplier: f64, sensitivities: Vec<f64>, probabilities: Vec<f64> },
    /// One event over and over, each with fresh noise.
    SelfComposed { event: Box<Event>, count: u64 },
    /// Events, each with fresh noise.
    Composed { events: Vec<Event> },
    /// Tree aggregation over a whole run; participations i < j satisfy j − i ≥ `min_sep`.
    Tree {
        noise_multiplier: f64,
        iterations: u64,
        min_sep: u64,
        max_participations: u64,
        #[serde(default)]
        restarts: Vec<u64>,
        #[serde(default)]
        completion: bool,
    },
    /// Anything that is ρ-zCDP under zeroing out, adding and removing.
    ZCdp { rho: f64 },
    /// Correlated noise over a whole run.
    MatrixMechanism(MatrixMechanism),
}

/// A run of σζ·C⁻¹Z.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixMechanism {
    /// σ, in units of the clip norm, before C⁻¹.
    pub noise_multiplier: f64,
    /// n, the rounds of the whole run.
    pub iterations: u64,
    /// sens(C) under the participation below, per unit clip norm.
    pub sensitivity: f64,
    /// p, where C has p bands (c_ij = 0 for i − j ≥ p): what sampling is amplified by.
    #[serde(default)]
    pub bands: Option<u64>,
    /// max_j ‖C[:,j]‖.
    pub largest_column_norm: f64,
    /// Participations i < j of one user satisfy j − i ≥ this, in rounds.
    pub min_sep: u64,
    /// Rounds that one user takes part in, at most.
    pub max_participations: u64,
    /// How the records of a round were chosen.
    #[serde(default)]
    pub sampling: Sampling,
    /// Which plan ran, hexadecimal; accounts don't depend on it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan_digest: String,
}

/// How the records of a round were chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sampling {
    /// Anyhow, even adversarially, within the participation: nothing is amplified.
    #[default]
    AnyOrder,
    /// p groups independent of the data, group r Poisson-sampled in rounds ≡ r (mod p) with probability p·q.
    CyclicPoisson {
        /// q, the average over all rounds.
        sampling_probability: f64,
        partition: Partition,
    },
}

impl MatrixMechanism {
    /// A p-banded strategy with columns of norm 1 under cyclic Poisson sampling at average rate q.
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
            sampling: Sampling::CyclicPoisson { sampling_probability, partition },
            plan_digest: String::new(),
        }
    }
}

impl Event {
    /// The event `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self::SelfComposed { event: Box::new(self), count }
    }

    /// Its name, as it is written.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Gaussian { .. } => "gaussian",
            Self::PoissonSampledGaussian { .. } => "poisson-sampled-gaussian",
            Self::TruncatedPoissonGaussian { .. } => "truncated-poisson-gaussian",
            Self::MixtureOfGaussians { .. } => "mixture-of-gaussians",
            Self::SelfComposed { .. } => "self-composed",
            Self::Composed { .. } => "composed",
            Self::Tree { .. } => "tree",
            Self::ZCdp { .. } => "z-cdp",
            Self::MatrixMechanism(_) => "matrix-mechanism",
        }
    }
}
