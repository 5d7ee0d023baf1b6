//! The coefficients a plan runs with: plain `f32` vectors, rounded once, here.
//!
//! Everything that makes rows takes its numbers from this one type, so that the worker, the oracle and the
//! command line can't disagree. Rows and coordinates are defined in `docs/noise-stream.md`.

/// What turns i.i.d. rows z_t into correlated rows ẑ_t of C⁻¹Z. Row numbers count from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Coefficients {
    /// ẑ_t = z_t.
    Identity,
    /// Buffered linear Toeplitz, papers' BLT(θ, ω): ẑ_t = z_t − Σ_j ω_j S_j, then S_j ← θ_j S_j + ẑ_t.
    Blt { theta: Vec<f32>, omega: Vec<f32> },
    /// C has `lags.len() + 1` diagonals.
    Banded(Banded),
    /// Rows of C⁻¹ given directly; past z is drawn again, there is no state.
    Inverse(Inverse),
    /// Honaker's bottom-up tree, served as residual noise.
    Tree(Tree),
}

/// ŷ_t = (z_t − Σ_{i=1}^{min(t, p−1)} lag(t, i) · ŷ_{t−i}) · inverse_diagonal(t), served as ŷ_t · output_scale(t).
///
/// A column-normalised Toeplitz C[t,j] = c_{t−j}/‖column j‖ runs as the plain Toeplitz of c with
/// `output_scale(t) = ‖column t‖`, so that history needs no coefficients per row.
#[derive(Clone, Debug, PartialEq)]
pub struct Banded {
    /// Number of diagonals p ≥ 1 of C.
    pub bands: usize,
    pub rows: BandRows,
    /// Length n, or empty where every row's scale is 1.
    pub output_scale: Vec<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BandRows {
    /// `lags[i-1]` = c_i for i in 1..p; the same for every row.
    Toeplitz { lags: Vec<f32>, inverse_diagonal: f32 },
    /// `lags[t*(p-1) + i-1]` = C[t, t−i] (0 where i > t), `inverse_diagonal[t]` = 1/C[t,t].
    PerRow { lags: Vec<f32>, inverse_diagonal: Vec<f32> },
}

/// ẑ_t = Σ_j C⁻¹[t,j] z_j.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// `coefficients[i]` = C⁻¹[t, t−i] for i in 0..p, the same for every row.
    Toeplitz { coefficients: Vec<f32> },
    /// Packed lower triangle: row t starts at t(t+1)/2 and holds C⁻¹[t, 0..=t].
    Dense { rows: Vec<f32> },
}

/// One or more trees, one after another: `segments[s]` starts at row `start` with a fresh tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub segments: Vec<TreeSegment>,
}

/// Rows `start..start + rows` of one tree. With `virtual_steps` > 0 the tree is completed by that many steps
/// without data after its last row, so that the next tree starts from the estimate of a complete tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeSegment {
    pub start: u64,
    pub rows: u64,
    pub virtual_steps: u64,
}

impl Tree {
    /// Stream number of the first node of each segment: a tree of L leaves completes 2L − popcount(L) nodes.
    pub fn first_nodes(&self) -> Vec<u64> {
        let mut next = 0;
        self.segments
            .iter()
            .map(|segment| {
                let first = next;
                let leaves = segment.rows + segment.virtual_steps;
                next += 2 * leaves - u64::from(leaves.count_ones());
                first
            })
            .collect()
    }
}
