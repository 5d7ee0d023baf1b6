//! The cumulant K(θ) = ln E_P\[e^{θL}\] of one round's loss L, by the trapezoid rule.
//!
//! Grids, their ranges and their tilts are chosen with it. With θ = order − 1 it is the Rényi curve.

use super::class::Class;
use super::dots::{ln_mass, narrow_up_to, shared};
use super::losses::Losses;
use super::pair::{Pair, Point};

/// Quadrature nodes of one round: (ln of P's mass at the node, loss), over all classes.
#[derive(Debug, Clone)]
pub(crate) struct Cumulant {
    nodes: Vec<(f64, f64)>,
    top_loss: f64,
}

/// K(θ) = ln E_P[e^{θL}] with its first two derivatives.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    pub value: f64,
    pub mean: f64,
    pub variance: f64,
}

impl Moments {
    pub(crate) fn plus(self, other: Self, count: f64) -> Self {
        Self {
            value: self.value + count * other.value,
            mean: self.mean + count * other.mean,
            variance: self.variance + count * other.variance,
        }
    }
}

impl Cumulant {
    /// Places nodes every `step` wherever P has more than e^{`ln_tail`} of mass further out. The rest is left out, as
    /// losses of tiny probability may be so large that no tilt would see anything else. On unit Gaussians the trapezoid
    /// rule is exact to f64 already at step 0.25.
    pub(crate) fn new(classes: &[(f64, Class)], ln_tail: f64, step: f64) -> Self {
        let mut cumulant = Self { nodes: Vec::new(), top_loss: f64::NEG_INFINITY };
        for (weight, class) in classes {
            let pair = match class {
                Class::Pair(pair) => pair,
                Class::Losses(losses) => {
                    cumulant.losses(*weight, losses, ln_tail);
                    continue;
                }
            };
            let Self { nodes, top_loss } = &mut cumulant;
            let ln_mass = weight.ln() + step.ln();
            let ends = spans(pair, ln_tail).into_iter().map(|(_, to)| pair.at(to).loss);
            *top_loss = ends.fold(*top_loss, f64::max);
            for (from, to) in spans(pair, ln_tail) {
                let count = ((to - from) / step).ceil() as u64;
                nodes.extend((0..=count).map(|i| {
                    let point = pair.at(from + i as f64 * step);
                    (point.ln_density + ln_mass, point.loss)
                }));
            }
        }
        cumulant
    }

    /// Adds the nodes of losses that are known one by one.
    fn losses(&mut self, weight: f64, losses: &Losses, ln_tail: f64) {
        let (nodes, top) = losses.nodes(ln_tail);
        self.nodes.extend(nodes.map(|(mass, loss)| (mass + weight.ln(), loss)));
        self.top_loss = self.top_loss.max(top);
    }

    /// Builds a cumulant that bounds the exact one, from dots that are at most `step` apart: for θ > 0, K(θ) is never
    /// below the exact one, except for the mass above the spans.
    pub(crate) fn bounding(classes: &[(f64, Class)], ln_tail: f64, step: f64) -> Self {
        let mut bounding = Self { nodes: Vec::new(), top_loss: f64::NEG_INFINITY };
        // Keeps the smallest masses away from f64's end.
        let lift = -0.5 * ln_tail;
        for (weight, class) in classes {
            let pair = match class {
                Class::Pair(pair) => pair,
                Class::Losses(losses) => {
                    let before = bounding.nodes.len();
                    bounding.losses(*weight, losses, ln_tail);
                    bounding.nodes[before..].iter_mut().for_each(|(mass, _)| *mass += lift);
                    continue;
                }
            };
            let mut end = f64::NEG_INFINITY;
            for (from, to) in spans(pair, ln_tail) {
                let mut here = (from, pair.at(from));
                let before = (ln_mass(pair.upper(), end, from) + weight.ln() + lift).exp();
                bounding.dots(pair, (&mut here, before), to, step, weight.ln() + lift);
                bounding.top_loss = bounding.top_loss.max(here.1.loss);
                end = to;
            }
        }
        bounding.nodes.iter_mut().for_each(|(mass, _)| *mass -= lift);
        bounding
    }

    /// Adds the dots of a stretch, the first of which has some mass already.
    fn dots(
        &mut self,
        pair: &Pair,
        (here, mut mass): (&mut (f64, Point), f64),
        to: f64,
        step: f64,
        ln_unit: f64,
    ) {
        let from = here.0;
        // Somewhat nearer dots are the faster ones, where that spares the normal distribution's tails.
        let narrow = narrow_up_to(pair, from, to);
        let step = if narrow > step / 8.0 { narrow.min(step) } else { step };
        let count = ((to - from) / step).ceil().max(1.0);
        for i in 1..=count as u64 {
            let x = from + (to - from) * (i as f64 / count);
            let there = (x, pair.at(x));
            let (down, up) = shared(pair, *here, there, ln_unit);
            self.nodes.push(((mass + down).ln(), here.1.loss));
            (*here, mass) = (there, up);
        }
        self.nodes.push((mass.ln(), here.1.loss));
    }

    /// Evaluates K and its derivatives at θ.
    pub(crate) fn at(&self, theta: f64) -> Moments {
        let exponent = |(mass, loss): &(f64, f64)| mass + theta * loss;
        let top = self.nodes.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let mut first = 0.0;
        let mut second = 0.0;
        for node in &self.nodes {
            let term = (exponent(node) - top).exp();
            sum += term;
            first += term * node.1;
            second += term * node.1 * node.1;
        }
        let mean = first / sum;
        Moments { value: top + sum.ln(), mean, variance: (second / sum - mean * mean).max(0.0) }
    }

    /// Returns the largest loss at which P has more than the tail.
    pub(crate) fn top_loss(&self) -> f64 {
        self.top_loss
    }
}

/// Returns the stretches of the line around the components of P outside which P has at most e^{`ln_tail`} of mass on
/// each side, by 1−Φ(z) ≤ ½e^{−z²/2}.
pub(super) fn spans(pair: &Pair, ln_tail: f64) -> Vec<(f64, f64)> {
    let share = (pair.upper().count() as f64).ln();
    let mut spans: Vec<(f64, f64)> = pair
        .upper()
        .filter_map(|(ln_weight, shift)| {
            let reach = 2.0 * (ln_weight + share - ln_tail);
            (reach > 0.0).then(|| (shift - reach.sqrt(), shift + reach.sqrt()))
        })
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut merged: Vec<(f64, f64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}
