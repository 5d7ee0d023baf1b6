//! The families of strategies that can be searched.

use crate::kind::MechanismKind;

/// A mechanism to optimize, with the sizes that stay fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Independent noise; it has no parameters.
    Identity,
    /// One binary tree without restarts; it has no parameters.
    Tree,
    /// A BLT with this many buffers.
    Blt {
        /// Number of buffers, at most [`MAX_OPTIMIZED_BUFFERS`](super::MAX_OPTIMIZED_BUFFERS).
        buffers: usize,
    },
    /// A BLT with so many buffers that one more would gain less than 0.01 %.
    BltAuto {
        /// Most buffers to try.
        max_buffers: usize,
    },
    /// A BLT with this many buffers whose columns have a scale for each participation, at the same state. Its loss is never
    /// above that of [`Self::Blt`]: where scales gain nothing, as with one participation, that strategy is the result.
    BltByEpoch {
        /// Number of buffers, at most [`MAX_OPTIMIZED_BUFFERS`](super::MAX_OPTIMIZED_BUFFERS).
        buffers: usize,
    },
    /// The same with as many buffers as [`Self::BltAuto`] takes.
    BltAutoByEpoch {
        /// Most buffers to try.
        max_buffers: usize,
    },
    /// A banded Toeplitz C with free coefficients.
    BandToeplitz {
        /// Number of bands.
        bands: usize,
    },
    /// A banded Toeplitz matrix whose columns have a scale for each participation, at the same state. Its loss is never above
    /// that of [`Self::BandToeplitz`]: where scales gain nothing, as with one participation, that strategy is the result.
    BandToeplitzByEpoch {
        /// Number of bands.
        bands: usize,
    },
    /// Band-Toeplitz with every column of C scaled to norm one, for no more bands than min_sep.
    BandToeplitzNormalised {
        /// Number of bands.
        bands: usize,
    },
    /// The band-Toeplitz strategies (1−x)^{−α}: only α is free.
    BandPower {
        /// Number of bands.
        bands: usize,
    },
    /// A banded C with free columns, for no more bands than min_sep.
    BandMf {
        /// Number of bands.
        bands: usize,
    },
    /// The same with columns whose norms differ from one epoch of min_sep rounds to the next, at the same sensitivity.
    /// With several participations its loss is below the published optimum's; with one it is [`Self::BandMf`].
    BandMfByEpoch {
        /// Number of bands.
        bands: usize,
    },
    /// The banded square root of prefix sums; it has no parameters.
    BandSqrt {
        /// Number of bands.
        bands: usize,
    },
    /// A banded Toeplitz C⁻¹ with free coefficients.
    BandInverse {
        /// Number of bands.
        bands: usize,
    },
    /// The banded inverse square root of prefix sums; it has no parameters.
    BandInverseSqrt {
        /// Number of bands.
        bands: usize,
    },
    /// λ-CGD, over its one number.
    LambdaCgd,
    /// Any lower triangular C, where rounds of one user are at least min_sep apart.
    Dense,
    /// Any lower triangular C, where rounds of one user are a multiple of min_sep apart: the data have the same order
    /// in every epoch.
    DenseFixedEpoch,
}

impl Family {
    /// Returns the mechanism's name, as configurations spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// Returns the mechanism that this family's strategies are of.
    #[must_use]
    pub fn kind(self) -> MechanismKind {
        match self {
            Self::Identity => MechanismKind::Identity,
            Self::Tree => MechanismKind::Tree,
            Self::Blt { .. }
            | Self::BltAuto { .. }
            | Self::BltByEpoch { .. }
            | Self::BltAutoByEpoch { .. } => MechanismKind::Blt,
            Self::BandToeplitz { .. }
            | Self::BandToeplitzByEpoch { .. }
            | Self::BandToeplitzNormalised { .. }
            | Self::BandPower { .. } => MechanismKind::BandToeplitz,
            Self::BandMf { .. } | Self::BandMfByEpoch { .. } => MechanismKind::BandMf,
            Self::BandSqrt { .. } => MechanismKind::BandSqrt,
            Self::BandInverse { .. } => MechanismKind::BandInverse,
            Self::BandInverseSqrt { .. } => MechanismKind::BandInverseSqrt,
            Self::LambdaCgd => MechanismKind::LambdaCgd,
            Self::Dense | Self::DenseFixedEpoch => MechanismKind::Dense,
        }
    }

    /// Returns the number of bands or buffers; `None` where there is none, or where the search chooses it.
    #[must_use]
    pub fn size(self) -> Option<usize> {
        match self {
            Self::Blt { buffers } | Self::BltByEpoch { buffers } => Some(buffers),
            Self::BandToeplitz { bands }
            | Self::BandToeplitzByEpoch { bands }
            | Self::BandToeplitzNormalised { bands }
            | Self::BandPower { bands }
            | Self::BandMf { bands }
            | Self::BandMfByEpoch { bands }
            | Self::BandSqrt { bands }
            | Self::BandInverse { bands }
            | Self::BandInverseSqrt { bands } => Some(bands),
            Self::Identity
            | Self::Tree
            | Self::BltAuto { .. }
            | Self::BltAutoByEpoch { .. }
            | Self::LambdaCgd
            | Self::Dense
            | Self::DenseFixedEpoch => None,
        }
    }
}
