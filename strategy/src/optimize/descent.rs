//! The cost and the limits of a search in which another cost stands for the sensitivity.

use std::ops::ControlFlow;

use super::lbfgs::{Limits, Watch, minimise};

/// A cost in place of ln(sensitivity): a function of the first column of C (all n numbers of a BLT, the p of a
/// band-Toeplitz strategy) that writes its derivatives to the second argument. It is not finite where it has no value.
pub type ColumnCost<'a> = dyn FnMut(&[f64], &mut [f64]) -> f64 + 'a;

/// The limits of a search by [`super::descend`].
#[derive(Debug, Clone, Copy)]
pub struct Descent {
    /// Most steps of L-BFGS.
    pub steps: usize,
    /// ρ: ½ρ|x − start|² is added to the minimised function, x being the free numbers of the family.
    pub damping: f64,
}

impl Descent {
    /// The least found of `evaluate` from `start`.
    pub(super) fn minimise(
        self,
        start: Vec<f64>,
        mut evaluate: impl FnMut(&[f64], &mut [f64]) -> f64,
    ) -> Vec<f64> {
        let limits = Limits { steps: self.steps, tolerance: 1e-7 };
        let never_stop = &mut |_| ControlFlow::Continue(());
        let from = start.clone();
        let found = minimise(start, limits, &mut Watch::new(never_stop), |x, gradient| {
            let mut value = evaluate(x, gradient);
            for ((x, from), gradient) in x.iter().zip(&from).zip(gradient) {
                value += 0.5 * self.damping * (x - from) * (x - from);
                *gradient += self.damping * (x - from);
            }
            value
        });
        found.x
    }
}
