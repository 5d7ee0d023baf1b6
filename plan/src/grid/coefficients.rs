//! The numbers that rows on the grid are made with.

use crate::Tree;

/// The numbers that turn normals z_t into rows n_t of integers. Every number is an exact binary64 and part of what is
/// accounted for: no reader may round it again. s is σζ/γ, the noise's deviation in steps of the grid.
#[derive(Clone, Debug, PartialEq)]
pub enum GridCoefficients {
    /// n_t = ⌊s·z_t + ½⌋.
    Identity {
        /// s.
        scale: f64,
    },
    /// Feedback of rounded rows through a banded C.
    Banded(GridBanded),
    /// Buffered linear Toeplitz: F = Σ_j ω_j·S_j, n_t = ⌊s·z_t − F + ½⌋, then S_j ← θ_j·S_j + n_t, in binary64 and in the
    /// order that the specification of the stream fixes.
    Blt {
        /// s.
        scale: f64,
        /// Decays θ of the buffers, as plan.toml has them.
        theta: Vec<f64>,
        /// Output weights ω of the buffers, as plan.toml has them.
        omega: Vec<f64>,
    },
    /// Rows of C⁻¹ themselves: n_t = ⌊Σ_j (s·C⁻¹\[t, j\])·z_j + ½⌋, the products exact. Past z are drawn again.
    Inverse {
        /// s.
        scale: f64,
        /// The rows of C⁻¹.
        rows: GridInverse,
    },
    /// A tree whose every node a is ⌊s·z + ½⌋.
    Tree {
        /// s.
        scale: f64,
        /// The trees, one after another.
        tree: Tree,
    },
}

/// n_t = ⌊s_t·z_t − Σ_{i=1}^{min(t, p−1)} lag(t, i)·n_{t−i} + ½⌋.
///
/// Lags are integers times 2^−q, q = `fraction_bits`, so small that binary64 sums of products with rows of 32 bits are exact
/// in any order, fused or not.
#[derive(Clone, Debug, PartialEq)]
pub struct GridBanded {
    /// Number of diagonals p ≥ 1 of C.
    pub bands: usize,
    /// q: every lag is an integer times 2^−q.
    pub fraction_bits: i32,
    /// The diagonals.
    pub rows: GridBandRows,
}

/// The diagonals of a banded C on the grid.
#[derive(Clone, Debug, PartialEq)]
pub enum GridBandRows {
    /// The same numbers for every row.
    Toeplitz {
        /// `lags[i-1]` for i in 1..p.
        lags: Vec<f64>,
        /// s_t of every row: s divided by C's diagonal.
        scale: f64,
    },
    /// Numbers for each row.
    PerRow {
        /// `lags[t*(p-1) + i-1]`, 0 where i > t.
        lags: Vec<f64>,
        /// `scales[t]` = s_t: s divided by C\[t, t\].
        scales: Vec<f64>,
    },
}

impl GridBanded {
    /// Returns the lags of row `t`, p − 1 of them: lag i belongs to row t − i.
    #[must_use]
    pub fn lags(&self, t: usize) -> &[f64] {
        match &self.rows {
            GridBandRows::Toeplitz { lags, .. } => lags,
            GridBandRows::PerRow { lags, .. } => &lags[t * (self.bands - 1)..(t + 1) * (self.bands - 1)],
        }
    }

    /// Returns s_t, the factor of the normals of row `t`.
    #[must_use]
    pub fn scale(&self, t: usize) -> f64 {
        match &self.rows {
            GridBandRows::Toeplitz { scale, .. } => *scale,
            GridBandRows::PerRow { scales, .. } => scales[t],
        }
    }
}

/// Rows of C⁻¹ on the grid.
#[derive(Clone, Debug, PartialEq)]
pub enum GridInverse {
    /// The same numbers for every row.
    Toeplitz {
        /// `coefficients[i]` = C⁻¹\[t, t−i\] for i in 0..p.
        coefficients: Vec<f64>,
    },
    /// Numbers for each row.
    Dense {
        /// Packed lower triangle: row t starts at t(t+1)/2 and holds C⁻¹\[t, 0..=t\].
        rows: Vec<f64>,
    },
}
