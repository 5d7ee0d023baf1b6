//! The strategies a plan can name, with their parameters as written in `[mechanism]`.

use strategy::MechanismKind;

/// Which matrix C correlates the noise C⁻¹Z. All numbers are `f64` and dimensionless; n = `iterations`.
#[derive(Clone, Debug, PartialEq)]
pub enum Mechanism {
    /// C = I: independent noise.
    Identity,
    /// Binary tree with Honaker's estimate; a fresh tree starts at each round of `restarts` (increasing, in
    /// 1..n). `completion` fills the tree before a restart with virtual steps, to a power of two.
    Tree { restarts: Vec<u64>, completion: bool },
    /// Buffered linear Toeplitz: c_0 = 1, c_i = Σ_j ω_j θ_j^{i−1}; θ in (0, 1], ω > 0, the same length.
    Blt { theta: Vec<f64>, omega: Vec<f64> },
    /// `coefficients` c_0..c_{p−1} are the first column of C. `column_normalised` divides every column by its
    /// norm, the short columns near n by their own.
    BandToeplitz { coefficients: Vec<f64>, column_normalised: bool },
    /// n columns of p numbers, `columns[j][i]` = C[j+i, j]; what would lie beyond row n−1 must be 0.
    BandMf { columns: Vec<Vec<f64>> },
    /// First `bands` coefficients of (1−x)^{−1/2} as the first column of C.
    BandSqrt { bands: u64 },
    /// `coefficients` s_0..s_{p−1} are the first column of C⁻¹.
    BandInverse { coefficients: Vec<f64> },
    /// First `bands` coefficients of (1−x)^{1/2} as the first column of C⁻¹.
    BandInverseSqrt { bands: u64 },
    /// C⁻¹ has the first column (1, −λ); λ in [0, 1).
    LambdaCgd { lambda: f64 },
    /// Rows of C, its lower triangle alone: row t holds C[t, 0..=t].
    Dense { matrix: Vec<Vec<f64>> },
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
        }
    }

    /// Returns the name in plan.toml and on the command line.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}
