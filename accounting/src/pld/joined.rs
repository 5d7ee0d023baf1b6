//! The worst of two pairs in one distribution: one bounds δ(ε) at ε ≥ 0, the other at ε < 0.

use super::dots::{ln_mass, shared};
use super::losses::{Loss, Losses};
use super::pair::Pair;
use crate::error::Result;
use crate::gaussian::bisect;

/// Distance of two cuts, in standard deviations, where the loss changes by less than that.
const STEP: f64 = 0.005;
/// Distance beyond which no mass of a pair is above f64's smallest, in standard deviations.
const REACH: f64 = 38.0;

/// Builds the losses whose δ(ε) is that of `above` for ε ≥ 0 and that of `below` for ε < 0, and hardly more. At ε = 0 the two
/// must agree, as they do where one pair is the other in the reverse order.
///
/// A curve that is convex in e^ε is a pair's. Each half is; and where they meet its slope may only rise, by the mass that neither
/// half has, whose loss is 0.
pub(crate) fn joined(above: &Pair, below: &Pair) -> Result<Losses> {
    let mut losses = Vec::new();
    let (_, start) = zero(above);
    let infinite = deposit(above, start, start.abs().max(above.steepest() + REACH), &mut losses);
    let (end, _) = zero(below);
    let far = -(below.steepest() + REACH);
    // The mass before the first cut counts as if it had the loss of that cut.
    let first = Loss { loss: below.at(far).loss, ln_mass: ln_mass(below.upper(), f64::NEG_INFINITY, far) };
    losses.push(first);
    deposit(below, far, end, &mut losses);
    let sum: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum();
    let rest = (1.0 - sum - infinite).max(0.0);
    losses.push(Loss { loss: 0.0, ln_mass: rest.ln() });
    Losses::of_logarithms(losses, infinite)
}

/// Returns the points next to the one where the loss is 0.
fn zero(pair: &Pair) -> (f64, f64) {
    let far = pair.steepest() + REACH;
    bisect(-far, far, |x| pair.at(x).loss > 0.0)
}

/// Adds the losses between two points. Returns the mass of P beyond the second.
fn deposit(pair: &Pair, from: f64, to: f64, losses: &mut Vec<Loss>) -> f64 {
    let step = STEP / pair.steepest().max(1.0);
    let count = ((to - from) / step).ceil().max(1.0);
    let mut here = (from, pair.at(from));
    for i in 1..=count as u64 {
        let x = from + (to - from) * (i as f64 / count);
        let there = (x, pair.at(x));
        let (down, up) = shared(pair, here, there, 0.0);
        losses.push(Loss { loss: here.1.loss, ln_mass: down.ln() });
        losses.push(Loss { loss: there.1.loss, ln_mass: up.ln() });
        here = there;
    }
    ln_mass(pair.upper(), to, f64::INFINITY).exp()
}
