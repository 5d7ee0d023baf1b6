//! Lower bounds of δ and of power from one test, without any grid: a check of every answer.
//!
//! The test decides for P where the loss of any round is above a level. Its rates are products of normal tails, so they
//! hold whatever the grids do; for one round, those of the best level are exact.

use super::class::Class;
use super::composition::Composition;
use crate::gaussian::bisect;

/// The relative rounding that a bound allows for.
const RELATIVE_ROUNDING: f64 = 1e-6;
/// The rounding that a bound allows for in units of the tails that it is the difference of.
const TAIL_ROUNDING: f64 = 1e-12;

/// Rates of Q below this may have lost their digits, and count as this much.
const MIN_Q_RATE: f64 = 1e-290;

/// Number of levels that are tried, from ε upwards.
const LEVELS: u32 = 12;

/// The probabilities, under P and under Q, that a test decides for P.
#[derive(Debug, Clone, Copy)]
struct Rates {
    p: f64,
    q: f64,
}

impl Composition {
    /// Returns a lower bound of δ(ε).
    pub(super) fn delta_of_one_test(&self, epsilon: f64) -> f64 {
        let Some(class) = self.classes().max_by(|a, b| a.top().total_cmp(&b.top())) else {
            return 0.0;
        };
        let levels = class.levels(epsilon, LEVELS).into_iter();
        let delta = |level: f64| {
            let Rates { p, q } = self.rates(level);
            let under_q = (q.max(MIN_Q_RATE).ln() + epsilon).exp();
            (p - under_q) * (1.0 - RELATIVE_ROUNDING) - TAIL_ROUNDING * p
        };
        levels.map(delta).fold(0.0, f64::max)
    }

    /// Returns a lower bound of the power of the best test.
    pub(super) fn power_of_one_test(&self, rate: f64) -> f64 {
        let (low, top) = self
            .classes()
            .map(|class| (class.bottom(), class.top().min(f64::MAX)))
            .fold((0.0, 0.0), |all: (f64, f64), one| (all.0.min(one.0), all.1.max(one.1)));
        let (_, level) = bisect(low, top, |level| self.rates(level).q <= rate);
        let Rates { p, q } = self.rates(level);
        if q <= rate { p * (1.0 - RELATIVE_ROUNDING) } else { 0.0 }
    }

    fn classes(&self) -> impl Iterator<Item = &Class> {
        self.parts().flat_map(|(classes, _)| classes.iter().map(|(_, class)| class))
    }

    /// Returns the rates of the test whether the loss of any round is above a level.
    fn rates(&self, level: f64) -> Rates {
        let mut none_p = 0.0;
        let mut none_q = 0.0;
        for (classes, count) in self.parts() {
            let mut p = 0.0;
            let mut q = 0.0;
            for (weight, class) in classes {
                let (more_p, more_q) = class.above(level);
                p += weight * more_p;
                q += weight * more_q;
            }
            none_p += count as f64 * (-p.min(1.0)).ln_1p();
            none_q += count as f64 * (-q.min(1.0)).ln_1p();
        }
        Rates { p: -none_p.exp_m1(), q: -none_q.exp_m1() }
    }
}
