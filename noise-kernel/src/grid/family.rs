//! The forms of mechanisms whose rows are whole numbers: coefficients in binary64 and the deviation of every row.

use plan::Tree;

/// The form of a mechanism on the grid, with a unit diagonal where C is fed back. Its rows are
/// n_t = ⌊s_t·z_t − F + ½⌋ of real numbers, F from the rows before (docs/grid-stream.md, section 4).
#[derive(Clone, Debug, PartialEq)]
pub enum GridFamily {
    /// F = 0.
    Identity,
    /// F = Σ_j ω_j S_j in binary64, then S_j ← θ_j S_j + n_t.
    Blt {
        /// Decays θ of the buffers, from −1 to 1.
        theta: Vec<f64>,
        /// Output weights ω of the buffers.
        omega: Vec<f64>,
    },
    /// F = Σ_i C[t, t−i]·n_{t−i}, exact: a banded C, or a whole one with as many bands as rows.
    Banded(GridBanded),
    /// n_t = ⌊Σ_i s_t·C⁻¹[t, t−i]·z_{t−i} + ½⌋.
    Inverse(GridInverse),
    /// Honaker's bottom-up tree over rounded nodes, served as residual noise.
    Tree(Tree),
}

/// A banded C with a unit diagonal. Its coefficients are multiples of 2^−q with q = min(52, 22 − ⌈log₂ max_t Σ|C[t, j]|⌉), so that
/// sums of products with rows are exact in binary64.
#[derive(Clone, Debug, PartialEq)]
pub struct GridBanded {
    /// Number of diagonals p ≥ 1, with the main one.
    pub bands: usize,
    /// The diagonals below the main one.
    pub rows: GridBandRows,
}

/// The diagonals of a banded C.
#[derive(Clone, Debug, PartialEq)]
pub enum GridBandRows {
    /// `lags[i−1]` = C[t, t−i] for i in 1..p, the same for every row.
    Toeplitz(Vec<f64>),
    /// `lags[t·(p−1) + i−1]` = C[t, t−i], 0 where i > t.
    PerRow(Vec<f64>),
}

/// Rows of C⁻¹.
#[derive(Clone, Debug, PartialEq)]
pub enum GridInverse {
    /// `coefficients[i]` = C⁻¹[t, t−i] for i in 0..p, the same for every row.
    Toeplitz(Vec<f64>),
    /// Packed lower triangle: row t begins at t(t+1)/2 and holds C⁻¹[t, 0..=t].
    Dense(Vec<f64>),
}

/// The deviation s_t of the Gaussian of every row, in steps of the grid: 1 to 2³¹/13.
#[derive(Clone, Debug, PartialEq)]
pub enum GridDeviations {
    /// The same for all rows, the only kind for trees.
    Every(f64),
    /// One for each row.
    PerRow(Vec<f64>),
}

impl GridBanded {
    /// C[row, row − back] for back from 1 on, as far as the band reaches and rows go.
    pub(crate) fn lags(&self, row: u64) -> &[f64] {
        let back = self.bands - 1;
        let all = match &self.rows {
            GridBandRows::Toeplitz(lags) => &lags[..],
            GridBandRows::PerRow(lags) => &lags[row as usize * back..][..back],
        };
        &all[..back.min(usize::try_from(row).unwrap_or(usize::MAX))]
    }
}

impl GridInverse {
    /// The first source of a row.
    pub(crate) fn oldest(&self, row: u64) -> u64 {
        match self {
            GridInverse::Toeplitz(coefficients) => (row + 1).saturating_sub(coefficients.len() as u64),
            GridInverse::Dense(_) => 0,
        }
    }

    /// C⁻¹[row, source] for a source from the oldest to the row itself.
    pub(crate) fn at(&self, row: u64, source: u64) -> f64 {
        match self {
            GridInverse::Toeplitz(coefficients) => coefficients[(row - source) as usize],
            GridInverse::Dense(rows) => rows[(row * (row + 1) / 2 + source) as usize],
        }
    }
}
