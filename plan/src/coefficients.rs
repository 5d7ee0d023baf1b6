//! The coefficients a plan runs with: plain `f32` vectors, rounded once, here.
//!
//! Everything that makes rows takes its numbers from this one type, so that the worker, the oracle and the
//! command line can't disagree. Rows and coordinates are defined in `docs/noise-stream.md`.

/// The numbers that turn i.i.d. rows z_t into correlated rows ẑ_t of C⁻¹Z. Row numbers count from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Coefficients {
    /// ẑ_t = z_t.
    Identity,
    /// Buffered linear Toeplitz, BLT(θ, ω): ẑ_t = z_t − Σ_j ω_j S_j, then S_j ← θ_j S_j + ẑ_t, served as
    /// ẑ_t · output_scale(t).
    Blt {
        /// Decays θ of the buffers.
        theta: Vec<f32>,
        /// Output weights ω of the buffers.
        omega: Vec<f32>,
        /// `output_scale(t)` of every row, length n; empty where all are 1.
        output_scale: Vec<f32>,
    },
    /// A banded C.
    Banded(Banded),
    /// Rows of C⁻¹ themselves. There is no state: past z are drawn again.
    Inverse(Inverse),
    /// Honaker's bottom-up tree, served as residual noise.
    Tree(Tree),
}

/// ŷ_t = (z_t − Σ_{i=1}^{min(t, p−1)} lag(t, i) · ŷ_{t−i}) · inverse_diagonal(t), served as ŷ_t · output_scale(t).
///
/// A column-normalised Toeplitz `C[t, j]` = c_{t−j}/‖column j‖ runs as the plain Toeplitz of c with
/// `output_scale(t) = ‖column t‖`, so that history needs no coefficients per row. A Toeplitz C with
/// scaled columns runs with `output_scale(t)` = 1/s_t.
#[derive(Clone, Debug, PartialEq)]
pub struct Banded {
    /// Number of diagonals p ≥ 1 of C.
    pub bands: usize,
    /// The diagonals.
    pub rows: BandRows,
    /// `output_scale(t)` of every row, length n; empty where all are 1.
    pub output_scale: Vec<f32>,
}

/// The diagonals of a banded C.
#[derive(Clone, Debug, PartialEq)]
pub enum BandRows {
    /// The same numbers for every row.
    Toeplitz {
        /// `lags[i-1]` = c_i for i in 1..p.
        lags: Vec<f32>,
        /// 1/c_0.
        inverse_diagonal: f32,
    },
    /// Numbers for each row.
    PerRow {
        /// `lags[t*(p-1) + i-1]` = C[t, t−i], 0 where i > t.
        lags: Vec<f32>,
        /// `inverse_diagonal[t]` = 1/C[t, t].
        inverse_diagonal: Vec<f32>,
    },
}

/// Rows of C⁻¹: ẑ_t = Σ_j `C⁻¹[t, j]`·z_j.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// The same numbers for every row.
    Toeplitz {
        /// `coefficients[i]` = C⁻¹[t, t−i] for i in 0..p.
        coefficients: Vec<f32>,
    },
    /// Numbers for each row.
    Dense {
        /// Packed lower triangle: row t starts at t(t+1)/2 and holds C⁻¹[t, 0..=t].
        rows: Vec<f32>,
    },
}

/// One or more trees, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The trees in order; they cover all rows.
    pub segments: Vec<TreeSegment>,
}

/// Rows `start..start + rows` of one tree. With `virtual_steps` > 0 the tree is completed by that many steps
/// without data after its last row, so that the next tree starts from the estimate of a complete tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeSegment {
    /// The first row of the tree.
    pub start: u64,
    /// Rows of the tree, at least 1.
    pub rows: u64,
    /// Steps without data after the last row; 0 where the tree is not completed.
    pub virtual_steps: u64,
}

impl Tree {
    /// Returns the stream number of the first node of each segment: a tree of L leaves completes 2L − popcount(L)
    /// nodes.
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
