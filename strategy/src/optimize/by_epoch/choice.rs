//! The better of two results of one setting.

use crate::optimize::Optimized;

/// Returns the scaled strategy, or the one with equal scales where its loss is no higher; with the scaled search's steps,
/// which include those of the other.
pub(super) fn better(equal: Optimized, scaled: Optimized) -> Optimized {
    if scaled.loss < equal.loss {
        return scaled;
    }
    let Optimized { converged, iterations, stopped, .. } = scaled;
    Optimized { converged, iterations, stopped, ..equal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::{Objective, Target};
    use crate::participation::Participation;
    use crate::scaled::{Base, ColumnScales, Scaled};
    use crate::strategy::Strategy;

    #[test]
    fn scales_that_raise_the_loss_are_not_returned() {
        let target = Target::new(12, Participation::new(4, 3).unwrap(), Objective::Rms);
        let c = vec![1.0, 0.5, 0.3];
        let equal =
            Optimized::from_fixed(Strategy::BandToeplitz { c: c.clone(), column_normalised: false }, &target);
        let equal = equal.unwrap();
        let scaled = |scales: &[f64]| {
            let scales = ColumnScales::new(4, scales.to_vec()).unwrap();
            let base = Base::BandToeplitz { c: c.clone(), column_normalised: false };
            let strategy = Strategy::Scaled(Scaled::new(base, scales).unwrap());
            Optimized { iterations: 7, ..Optimized::from_fixed(strategy, &target).unwrap() }
        };
        let worse = scaled(&[1.0, 0.1, 0.001]);
        assert!(worse.loss > equal.loss);
        let kept = better(equal.clone(), worse);
        assert_eq!((&kept.strategy, kept.loss, kept.iterations), (&equal.strategy, equal.loss, 7));
        let lower = scaled(&[1.0, 0.9, 0.8]);
        assert!(lower.loss < equal.loss);
        assert_eq!(better(equal, lower.clone()), lower);
    }
}
