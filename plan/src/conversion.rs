//! The way between a plan's mechanism and the matrix C of crate `strategy`, in `f64`, in both directions.

use ndarray::Array2;
use strategy::scaled::Base;
use strategy::{Banded, Blt, ColumnScales, Dense, Scaled, Strategy, StrategyError, Tree};

use crate::{Mechanism, PlanError};

/// The mechanisms whose columns a plan may scale.
pub(crate) const SCALED: &str = "scales where mechanism.name is blt or band-toeplitz";

/// The strategy of a mechanism that has been checked.
///
/// # Errors
/// [`PlanError::Field`] for a mechanism that `strategy` can't evaluate although a kernel might run it (too many
/// buffers, say).
pub(crate) fn strategy(mechanism: &Mechanism) -> Result<Strategy, PlanError> {
    let strategy = build(mechanism)?;
    strategy.validate().map_err(refused)?;
    Ok(strategy)
}

fn build(mechanism: &Mechanism) -> Result<Strategy, PlanError> {
    Ok(match mechanism {
        Mechanism::Identity => Strategy::Identity,
        Mechanism::Tree { restarts, completion } => {
            Strategy::Tree(Tree::new(restarts.clone(), *completion).map_err(refused)?)
        }
        Mechanism::Blt { theta, omega } => {
            Strategy::Blt(Blt::new(theta.clone(), omega.clone()).map_err(refused)?)
        }
        Mechanism::BandToeplitz { coefficients, column_normalised } => {
            Strategy::BandToeplitz { c: coefficients.clone(), column_normalised: *column_normalised }
        }
        Mechanism::BandMf { columns } => Strategy::BandMf(Banded::new(square(columns)).map_err(refused)?),
        Mechanism::BandSqrt { bands } => Strategy::BandSqrt { bands: *bands as usize },
        Mechanism::BandInverse { coefficients } => Strategy::BandInverse { s: coefficients.clone() },
        Mechanism::BandInverseSqrt { bands } => Strategy::BandInverseSqrt { bands: *bands as usize },
        Mechanism::LambdaCgd { lambda } => Strategy::LambdaCgd { lambda: *lambda },
        Mechanism::Dense { matrix } => Strategy::Dense(Dense::new(square(matrix)).map_err(refused)?),
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
            let scales = ColumnScales::new(*rounds_per_scale, column_scales.clone()).map_err(refused)?;
            Strategy::Scaled(Scaled::new(self::base(build(base)?)?, scales).map_err(refused)?)
        }
    })
}

/// What scales of columns may be added to.
///
/// # Errors
/// [`PlanError::Field`] for a strategy whose columns no plan scales.
fn base(strategy: Strategy) -> Result<Base, PlanError> {
    match strategy {
        Strategy::Blt(blt) => Ok(Base::Blt(blt)),
        Strategy::BandToeplitz { c, column_normalised } => Ok(Base::BandToeplitz { c, column_normalised }),
        other => {
            Err(PlanError::field("mechanism.column_scales", format!("given for {}", other.name()), SCALED))
        }
    }
}

/// Writes a strategy, an optimizer's result for instance, as a plan names it. Fails for a strategy that no plan can
/// name.
impl TryFrom<&Strategy> for Mechanism {
    type Error = PlanError;

    fn try_from(strategy: &Strategy) -> Result<Self, PlanError> {
        Ok(match strategy {
            Strategy::Identity => Self::Identity,
            Strategy::Tree(tree) => {
                Self::Tree { restarts: tree.restarts().to_vec(), completion: tree.completion() }
            }
            Strategy::Blt(blt) => Self::Blt { theta: blt.theta().to_vec(), omega: blt.omega().to_vec() },
            Strategy::BandToeplitz { c, column_normalised } => {
                Self::BandToeplitz { coefficients: c.clone(), column_normalised: *column_normalised }
            }
            Strategy::BandMf(banded) => Self::BandMf { columns: columns(banded) },
            Strategy::BandSqrt { bands } => Self::BandSqrt { bands: *bands as u64 },
            Strategy::BandInverse { s } => Self::BandInverse { coefficients: s.clone() },
            Strategy::BandInverseSqrt { bands } => Self::BandInverseSqrt { bands: *bands as u64 },
            Strategy::LambdaCgd { lambda } => Self::LambdaCgd { lambda: *lambda },
            Strategy::Dense(dense) => {
                let row =
                    |(t, row): (usize, ndarray::ArrayView1<f64>)| row.iter().take(t + 1).copied().collect();
                Self::Dense { matrix: dense.matrix().outer_iter().enumerate().map(row).collect() }
            }
            Strategy::Scaled(scaled) => Self::Scaled {
                base: Box::new(match scaled.base() {
                    Base::BandToeplitz { c, column_normalised } => {
                        Self::BandToeplitz { coefficients: c.clone(), column_normalised: *column_normalised }
                    }
                    Base::Blt(blt) => Self::Blt { theta: blt.theta().to_vec(), omega: blt.omega().to_vec() },
                }),
                column_scales: scaled.scales().values().to_vec(),
                rounds_per_scale: scaled.scales().rounds(),
            },
            other => return Err(PlanError::field("mechanism.name", other.name(), Self::NAMES.join(", "))),
        })
    }
}

/// The columns of C; an optimizer may leave any number beyond the last row, a plan holds 0 there.
fn columns(banded: &Banded) -> Vec<Vec<f64>> {
    let n = banded.iterations();
    let columns = banded.columns().outer_iter().enumerate();
    columns
        .map(|(j, c)| c.iter().enumerate().map(|(i, &c)| if i < n - j { c } else { 0.0 }).collect())
        .collect()
}

/// Rows of at most equal length as one array, zeros where a row is shorter.
fn square(rows: &[Vec<f64>]) -> Array2<f64> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    Array2::from_shape_fn((rows.len(), width), |(i, j)| rows[i].get(j).copied().unwrap_or(0.0))
}

/// C from the packed rows of C⁻¹, by forward substitution.
pub(crate) fn inverted(rows: &[f64], n: usize) -> Array2<f64> {
    let mut c = Array2::<f64>::zeros((n, n));
    for t in 0..n {
        let row = &rows[t * (t + 1) / 2..][..=t];
        let mut next = vec![0.0; t + 1];
        next[t] = 1.0;
        for (k, &weight) in row[..t].iter().enumerate() {
            let known = c.row(k);
            next.iter_mut().zip(known.iter().take(k + 1)).for_each(|(x, c)| *x -= weight * c);
        }
        next.iter().enumerate().for_each(|(j, x)| c[[t, j]] = x / row[t]);
    }
    c
}

/// Turns an error of `strategy` into one of the plan.
pub(crate) fn refused(error: StrategyError) -> PlanError {
    match error {
        StrategyError::Invalid { what, value, allowed } => {
            PlanError::field(format!("mechanism ({what})"), value, allowed)
        }
        other => PlanError::field("mechanism", "refused", other),
    }
}
