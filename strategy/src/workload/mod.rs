//! Workloads A: the queries of the noisy gradients that are released, one in each round.
//!
//! Row t of A·(G + noise) is the model after round t (or what stands for it). Prefix sums are plain SGD;
//! heavy-ball momentum, weight decay and learning rates change A and with it the best C. Errors of a decoder
//! B = A·C⁻¹ are in the units of A's rows times σζ.

mod momentum;
mod streaming;

use std::sync::Arc;

use ndarray::Array2;

use crate::error::{Result, all_finite, invalid};
use crate::series::prefix_sums;

pub use momentum::{LearningRates, Momentum};
pub use streaming::{Rounds, StreamingOperator, materialise};

/// A lower triangular n×n matrix of queries.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Workload {
    /// All ones on and below the diagonal: sums of all gradients so far.
    #[default]
    Prefix,
    /// Heavy-ball momentum with weight decay and learning rates.
    Momentum(Momentum),
    /// Any Toeplitz matrix by its first column, zero beyond its end; the first number is not zero.
    Toeplitz(Arc<[f64]>),
    /// Any lower triangular matrix, for small n; shape (n, n).
    Dense(Arc<Array2<f64>>),
    /// A linear operator that turns each round's number into that round's result (McKenna 2024, App. D).
    Streaming(Arc<dyn StreamingOperator>),
}

/// Row i of D = A⁻¹ where D has at most two sub-diagonals: D[i, i], D[i, i−1], D[i, i−2].
pub(crate) type InverseRow = [f64; 3];

/// The rows of a banded D = A⁻¹.
#[derive(Debug, Clone)]
pub(crate) enum InverseBands {
    /// Prefix sums: (1, −1).
    Difference,
    Momentum(Momentum),
}

impl InverseBands {
    /// Row i of D; entries left of column 0 are zero.
    pub fn row(&self, i: usize) -> InverseRow {
        match self {
            Self::Difference => [1.0, if i > 0 { -1.0 } else { 0.0 }, 0.0],
            Self::Momentum(momentum) => momentum.inverse_row(i),
        }
    }

    /// Sub-diagonals of D: 1 for prefix sums, 2 for momentum.
    pub fn reach(&self) -> usize {
        match self {
            Self::Difference => 1,
            Self::Momentum(_) => 2,
        }
    }
}

impl Workload {
    /// Returns the workload's name, as the command line spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Momentum(_) => "momentum",
            Self::Toeplitz(_) => "toeplitz",
            Self::Dense(_) => "dense",
            Self::Streaming(_) => "streaming",
        }
    }

    /// Checks the workload for a run of `n` rounds.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] naming the number and what is allowed.
    pub fn check(&self, n: u64) -> Result<()> {
        match self {
            Self::Prefix | Self::Streaming(_) => Ok(()),
            Self::Momentum(momentum) => momentum.check(n),
            Self::Toeplitz(column) => check_column(column),
            Self::Dense(matrix) => check_matrix(matrix, n),
        }
    }

    /// The first column of a Toeplitz A for `n` rounds; `None` where A is not Toeplitz.
    pub(crate) fn column(&self, n: usize) -> Option<Vec<f64>> {
        match self {
            Self::Prefix => Some(vec![1.0; n]),
            Self::Momentum(momentum) => momentum.column(n),
            Self::Toeplitz(column) => {
                let mut column = column[..column.len().min(n)].to_vec();
                column.resize(n, 0.0);
                Some(column)
            }
            Self::Dense(_) | Self::Streaming(_) => None,
        }
    }

    /// 1−ρ of every pole where A's coefficients are those of 1/Π(1−ρx): one for prefix sums, and velocity's too
    /// for momentum at a constant rate.
    pub(crate) fn poles(&self) -> Option<Vec<f64>> {
        match self {
            Self::Prefix => Some(vec![0.0]),
            Self::Momentum(momentum) if momentum.is_toeplitz() => Some(momentum.poles()),
            _ => None,
        }
    }

    /// D = A⁻¹ where it has at most two sub-diagonals.
    pub(crate) fn inverse_bands(&self) -> Option<InverseBands> {
        match self {
            Self::Prefix => Some(InverseBands::Difference),
            Self::Momentum(momentum) => Some(InverseBands::Momentum(momentum.clone())),
            _ => None,
        }
    }

    /// Returns whether A is Toeplitz.
    #[must_use]
    pub fn is_toeplitz(&self) -> bool {
        match self {
            Self::Prefix | Self::Toeplitz(_) => true,
            Self::Momentum(momentum) => momentum.is_toeplitz(),
            Self::Dense(_) | Self::Streaming(_) => false,
        }
    }

    /// A as an operator that starts at round 0.
    pub(crate) fn rounds(&self) -> Box<dyn Rounds + '_> {
        match self {
            Self::Prefix => streaming::boxed(0.0, |sum, _, x| {
                *sum += x;
                *sum
            }),
            Self::Momentum(momentum) => Box::new(momentum.rounds()),
            Self::Toeplitz(column) => Box::new(streaming::Convolution::new(column)),
            Self::Dense(matrix) => Box::new(streaming::Product::new(matrix)),
            Self::Streaming(operator) => operator.start(),
        }
    }
}

/// The coefficients of A·C⁻¹ for Toeplitz A and C⁻¹ = LtToep(`inverse`), first column `column`. O(n·p) for the
/// shorter factor's p; prefix sums and momentum by their own recursions, O(n).
pub(crate) fn decode(workload: &Workload, inverse: &[f64]) -> Option<Vec<f64>> {
    match workload {
        Workload::Prefix => Some(prefix_sums(inverse)),
        _ if workload.is_toeplitz() => {
            let mut rounds = workload.rounds();
            Some(inverse.iter().map(|x| rounds.next(*x)).collect())
        }
        _ => None,
    }
}

fn check_column(column: &[f64]) -> Result<()> {
    all_finite("workload coefficient", column)?;
    match column.first() {
        None => Err(invalid("number of workload coefficients", 0, "1 or more")),
        Some(&lead) if lead == 0.0 => {
            Err(invalid("leading workload coefficient", lead, "any number but zero"))
        }
        Some(_) => Ok(()),
    }
}

fn check_matrix(matrix: &Array2<f64>, n: u64) -> Result<()> {
    let (rows, columns) = matrix.dim();
    if rows as u64 != n || columns as u64 != n {
        return Err(invalid("shape of the workload", format!("({rows}, {columns})"), format!("({n}, {n})")));
    }
    for ((i, j), value) in matrix.indexed_iter() {
        if !value.is_finite() || (j > i && *value != 0.0) {
            let found = format!("{value} at ({i}, {j})");
            return Err(invalid("workload entry", found, "finite, and zero above the diagonal"));
        }
    }
    Ok(())
}
