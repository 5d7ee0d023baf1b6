//! The two ways of forming batches that are compared.

use strategy::Participation;

/// The way batches are formed, which the privacy of an entry rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// Any order in which participations of one user satisfy **j − i ≥ min_sep**; no amplification.
    MinSep(Participation),
    /// Records are split into `bands` groups independently of the data; round t samples group t mod bands, each
    /// record with probability bands·q.
    CyclicPoisson {
        /// Number of groups, which is the number of bands of C.
        bands: u64,
        /// q, the mean share of the data in a batch.
        sampling_probability: f64,
    },
}

impl Sampling {
    /// The rule whose sensitivity the noise is calibrated by: one participation where sampling is accounted apart.
    pub(crate) fn rule(self) -> Participation {
        match self {
            Self::MinSep(rule) => rule,
            Self::CyclicPoisson { .. } => Participation::single(),
        }
    }

    /// Returns the sampling in one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MinSep(_) => "min-sep",
            Self::CyclicPoisson { bands: 1, .. } => "poisson",
            Self::CyclicPoisson { .. } => "cyclic-poisson",
        }
    }
}
