//! Searches with a caller's cost in place of the sensitivity, for noise that is not calibrated by sens(C).

use super::descent::{ColumnCost, Descent};
use super::{Target, band_toeplitz, blt};
use crate::error::{Result, StrategyError};
use crate::strategy::Strategy;

/// Searches from `start`, a monotone BLT or a band-Toeplitz strategy with positive coefficients that never rise, for a
/// strategy of its kind with a smaller ln(error) + cost, the error being that of `target`'s objective on its
/// workload. Its coefficients are positive and decrease.
///
/// # Errors
/// [`StrategyError::NotOptimizable`] for any other strategy or a workload that is not covered;
/// [`StrategyError::Invalid`] for unusable sizes.
pub fn descend(
    start: &Strategy,
    target: &Target,
    descent: Descent,
    cost: &mut ColumnCost<'_>,
) -> Result<Strategy> {
    target.check()?;
    let refuse = |why: &str| Err(StrategyError::NotOptimizable { mechanism: start.name(), why: why.into() });
    match start {
        Strategy::Blt(blt) if blt.is_monotone() => {
            blt::descend(blt, target, descent, cost).map(Strategy::Blt)
        }
        Strategy::BandToeplitz { c, column_normalised: false } => {
            let falls = c.windows(2).all(|two| two[1] > 0.0 && two[1] <= two[0]);
            if c.first() != Some(&1.0) || !falls {
                return refuse("coefficients must begin with 1, be positive and never rise");
            }
            let c = band_toeplitz::descend(c, target, descent, cost)?;
            Ok(Strategy::BandToeplitz { c, column_normalised: false })
        }
        _ => refuse("only monotone BLTs and band-Toeplitz strategies have a first column to search over"),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::loss::Objective;
    use crate::optimize::{Family, optimize};
    use crate::participation::Participation;

    /// ln of the norm of the column: the sensitivity of one participation.
    fn norm(c: &[f64], by: &mut [f64]) -> f64 {
        let square: f64 = c.iter().map(|c| c * c).sum();
        by.iter_mut().zip(c).for_each(|(by, c)| *by = c / square);
        0.5 * square.ln()
    }

    #[test]
    fn the_norm_as_a_cost_leads_to_the_optimum_of_one_participation() {
        let far = Target::new(64, Participation::new(8, 8).unwrap(), Objective::Rms);
        let one = Target::new(64, Participation::single(), Objective::Rms);
        // One start may end in a lesser optimum of BLTs.
        for (family, near) in
            [(Family::Blt { buffers: 2 }, 1.03), (Family::BandToeplitz { bands: 24 }, 1.0001)]
        {
            let mut never_stop = |_| ControlFlow::Continue(());
            let start = optimize(family, &far, &mut never_stop).unwrap().strategy;
            let best = optimize(family, &one, &mut never_stop).unwrap();
            let descent = Descent { steps: 500, damping: 0.0 };
            let found = descend(&start, &one, descent, &mut norm).unwrap();
            let found = one.loss(&found).unwrap();
            let start = one.loss(&start).unwrap();
            assert!(
                found < near * best.loss && found < 0.95 * start,
                "{family:?} {found} {} {start}",
                best.loss
            );
            // Held fast, it stays where it is.
            let held = Descent { steps: 500, damping: 1e9 };
            let still = one.loss(&descend(&best.strategy, &one, held, &mut norm).unwrap()).unwrap();
            assert!((still / best.loss - 1.0).abs() < 1e-6, "{family:?} {still} {}", best.loss);
        }
    }
}
