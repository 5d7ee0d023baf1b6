//! The loss of one round on a grid, such that no δ falls: connecting the dots, twice.
//!
//! ```text
//! cells(round, h):
//!   for each stretch [a, b] of the line that holds mass of P:
//!     cut the stretch at points x₀ = a < x₁ < … < x_m = b, where loss(x_i) is near a multiple of h
//!     for each piece [x_i, x_{i+1}]:
//!       (down, up) = shared(piece)          mass of P to loss(x_i) and to loss(x_{i+1}),
//!                                           so that P's and Q's mass are both kept      (dots)
//!       deposit(loss(x_i), down)
//!       deposit(loss(x_{i+1}), up)
//!   deposit(loss, mass):
//!     share the mass between ⌊loss/h⌋·h and the next multiple of h, again keeping P's and Q's mass
//! ```
//!
//! Either step only spreads P/Q about its mean, so every δ(ε) of every composition grows. How near the cuts come to
//! multiples of h decides how much δ grows, never whether it does. The mass beyond the last cut counts as loss +∞, the
//! mass before a stretch as the first loss of that stretch, and the mass below the floor is dropped, with a bound of it
//! kept.

use super::class::Class;
use super::cumulant::spans;
use super::dots::{ln_mass, share_below, shared};
use super::losses::{Loss, Losses};
use super::pair::{Pair, Point};
use crate::gaussian::bisect;

/// The largest distance of a cut from a multiple of h, in units of h: spreading by this much is negligible beside the cells.
const CUT_TOLERANCE: f64 = 1e-3;

/// Longest stretch of the line below the floor whose mass is bounded on its own, in standard deviations.
const DROPPED_REACH: f64 = 50.0;
/// Most stretches below the floor; what is left after them counts as one.
const MAX_STRETCHES: usize = 200;

/// Mass on multiples of h: `masses[i]` is P's mass at loss (first+i)·h times e^{θ·loss − `ln_scale`}.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    pub first: i64,
    pub masses: Vec<f64>,
    pub ln_scale: f64,
    /// The mass of P, not tilted, whose loss counts as +∞.
    pub infinite: f64,
    /// An upper bound of the tilted mass below the floor, in the same units as `masses`.
    pub dropped: f64,
}

/// The parameters by which losses are cut and weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// h.
    pub spacing: f64,
    /// θ of the tilt e^{θ·loss}.
    pub theta: f64,
    /// The logarithm of the unit of tilted masses, so that they fit f64.
    pub ln_scale: f64,
    /// The logarithm of the mass of P, on either side, that needn't be cut.
    pub ln_tail: f64,
    /// The loss below which mass is dropped, except for a bound of it.
    pub floor: f64,
}

pub(super) fn cells(classes: &[(f64, Class)], cut: Cut) -> Cells {
    let mut cells =
        Cells { first: 0, masses: Vec::new(), ln_scale: cut.ln_scale, infinite: 0.0, dropped: 0.0 };
    for (weight, class) in classes {
        match class {
            Class::Pair(pair) => {
                let rise = (cut.theta * cut.spacing).exp();
                Cutter { pair, cut, ln_weight: weight.ln(), rise, out: &mut cells }.all();
            }
            Class::Losses(losses) => deposit(losses, *weight, cut, &mut cells),
        }
    }
    cells
}

/// Puts losses on the grid, such that no δ falls: each between the two places next to it, keeping P's and Q's mass.
fn deposit(losses: &Losses, weight: f64, cut: Cut, out: &mut Cells) {
    let Cut { spacing, theta, ln_scale, floor, .. } = cut;
    let rise = (theta * spacing).exp();
    let (kept, infinite) = losses.kept(cut.ln_tail);
    out.infinite += weight * infinite;
    let ln_weight = weight.ln() - ln_scale;
    for Loss { loss, ln_mass } in kept.iter().copied() {
        let place = (loss / spacing).floor();
        if loss < floor {
            out.dropped += (ln_mass + ln_weight + theta * loss).exp();
            continue;
        }
        let mass = (ln_mass + ln_weight + theta * place * spacing).exp();
        let share = share_below(loss - place * spacing, spacing);
        out.add(place as i64, mass * share);
        out.add(place as i64 + 1, mass * (1.0 - share) * rise);
    }
}

impl Cells {
    /// Adds tilted mass at a multiple of h.
    fn add(&mut self, index: i64, mass: f64) {
        if self.masses.is_empty() {
            self.first = index;
        }
        if index < self.first {
            let more = (self.first - index) as usize;
            self.masses.splice(0..0, std::iter::repeat_n(0.0, more));
            self.first = index;
        }
        let place = (index - self.first) as usize;
        if place >= self.masses.len() {
            self.masses.resize(place + 1, 0.0);
        }
        self.masses[place] += mass;
    }
}

struct Cutter<'a> {
    pair: &'a Pair,
    cut: Cut,
    ln_weight: f64,
    /// e^{θh}.
    rise: f64,
    out: &'a mut Cells,
}

impl Cutter<'_> {
    fn all(&mut self) {
        let mut end = f64::NEG_INFINITY;
        let mut dropped = f64::NEG_INFINITY;
        for (from, to) in spans(self.pair, self.cut.ln_tail) {
            let start = self.above_floor(from, to);
            if start == from {
                self.before(end, from);
            } else {
                dropped = start;
            }
            self.span(start, to);
            end = to;
        }
        if dropped > f64::NEG_INFINITY {
            self.out.dropped += self.below(dropped);
        }
        self.out.infinite += (self.ln_weight + ln_mass(self.pair.upper(), end, f64::INFINITY)).exp();
    }

    /// Returns the point of a stretch at which the loss passes the floor, or the nearer end.
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

    /// Deposits the mass before a stretch at the first loss of that stretch.
    fn before(&mut self, from: f64, to: f64) {
        let loss = self.pair.at(to).loss;
        let place = self.place(loss);
        let mass = (ln_mass(self.pair.upper(), from, to) + self.ln_unit(place)).exp();
        self.deposit(place, loss, mass);
    }

    /// Returns an upper bound of the tilted mass before a point: stretch by stretch, as if all of a stretch had its last
    /// loss. The tilt changes by about e over the first stretch, and by more where less mass is left.
    fn below(&self, to: f64) -> f64 {
        let Cut { theta, ln_scale, .. } = self.cut;
        let mut x = to;
        let mut here = self.pair.at(to);
        let tilted = |from: f64, to: f64, loss: f64| {
            (ln_mass(self.pair.upper(), from, to) + self.ln_weight + theta * loss - ln_scale).exp()
        };
        let mut sum = 0.0_f64;
        let mut change = 1.0;
        for _ in 0..MAX_STRETCHES {
            let rest = tilted(f64::NEG_INFINITY, x, here.loss);
            if rest <= 0.01 * sum {
                return sum + rest;
            }
            let mut step = (change / (theta * here.slope)).min(DROPPED_REACH);
            let mut next = self.pair.at(x - step);
            while theta * (here.loss - next.loss) > 2.0 * change && step > 1e-12 {
                step /= 2.0;
                next = self.pair.at(x - step);
            }
            let stretch = tilted(x - step, x, here.loss);
            sum += stretch;
            if stretch > 0.0 {
                change = 1.0 + 0.25 * (sum / stretch).ln();
            }
            (x, here) = (x - step, next);
        }
        sum + tilted(f64::NEG_INFINITY, x, here.loss)
    }

    /// Cuts one stretch into pieces and deposits them.
    fn span(&mut self, from: f64, to: f64) {
        let h = self.cut.spacing;
        let mut here = (from, self.pair.at(from));
        let end = (to, self.pair.at(to));
        let mut index = self.place(here.1.loss);
        let mut curvature = 0.0;
        loop {
            let level = (index + 1) as f64 * h;
            if end.1.loss <= level {
                return self.cell(here, end);
            }
            let there = self.crossing(here, curvature, level, to);
            self.cell(here, there);
            let width = there.0 - here.0;
            curvature = if width > 0.0 { (there.1.slope - here.1.slope) / width } else { 0.0 };
            here = there;
            index = (index + 1).max((there.1.loss / h).round() as i64);
        }
    }

    /// Finds a point near which the loss passes `level`: by Newton's steps from `start`, kept within brackets that every
    /// fourth step halves, as the loss may be nearly flat and then rise steeply. The cut is a point at which the pair has
    /// been evaluated, never an extrapolated one.
    fn crossing(&self, start: (f64, Point), curvature: f64, level: f64, to: f64) -> (f64, Point) {
        let mut low = start.0;
        let mut high = to;
        let step = (level - start.1.loss) / start.1.slope;
        let mut x = start.0 + step * (1.0 - 0.5 * curvature * step / start.1.slope);
        for turn in 0..200 {
            if !(x > low && x < high) || turn % 4 == 3 {
                x = low + (high - low) / 2.0;
            }
            let there = self.pair.at(x);
            let missing = level - there.loss;
            if missing.abs() <= CUT_TOLERANCE * self.cut.spacing {
                return (x, there);
            }
            if missing > 0.0 {
                low = x
            } else {
                high = x
            }
            if high - low <= 1e-15 * (high.abs() + low.abs()) {
                break;
            }
            x += missing / there.slope;
        }
        (high, self.pair.at(high))
    }

    /// Shares the mass of P between two cuts.
    fn cell(&mut self, from: (f64, Point), to: (f64, Point)) {
        let low = self.place(from.1.loss);
        let high = self.place(to.1.loss);
        let (down, mut up) = shared(self.pair, from, to, self.ln_unit(low));
        match high - low {
            0 => {}
            1..=3 => up *= self.rise.powi((high - low) as i32),
            // The upper place is so far up that a mass in the unit of the lower may vanish in its own: shared anew.
            _ => up = shared(self.pair, from, to, self.ln_unit(high)).1,
        }
        self.deposit(low, from.1.loss, down);
        self.deposit(high, to.1.loss, up);
    }

    /// Returns the multiple of h at or below a loss.
    fn place(&self, loss: f64) -> i64 {
        (loss / self.cut.spacing).floor() as i64
    }

    /// Returns ln of the factor by which the mass of P is multiplied at a place.
    fn ln_unit(&self, place: i64) -> f64 {
        let Cut { spacing, theta, ln_scale, .. } = self.cut;
        self.ln_weight + theta * place as f64 * spacing - ln_scale
    }

    /// Shares mass at a loss, in the unit of the place at or below it, between that place and the next.
    fn deposit(&mut self, place: i64, loss: f64, mass: f64) {
        let h = self.cut.spacing;
        let share = share_below(loss - place as f64 * h, h);
        self.out.add(place, mass * share);
        self.out.add(place + 1, mass * (1.0 - share) * self.rise);
    }
}
