//! What one test shows, without any grid: bounds of δ and of power from below.
//!
//! The test says P where any round's loss is above a level. Its rates are products of normal tails, so they hold
//! whatever the grids do, and for one round the best level's are exact.

use super::composition::Composition;
use super::pair::Pair;
use crate::gaussian::bisect;
use crate::pld::dots::ln_mass;

/// What is left to rounding: relative, and in units of the tails that a bound is the difference of.
const RELATIVE_ROUNDING: f64 = 1e-6;
const TAIL_ROUNDING: f64 = 1e-12;

/// Q's rates below this may have lost their digits, and count as this much.
const MIN_Q_RATE: f64 = 1e-290;

/// Levels that are tried, from ε to what the largest shift sees of itself.
const LEVELS: u32 = 12;
const LEVEL_REACH: f64 = 6.0;

/// Where along the line no pair's mass matters any more.
const LINE_REACH: f64 = 40.0;

/// P's and Q's probability that a test says P.
#[derive(Debug, Clone, Copy)]
struct Rates {
    p: f64,
    q: f64,
}

impl Composition {
    /// A bound of δ(ε) from below.
    pub(super) fn delta_of_one_test(&self, epsilon: f64) -> f64 {
        let top = |pair: &Pair| pair.at(end(pair)).loss;
        let Some((_, pair, _)) = self.pairs().max_by(|a, b| top(a.1).total_cmp(&top(b.1))) else {
            return 0.0;
        };
        let (_, first) = bisect(-end(pair), end(pair), |x| pair.at(x).loss > epsilon);
        let step = (pair.steepest() + LEVEL_REACH - first).max(0.0) / f64::from(LEVELS);
        let levels =
            (0..LEVELS).map(|i| if i == 0 { epsilon } else { pair.at(first + step * f64::from(i)).loss });
        let delta = |level: f64| {
            let Rates { p, q } = self.rates(level);
            let under_q = (q.max(MIN_Q_RATE).ln() + epsilon).exp();
            (p - under_q) * (1.0 - RELATIVE_ROUNDING) - TAIL_ROUNDING * p
        };
        levels.map(delta).fold(0.0, f64::max)
    }

    /// A bound of the best test's power from below.
    pub(super) fn power_of_one_test(&self, rate: f64) -> f64 {
        let (low, top) = self
            .pairs()
            .map(|(_, pair, _)| (pair.at(-end(pair)).loss, pair.at(end(pair)).loss))
            .fold((0.0, 0.0), |all: (f64, f64), one| (all.0.min(one.0), all.1.max(one.1)));
        let (_, level) = bisect(low, top, |level| self.rates(level).q <= rate);
        let Rates { p, q } = self.rates(level);
        if q <= rate { p * (1.0 - RELATIVE_ROUNDING) } else { 0.0 }
    }

    fn pairs(&self) -> impl Iterator<Item = (f64, &Pair, u64)> {
        self.parts()
            .flat_map(|(classes, count)| classes.iter().map(move |(weight, pair)| (*weight, pair, count)))
    }

    /// Of the test whether any round's loss is above a level.
    fn rates(&self, level: f64) -> Rates {
        let mut none_p = 0.0;
        let mut none_q = 0.0;
        for (classes, count) in self.parts() {
            let mut p = 0.0;
            let mut q = 0.0;
            for (weight, pair) in classes {
                let far = end(pair);
                let (_, x) = bisect(-far, far, |x| pair.at(x).loss > level);
                p += weight * ln_mass(pair.upper(), x, f64::INFINITY).exp();
                q += weight * ln_mass(pair.lower(), x, f64::INFINITY).exp();
            }
            none_p += count as f64 * (-p.min(1.0)).ln_1p();
            none_q += count as f64 * (-q.min(1.0)).ln_1p();
        }
        Rates { p: -none_p.exp_m1(), q: -none_q.exp_m1() }
    }
}

fn end(pair: &Pair) -> f64 {
    pair.steepest() + LINE_REACH
}
