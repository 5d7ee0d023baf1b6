//! The families of strategies that can be searched.

use crate::kind::MechanismKind;

/// Which mechanism to optimize, with the sizes that stay fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    Identity,
    Tree,
    Blt {
        buffers: usize,
    },
    /// A BLT with as many buffers as pay: one more would gain less than 0.01 %.
    BltAuto {
        max_buffers: usize,
    },
    BandToeplitz {
        bands: usize,
    },
    /// Band-Toeplitz with every column of C scaled to norm one, for no more bands than min_sep.
    BandToeplitzNormalised {
        bands: usize,
    },
    /// The band-Toeplitz strategies (1−x)^{−α}: nothing but α is searched for.
    BandPower {
        bands: usize,
    },
    BandMf {
        bands: usize,
    },
    BandSqrt {
        bands: usize,
    },
    BandInverse {
        bands: usize,
    },
    BandInverseSqrt {
        bands: usize,
    },
    LambdaCgd,
    /// For rounds of one user at least min_sep apart.
    Dense,
    /// For rounds of one user a multiple of min_sep apart, as with a fixed order of the data in every epoch.
    DenseFixedEpoch,
}

impl Family {
    /// The mechanism's name, as configurations spell it.
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
            Self::Blt { .. } | Self::BltAuto { .. } => MechanismKind::Blt,
            Self::BandToeplitz { .. } | Self::BandToeplitzNormalised { .. } | Self::BandPower { .. } => {
                MechanismKind::BandToeplitz
            }
            Self::BandMf { .. } => MechanismKind::BandMf,
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
            Self::Blt { buffers } => Some(buffers),
            Self::BandToeplitz { bands }
            | Self::BandToeplitzNormalised { bands }
            | Self::BandPower { bands }
            | Self::BandMf { bands }
            | Self::BandSqrt { bands }
            | Self::BandInverse { bands }
            | Self::BandInverseSqrt { bands } => Some(bands),
            Self::Identity
            | Self::Tree
            | Self::BltAuto { .. }
            | Self::LambdaCgd
            | Self::Dense
            | Self::DenseFixedEpoch => None,
        }
    }
}
