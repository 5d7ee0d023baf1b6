//! One round's loss on a grid, never optimistic: connecting the dots.
//!
//! The line is cut where the loss passes a multiple of the spacing h. Between ε = kh and ε + h the mass of P goes
//! to the two ends such that P's and Q's mass are both kept: the share f(ℓ) = (e^{ε+h−ℓ} − 1)/(e^h − 1) of what
//! has loss ℓ goes down, the rest up. That spreads P/Q about its mean, so every δ(ε), of any composition, grows.
//! What lies beyond the last cut counts as loss +∞, what lies before a stretch as its first cut.

use super::cumulant::spans;
use super::pair::{Pair, Point};
use crate::gaussian::bisect;
use crate::normal::ln_cdf;

/// Gauss–Legendre with three nodes on [0, 1].
const NODES: [(f64, f64); 3] =
    [(0.112_701_665_379_258_31, 5.0 / 18.0), (0.5, 8.0 / 18.0), (0.887_298_334_620_741_7, 5.0 / 18.0)];

/// Widest cell, times the fastest change along the line, that three nodes integrate to f64 where P has its mass.
const NARROW: f64 = 0.2;

/// Mass on multiples of h: `masses[i]` is P's mass at loss (first+i)·h times e^{θ·loss − `ln_scale`}.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    pub first: i64,
    pub masses: Vec<f64>,
    pub ln_scale: f64,
    /// P's mass, not tilted, whose loss counts as +∞.
    pub infinite: f64,
}

/// How losses are cut and weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// h.
    pub spacing: f64,
    /// θ of the tilt e^{θ·loss}.
    pub theta: f64,
    /// What the logarithms of tilted masses are taken relative to, so that they fit f64.
    pub ln_scale: f64,
    /// ln of the mass of P, on either side, that needn't be cut.
    pub ln_tail: f64,
    /// The loss below which everything is left out, for whoever asked to charge for.
    pub floor: f64,
}

pub(super) fn cells(classes: &[(f64, Pair)], cut: Cut) -> Cells {
    let mut cells = Cells { first: 0, masses: Vec::new(), ln_scale: cut.ln_scale, infinite: 0.0 };
    for (weight, pair) in classes {
        let rise = (cut.theta * cut.spacing).exp();
        let unit = cut.spacing.exp_m1();
        let mut cutter = Cutter { pair, cut, ln_weight: weight.ln(), rise, unit, out: &mut cells };
        let mut end = f64::NEG_INFINITY;
        for (from, to) in spans(pair, cut.ln_tail) {
            let start = cutter.above_floor(from, to);
            if start == from {
                cutter.skip(end, from);
            }
            cutter.span(start, to);
            end = to;
        }
        cells.infinite += weight * ln_mass(pair.upper(), end, f64::INFINITY).exp();
    }
    cells
}

struct Cutter<'a> {
    pair: &'a Pair,
    cut: Cut,
    ln_weight: f64,
    /// e^{θh}.
    rise: f64,
    /// e^h − 1.
    unit: f64,
    out: &'a mut Cells,
}

impl Cutter<'_> {
    /// Where in a stretch the loss is the floor, or the end that is nearer.
    fn above_floor(&self, from: f64, to: f64) -> f64 {
        let floor = self.cut.floor;
        if self.pair.at(from).loss >= floor {
            return from;
        }
        if self.pair.at(to).loss <= floor {
            return to;
        }
        bisect(from, to, |x| self.pair.at(x).loss >= floor).0
    }

    /// Mass before a stretch counts as the stretch's first loss.
    fn skip(&mut self, from: f64, to: f64) {
        let index = (self.pair.at(to).loss / self.cut.spacing).ceil() as i64;
        let level = index as f64 * self.cut.spacing;
        let ln = ln_mass(self.pair.upper(), from, to) + self.ln_weight;
        self.add(index, (ln + self.cut.theta * level - self.cut.ln_scale).exp());
    }

    fn span(&mut self, from: f64, to: f64) {
        let h = self.cut.spacing;
        let (mut x, mut here) = (from, self.pair.at(from));
        let end = self.pair.at(to).loss;
        let mut index = (here.loss / h).floor() as i64;
        let mut curvature = 0.0;
        loop {
            let level = (index + 1) as f64 * h;
            if end <= level {
                return self.cell(index, x, to);
            }
            let (next, there) = self.crossing((x, here), curvature, level, to);
            self.cell(index, x, next);
            curvature = if next > x { (there.slope - here.slope) / (next - x) } else { 0.0 };
            (x, here) = (next, there);
            index += 1;
        }
    }

    /// Where the loss passes `level`, and the pair near there: Newton from `start`, kept within brackets. Cells
    /// keep both masses wherever they are cut, so a small fraction of h is near enough.
    fn crossing(&self, start: (f64, Point), curvature: f64, level: f64, to: f64) -> (f64, Point) {
        let (mut low, mut high) = (start.0, to);
        let step = (level - start.1.loss) / start.1.slope;
        let mut x = start.0 + step * (1.0 - 0.5 * curvature * step / start.1.slope);
        for _ in 0..200 {
            if !(x > low && x < high) {
                x = low + (high - low) / 2.0;
            }
            let there = self.pair.at(x);
            let missing = level - there.loss;
            let next = x + missing / there.slope;
            if missing.abs() < 1e-3 * self.cut.spacing && next >= low && next <= high {
                // The loss at the cut is the level itself, as near as the next guess needs it.
                return (next, Point { loss: level, ..there });
            }
            if missing > 0.0 {
                low = x
            } else {
                high = x
            }
            if high - low <= 1e-15 * (high.abs() + low.abs()) {
                break;
            }
            x = next;
        }
        (high, self.pair.at(high))
    }

    /// Shares what P has in [from, to], where the loss is between `index`·h and the next cut.
    fn cell(&mut self, index: i64, from: f64, to: f64) {
        let Cut { spacing: h, theta, ln_scale, .. } = self.cut;
        let width = to - from;
        if width <= 0.0 {
            return;
        }
        let low = index as f64 * h;
        let ln_unit = self.ln_weight + theta * low - ln_scale;
        let (mut down, mut up) = (0.0, 0.0);
        if width * self.pair.steepest().max(8.0) <= NARROW {
            for (node, weight) in NODES {
                let point = self.pair.at(from + node * width);
                let mass = (point.ln_density + ln_unit).exp() * width * weight;
                let share = (low + h - point.loss).exp_m1() / self.unit;
                down += mass * share;
                up += mass * (1.0 - share);
            }
        } else {
            let ln_p = ln_mass(self.pair.upper(), from, to);
            let ln_q = ln_mass(self.pair.lower(), from, to);
            let mass = (ln_p + ln_unit).exp();
            let share = ((ln_q - ln_p + low).exp() - (-h).exp()) / -(-h).exp_m1();
            let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
            (down, up) = (mass * share, mass * (1.0 - share));
        }
        self.add(index, down.max(0.0));
        self.add(index + 1, (up * self.rise).max(0.0));
    }

    fn add(&mut self, index: i64, mass: f64) {
        let masses = &mut self.out.masses;
        if masses.is_empty() {
            self.out.first = index;
        }
        if index < self.out.first {
            let more = (self.out.first - index) as usize;
            masses.splice(0..0, std::iter::repeat_n(0.0, more));
            self.out.first = index;
        }
        let place = (index - self.out.first) as usize;
        if place >= masses.len() {
            masses.resize(place + 1, 0.0);
        }
        masses[place] += mass;
    }
}

/// ln Σ w_k (Φ(to − s_k) − Φ(from − s_k)).
fn ln_mass(components: impl Iterator<Item = (f64, f64)>, from: f64, to: f64) -> f64 {
    let terms: Vec<f64> =
        components.map(|(ln_weight, s)| ln_weight + ln_interval(from - s, to - s)).collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

/// ln(Φ(to) − Φ(from)), from the tail that it lies in.
fn ln_interval(from: f64, to: f64) -> f64 {
    if from >= 0.0 {
        return ln_interval(-to, -from);
    }
    if to <= 0.0 {
        let whole = ln_cdf(to);
        return if from == f64::NEG_INFINITY {
            whole
        } else {
            whole + (-(ln_cdf(from) - whole).exp()).ln_1p()
        };
    }
    let outside = if from == f64::NEG_INFINITY { 0.0 } else { ln_cdf(from).exp() };
    let outside = outside + if to == f64::INFINITY { 0.0 } else { ln_cdf(-to).exp() };
    (-outside).ln_1p()
}
