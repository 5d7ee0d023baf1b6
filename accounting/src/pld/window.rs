//! The loss of a whole composition, in a window around the losses that matter to a query.

use super::cells::Cells;
use super::transform::{Convolution, convolve, fast_length};

/// Relative rounding of δ that is charged for; each composed round adds a share.
const ROUNDING: f64 = 1e-10;
const ROUNDING_PER_ROUND: f64 = 2e-15;

/// The tilted mass that may be outside a window, ten times e^−26 on either side.
const WRAPPED: f64 = 1e-10;

/// Tilted masses of the composed loss at (first+i)·h, by a circular convolution. Mass that falls outside wraps around to
/// the inside, where it only adds to δ; mass above the window is counted in `beyond` as well.
#[derive(Debug, Clone)]
pub(super) struct Window {
    first: i64,
    spacing: f64,
    theta: f64,
    masses: Vec<f64>,
    /// The logarithm of the factor between masses here times e^{−θ·loss} and masses of P.
    ln_total: f64,
    /// An upper bound of the mass of P above the window and at +∞.
    beyond: f64,
    /// The relative rounding that is charged for.
    rounding: f64,
    /// The tilted mass above any loss that the transform's rounding, and cutting rounds at their low end, may hide.
    hidden: f64,
}

impl Window {
    /// Composes rounds (their cells, tilted by θ, and counts) in at least `low`..`high`. `reach` is a tilt u > 0 on top
    /// of θ whose Chernoff bound limits the mass above the window.
    pub(super) fn compose(
        parts: &[(Cells, u64)],
        spacing: f64,
        theta: f64,
        (low, high): (f64, f64),
        reach: f64,
    ) -> Self {
        let first = (low / spacing).floor() as i64;
        let length = fast_length(((high - low) / spacing).ceil() as usize + 2);
        let mut ln_total = 0.0;
        let mut ln_reach = 0.0;
        let mut ln_finite = 0.0;
        let mut rounds = 0.0;
        let mut ln_dropped = 0.0;
        for (cells, count) in parts {
            let count = *count as f64;
            let sum: f64 = cells.masses.iter().sum();
            ln_total += count * (cells.ln_scale + sum.ln());
            ln_reach += count * (tilted_sum(cells, spacing, reach) - sum.ln());
            ln_finite += count * (-cells.infinite).ln_1p();
            ln_dropped += count * (cells.dropped / sum).ln_1p();
            rounds += count;
        }
        let Convolution { masses, error } = convolve(parts, first, length, -(-theta * spacing).exp_m1());
        let top = (first + length as i64) as f64 * spacing;
        // P(L ≥ top) ≤ E[e^{(θ+u)(L − top)}].
        let above = (ln_total - theta * top + (ln_reach - reach * top).min(0.0)).exp();
        let beyond = above - ln_finite.exp_m1();
        let rounding = ROUNDING + ROUNDING_PER_ROUND * rounds;
        let hidden = ln_dropped.exp_m1() + error;
        Self { first, spacing, theta, masses, ln_total, beyond, rounding, hidden }
    }

    pub(super) fn length(&self) -> usize {
        self.masses.len()
    }

    /// Returns the window's lowest loss.
    pub(super) fn lowest(&self) -> f64 {
        self.loss(0)
    }

    fn loss(&self, place: usize) -> f64 {
        (self.first + place as i64) as f64 * self.spacing
    }

    /// Returns the mass of P at a place.
    fn mass(&self, place: usize) -> f64 {
        let tilted = self.masses[place];
        if tilted <= 0.0 { 0.0 } else { tilted * self.untilted(self.loss(place)) }
    }

    /// Returns the factor that turns a tilted mass at a loss into a mass of P.
    fn untilted(&self, loss: f64) -> f64 {
        (self.ln_total - self.theta * loss).min(700.0).exp()
    }

    /// Returns the hidden mass as a δ at a loss. A tilted mass m at a loss t above counts as m·e^{−θt}(1 − e^{−t}), at most
    /// m ∕ (θ+1); and so do sums of masses from each place on that are at most m, by summation by parts.
    fn hidden_above(&self, loss: f64) -> f64 {
        self.hidden * self.untilted(loss) / (self.theta + 1.0)
    }

    /// Returns an upper bound of what a δ at this loss counts beyond the mass of the grid: infinite losses, rounding, and mass
    /// that was outside the window.
    pub(super) fn charged(&self, loss: f64, delta: f64) -> f64 {
        let wrapped = WRAPPED * self.untilted(loss) / (self.theta + 1.0);
        self.beyond + self.rounding * delta + 2.0 * self.hidden_above(loss - self.spacing) + wrapped
    }

    /// Finds the smallest ε ≥ `floor` in the window with δ(ε) ≤ `delta`, going down from its top.
    pub(super) fn epsilon(&self, delta: f64, floor: f64) -> WindowAnswer {
        let whole = delta * (1.0 - self.rounding) - self.beyond;
        if whole < 0.0 {
            return WindowAnswer::Never;
        }
        // q: Q's mass from here on, in units of e^{−loss here}. δ at this loss and at the place below, which are sums of
        // what each place adds: P's mass less Q's would lose all digits where the two are nearly the same.
        let mut q = 0.0;
        let mut next = 0.0;
        let shrink = (-self.spacing).exp();
        let unit = -(-self.spacing).exp_m1();
        let step = (self.theta * self.spacing).exp();
        for place in (0..self.masses.len()).rev() {
            let loss = self.loss(place);
            let untilted = self.untilted(loss);
            let mass = self.masses[place].max(0.0) * untilted;
            let goal = whole - self.hidden * untilted * step / (self.theta + 1.0);
            q = mass + q * shrink;
            let here = next;
            next = here + unit * q;
            if loss <= floor {
                return WindowAnswer::Below;
            }
            if next > goal {
                // Where the hidden mass alone is too much here, it already is at the place above.
                let root = (loss + ((here - goal) / q).ln_1p()).min(loss);
                return if root <= floor { WindowAnswer::Below } else { WindowAnswer::At(root) };
            }
        }
        WindowAnswer::Below
    }

    /// Returns an upper bound of δ(ε). The mass of P between ε and a window that lies above it is only known to be at
    /// most 1.
    pub(super) fn delta(&self, epsilon: f64) -> f64 {
        let unseen = if self.theta > 0.0 { -(epsilon - self.lowest()).min(0.0).exp_m1() } else { 0.0 };
        let losses = (0..self.masses.len()).rev().map(|place| (place, self.loss(place)));
        let above = losses.take_while(|(_, loss)| *loss > epsilon);
        let delta: f64 = above.map(|(place, loss)| self.mass(place) * -(epsilon - loss).exp_m1()).sum();
        (delta * (1.0 + self.rounding) + self.beyond + self.hidden_above(epsilon) + unseen).min(1.0)
    }

    /// Returns the mass of P from the largest loss down to where the mass of Q is `rate`; 1 where the window ends before
    /// that.
    pub(super) fn power(&self, rate: f64) -> f64 {
        let mut p = 0.0;
        let mut q = 0.0;
        for place in (0..self.masses.len()).rev() {
            let loss = self.loss(place);
            let mass = self.mass(place);
            let under_q = mass * (-loss).exp();
            if q + under_q >= rate {
                let part = p + (rate - q) * loss.exp();
                let hidden = self.beyond + self.hidden_above(loss - self.spacing);
                return (part * (1.0 + self.rounding) + hidden).min(1.0);
            }
            p += mass;
            q += under_q;
        }
        1.0
    }
}

/// The result of a search in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WindowAnswer {
    /// The root.
    At(f64),
    /// The root is at or below the floor, or below the window.
    Below,
    /// There is no root: the mass beyond the window is already too much.
    Never,
}

/// Returns ln Σ masses·e^{u·loss} for u ≥ 0, too large by rounding at most: as a polynomial in e^{−uh}, from the last place down.
fn tilted_sum(cells: &Cells, spacing: f64, tilt: f64) -> f64 {
    let shrink = (-tilt * spacing).exp();
    let sum = cells.masses.iter().fold(0.0, |sum, mass| sum * shrink + mass);
    // Terms that f64 lost at its lower end are negligible beside a sum above this.
    if sum < 1e-280 {
        return tilted_sum_of_logarithms(cells, spacing, tilt);
    }
    let last = cells.first + cells.masses.len() as i64 - 1;
    // Each place rounds twice.
    sum.ln() + tilt * last as f64 * spacing + 2.0 * f64::EPSILON * cells.masses.len() as f64
}

/// Computes the same sum by logarithms, for masses that matter far below the last place.
fn tilted_sum_of_logarithms(cells: &Cells, spacing: f64, tilt: f64) -> f64 {
    let losses = (cells.first..).map(|index| index as f64 * spacing);
    let terms = || cells.masses.iter().zip(losses.clone()).filter(|(mass, _)| **mass > 0.0);
    let exponents = || terms().map(|(mass, loss)| mass.ln() + tilt * loss);
    let top = exponents().fold(f64::NEG_INFINITY, f64::max);
    top + exponents().map(|exponent| (exponent - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(masses: Vec<f64>) -> Cells {
        Cells { first: -7, masses, ln_scale: 0.0, infinite: 0.0, dropped: 0.0 }
    }

    #[test]
    fn tilted_sums_are_those_of_logarithms_and_no_less() {
        let bell = |i: i32| (-0.5 * (f64::from(i) / 9.0).powi(2)).exp();
        let ends_in_nothing = [vec![1.0], vec![0.0; 4000]].concat();
        for masses in [(-40..40).map(bell).collect(), vec![1e-300; 50], ends_in_nothing, vec![0.3]] {
            for tilt in [0.0, 0.7, 30.0, 400.0] {
                let cells = cells(masses.clone());
                let plain = tilted_sum_of_logarithms(&cells, 0.05, tilt);
                let fast = tilted_sum(&cells, 0.05, tilt);
                let off = fast - plain;
                assert!(off.abs() <= 3e-12 * (1.0 + plain.abs()), "{tilt}: {fast} for {plain}");
                assert!(off >= -1e-15 * (1.0 + plain.abs()), "{tilt}: {off} below");
            }
        }
    }
}
