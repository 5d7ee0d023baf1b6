//! The strategies a plan can name, with their parameters as written in `[mechanism]`.

use strategy::MechanismKind;

/// A matrix C that correlates the noise C⁻¹Z. All numbers are `f64` and dimensionless; n = `iterations`.
#[derive(Clone, Debug, PartialEq)]
pub enum Mechanism {
    /// C = I: independent noise.
    Identity,
    /// Binary tree with Honaker's estimate.
    Tree {
        /// Rounds at which a fresh tree starts, increasing, in 1..n.
        restarts: Vec<u64>,
        /// True where the tree before a restart is filled with virtual steps, to a power of two.
        completion: bool,
    },
    /// Buffered linear Toeplitz: c_0 = 1, c_i = Σ_j ω_j θ_j^{i−1}.
    Blt {
        /// Decays θ of the buffers, in (0, 1].
        theta: Vec<f64>,
        /// Output weights ω of the buffers, above 0, as many as `theta`.
        omega: Vec<f64>,
    },
    /// A banded Toeplitz C.
    BandToeplitz {
        /// The first column of C, c_0..c_{p−1}.
        coefficients: Vec<f64>,
        /// True where every column is divided by its norm, the short columns near n by their own.
        column_normalised: bool,
    },
    /// A banded C with free columns.
    BandMf {
        /// n columns of p numbers, `columns[j][i]` = C[j+i, j]; entries that would lie beyond row n−1 must be 0.
        columns: Vec<Vec<f64>>,
    },
    /// The first coefficients of (1−x)^{−1/2} as the first column of C.
    BandSqrt {
        /// Number of coefficients.
        bands: u64,
    },
    /// A banded Toeplitz C⁻¹.
    BandInverse {
        /// The first column of C⁻¹, s_0..s_{p−1}.
        coefficients: Vec<f64>,
    },
    /// The first coefficients of (1−x)^{1/2} as the first column of C⁻¹.
    BandInverseSqrt {
        /// Number of coefficients.
        bands: u64,
    },
    /// C⁻¹ with the first column (1, −λ).
    LambdaCgd {
        /// λ in [0, 1).
        lambda: f64,
    },
    /// Any lower triangular C.
    Dense {
        /// Rows of the lower triangle: row t holds C[t, 0..=t].
        matrix: Vec<Vec<f64>>,
    },
    /// A BLT or a banded Toeplitz matrix whose columns are scaled: C = T·diag(s). Row t of the noise is that of T divided by
    /// s_t.
    Scaled {
        /// T, [`Mechanism::Blt`] or [`Mechanism::BandToeplitz`].
        base: Box<Mechanism>,
        /// The scales, above 0, which never rise; the last one is for all rounds that are left.
        column_scales: Vec<f64>,
        /// The number of rounds of each scale.
        rounds_per_scale: u64,
    },
}

impl Mechanism {
    /// Every name, in the order of the guide.
    pub const NAMES: [&'static str; 10] = MechanismKind::NAMES;

    /// Returns which of the mechanisms this is.
    pub fn kind(&self) -> MechanismKind {
        match self {
            Self::Identity => MechanismKind::Identity,
            Self::Tree { .. } => MechanismKind::Tree,
            Self::Blt { .. } => MechanismKind::Blt,
            Self::BandToeplitz { .. } => MechanismKind::BandToeplitz,
            Self::BandMf { .. } => MechanismKind::BandMf,
            Self::BandSqrt { .. } => MechanismKind::BandSqrt,
            Self::BandInverse { .. } => MechanismKind::BandInverse,
            Self::BandInverseSqrt { .. } => MechanismKind::BandInverseSqrt,
            Self::LambdaCgd { .. } => MechanismKind::LambdaCgd,
            Self::Dense { .. } => MechanismKind::Dense,
            Self::Scaled { base, .. } => base.kind(),
        }
    }

    /// Returns the name in plan.toml and on the command line.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}
