//! Sensitivities of positive, non-increasing Toeplitz columns inside a search, with their gradients.

use super::Target;
use crate::decoder::{Decoder, SquareWithGradient};
use crate::error::Result;
use crate::numeric::{add, dot};
use crate::participation::Participation;

/// The decoder of a target's workload and objective.
///
/// # Errors
/// Fails as [`Decoder::new`] does.
pub(super) fn decoder(mechanism: &'static str, target: &Target) -> Result<Decoder> {
    Decoder::new(mechanism, target.iterations, &target.objective, &target.workload)
}

/// The squared loss of C = LtToep(c), c positive and non-increasing.
pub(super) fn loss_squared(c: &[f64], target: &Target, decoder: &Decoder) -> f64 {
    decoder.error_squared(c) * sensitivity_squared(c, target).value
}

/// The squared sensitivity of C = LtToep(c), c positive and non-increasing, with its gradient in c. Over several
/// rules it is the square of the mean sensitivity, so that the loss is the mean of theirs.
pub(super) fn sensitivity_squared(c: &[f64], target: &Target) -> SquareWithGradient {
    let rules = target.rules();
    let share = 1.0 / rules.len() as f64;
    let mut mean = 0.0;
    let mut gradient = vec![0.0; c.len()];
    for rule in rules {
        let one = spaced(c, target.iterations, *rule);
        mean += share * one.value.sqrt();
        add(&mut gradient, 0.5 * share / one.value.sqrt(), &one.gradient);
    }
    gradient.iter_mut().for_each(|g| *g *= 2.0 * mean);
    SquareWithGradient { value: mean * mean, gradient }
}

/// ‖C u‖² of C = LtToep(c) for participations at 0, b, 2b, …, with its gradient in c. O(p) where one user's
/// columns do not overlap, O(n + k·p) else.
fn spaced(c: &[f64], n: u64, rule: Participation) -> SquareWithGradient {
    let count = rule.in_rounds(n);
    let gap = rule.min_sep.min(n);
    if count == 1 || c.len() as u64 <= gap {
        // All columns are whole but for those that the last rounds cut.
        let whole = |j: u64| j * gap + c.len() as u64 <= n;
        let full = (0..count).rev().find(|j| whole(*j)).map_or(0, |j| j + 1);
        let mut gradient: Vec<f64> = c.iter().map(|c| 2.0 * full as f64 * c).collect();
        for j in full..count {
            add(&mut gradient[..(n - j * gap) as usize], 2.0, c);
        }
        return SquareWithGradient { value: dot(&gradient, c) / 2.0, gradient };
    }
    let count = count as usize;
    let gap = gap as usize;
    let u = crate::sensitivity::spaced_sum(c, n as usize, gap, count);
    let mut gradient = vec![0.0; c.len()];
    for j in 0..count {
        add(&mut gradient, 2.0, &u[(j * gap).min(u.len())..]);
    }
    SquareWithGradient { value: dot(&u, &u), gradient }
}
