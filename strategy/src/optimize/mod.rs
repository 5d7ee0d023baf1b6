//! Optimizers: find the parameters of a mechanism with the least loss.

mod band_inverse;
mod band_mf;
mod band_mf_error;
mod band_mf_filter;
mod band_mf_knots;
mod band_mf_norms;
mod band_toeplitz;
mod blt;
mod by_epoch;
mod dense;
mod descend;
mod descent;
mod family;
mod inverse_error;
mod lambda;
mod lbfgs;
mod monotone;
mod normalised;
mod optimized;
mod power;
mod progress;
mod row_loss;
#[cfg(test)]
mod series_tests;
mod target;

use crate::error::{Result, invalid};
use crate::strategy::Strategy;
use crate::tree::Tree;

use band_mf::ColumnNorms;

pub use crate::loss::Objective;
pub use band_toeplitz::flatten_tail;
pub use blt::MAX_OPTIMIZED_BUFFERS;
pub use descend::descend;
pub use descent::{ColumnCost, Descent};
pub use family::Family;
pub use optimized::Optimized;
pub use progress::{Progress, ProgressFn};
pub use target::Target;

/// Finds the parameters of `family` with the least loss in the setting `target`; evaluates a family without parameters.
///
/// # Errors
/// [`crate::StrategyError::NotOptimizable`] for settings not covered; [`crate::StrategyError::NoMatrix`] for a tree on
/// anything but prefix sums; [`crate::StrategyError::Invalid`] for unusable sizes.
pub fn optimize(family: Family, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    target.check()?;
    match family {
        Family::Blt { buffers } => blt::optimize(buffers, target, progress),
        Family::BltAuto { max_buffers } => blt::optimize_auto(max_buffers, target, progress),
        Family::BltByEpoch { buffers } => by_epoch::optimize_blt(buffers, target, progress),
        Family::BltAutoByEpoch { max_buffers } => by_epoch::optimize_blt_auto(max_buffers, target, progress),
        Family::BandToeplitzByEpoch { bands } => by_epoch::optimize_toeplitz(bands, target, progress),
        Family::BandToeplitz { bands } => band_toeplitz::optimize(bands, target, progress),
        Family::BandToeplitzNormalised { bands } => normalised::optimize(bands, target, progress),
        Family::BandPower { bands } => power::optimize(bands, target, progress),
        Family::BandMf { bands } => band_mf::optimize(bands, ColumnNorms::Equal, target, progress),
        Family::BandMfByEpoch { bands } => band_mf::optimize(bands, ColumnNorms::ByEpoch, target, progress),
        Family::BandInverse { bands } => band_inverse::optimize(bands, target, progress),
        Family::LambdaCgd => lambda::optimize(target, progress),
        Family::Dense => dense::optimize(dense::Rule::MinSep, target, progress),
        Family::DenseFixedEpoch => dense::optimize(dense::Rule::FixedEpoch, target, progress),
        Family::Identity => Optimized::from_fixed(Strategy::Identity, target),
        Family::Tree => Optimized::from_fixed(Strategy::Tree(Tree::default()), target),
        Family::BandSqrt { bands } => Optimized::from_fixed(Strategy::BandSqrt { bands }, target),
        Family::BandInverseSqrt { bands } => {
            Optimized::from_fixed(Strategy::BandInverseSqrt { bands }, target)
        }
    }
}

/// Refuses band counts outside 1…n.
fn check_bands(bands: usize, target: &Target) -> Result<()> {
    let rounds = crate::error::series_length(target.iterations)?;
    if bands == 0 || bands > rounds {
        return Err(invalid("bands", bands, format!("1 to {rounds}, the iterations")));
    }
    Ok(())
}

/// 1/(1+e^{−x}).
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The x with logistic(x) = part/(part + rest).
fn logit(part: f64, rest: f64) -> f64 {
    // Ratios of exactly 0 or 1 have no finite x; 1e±13 is as near as the search can use.
    (part / rest).clamp(1e-13, 1e13).ln()
}
