//! Independent scores of two populations: canaries that were included, and others.
//!
//! Thresholds are order statistics of the excluded scores, of ranks that depend on their number alone. The share of all excluded
//! scores above the k-th largest of n has a Beta(k, n−k+1) distribution at most, whatever theirs is, and the included
//! scores, which the threshold does not depend on, are above it binomially. So both limits hold exactly, and a union
//! over thresholds pays for choosing the best.

use super::binomial::{lower_limit, upper_limit};
use super::claim::{Bound, Claim, Method, smallest};
use crate::error::Result;
use crate::gaussian::{self, bisect};
use crate::normal::ln_cdf;

/// Relative room below a bound for the rounding of quantiles and of ε from μ.
const ROOM: f64 = 1e-9;

/// Halvings of the search for a p-value; the end above is taken.
const HALVINGS: u32 = 12;

/// ln of the smallest p-value that differs from zero.
const LEAST_LN_P: f64 = -28.0;

/// How many scores of either kind are above a threshold, of how many.
#[derive(Debug, Clone, Copy)]
struct Threshold {
    /// Excluded scores above it, had all been unlike.
    false_positives: u64,
    excluded: u64,
    true_positives: u64,
    included: u64,
}

impl Threshold {
    /// Returns the lower bound of ε if this threshold alone were used at `alpha`.
    fn epsilon(self, delta: f64, alpha: f64, method: Method) -> f64 {
        let most_false = upper_limit(self.false_positives, self.excluded, alpha / 2.0);
        let least_true = lower_limit(self.true_positives, self.included, alpha / 2.0);
        if most_false >= 1.0 || least_true <= most_false {
            return 0.0;
        }
        let found = match method {
            Method::Gaussian => of_gaussian(least_true, most_false, delta),
            // A region and its complement: TPR ≤ e^ε·FPR + δ, and 1 − FPR ≤ e^ε·(1 − TPR) + δ.
            Method::OneRun | Method::ClopperPearson => {
                let above = ((least_true - delta).max(0.0) / most_false).ln();
                let below = ((1.0 - most_false - delta).max(0.0) / (1.0 - least_true)).ln();
                above.max(below)
            }
        };
        (found * (1.0 - ROOM)).max(0.0)
    }
}

/// Returns ε at δ of the Gaussian mechanism whose best test has these error rates.
fn of_gaussian(least_true: f64, most_false: f64, delta: f64) -> f64 {
    let mu = (quantile(least_true) - quantile(most_false)) * (1.0 - ROOM);
    if mu <= 0.0 { 0.0 } else { gaussian::epsilon(delta, mu).unwrap_or(0.0) }
}

/// Returns Φ⁻¹(p).
fn quantile(p: f64) -> f64 {
    // The far tail of either side keeps its digits.
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    let goal = p.ln();
    bisect(-40.0, 40.0, |x| ln_cdf(x) >= goal).0
}

pub(super) fn bound(included: &[f64], excluded: Vec<f64>, claim: Claim, method: Method) -> Result<Bound> {
    let canaries = (included.len() + excluded.len()) as u64;
    let fewest = included.len().min(excluded.len()) as u64;
    if !can_refute(fewest, claim, method) {
        return Err(claim.too_few(2 * fewest, needed(claim, method)));
    }
    let thresholds = thresholds(included, excluded);
    let best = best(&thresholds, claim.delta, claim.alpha(), method);
    Ok(Bound {
        method,
        epsilon_lower: best.0,
        p_value: p_value(&thresholds, claim, method),
        canaries,
        guesses: canaries,
        correct: best.1.true_positives + best.1.excluded - best.1.false_positives,
    })
}

fn thresholds(included: &[f64], mut excluded: Vec<f64>) -> Vec<Threshold> {
    excluded.sort_by(|a, b| b.total_cmp(a));
    let at = |&rank: &u64| Threshold {
        false_positives: rank - 1,
        excluded: excluded.len() as u64,
        true_positives: included.iter().filter(|&&score| score > excluded[rank as usize - 1]).count() as u64,
        included: included.len() as u64,
    };
    ranks(excluded.len() as u64).iter().map(at).collect()
}

/// Returns the ranks 1, 2, 4, … from either end of n scores.
fn ranks(n: u64) -> Vec<u64> {
    let powers = || {
        std::iter::successors(Some(1), |power| Some(power * 2)).take_while(|&power| power <= n.div_ceil(2))
    };
    let mut ranks: Vec<u64> = powers().chain(powers().map(|power| n + 1 - power)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

fn best(thresholds: &[Threshold], delta: f64, alpha: f64, method: Method) -> (f64, Threshold) {
    let share = alpha / thresholds.len() as f64;
    let nothing = (0.0, Threshold { false_positives: 0, excluded: 0, true_positives: 0, included: 0 });
    let first = thresholds.first().map_or(nothing, |&threshold| (0.0, threshold));
    thresholds.iter().fold(first, |best, &threshold| {
        let epsilon = threshold.epsilon(delta, share, method);
        if epsilon > best.0 { (epsilon, threshold) } else { best }
    })
}

/// Returns the smallest 1 − confidence at which the claim is refuted, rounded up.
fn p_value(thresholds: &[Threshold], claim: Claim, method: Method) -> f64 {
    let refutes = |ln_p: f64| {
        let share = ln_p.exp() / thresholds.len() as f64;
        thresholds.iter().any(|threshold| threshold.epsilon(claim.delta, share, method) > claim.epsilon)
    };
    if !refutes(-ROOM) {
        return 1.0;
    }
    let mut low = LEAST_LN_P;
    let mut high = -ROOM;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if refutes(middle) { high = middle } else { low = middle }
    }
    high.exp()
}

/// Returns whether this many scores of either kind, all on their own side, refute a claim.
fn can_refute(each: u64, claim: Claim, method: Method) -> bool {
    if each == 0 {
        return false;
    }
    let apart = Threshold { false_positives: 0, excluded: each, true_positives: each, included: each };
    let share = claim.alpha() / ranks(each).len() as f64;
    apart.epsilon(claim.delta, share, method) > claim.epsilon
}

/// Returns the fewest scores, half of them of either kind, that can refute a claim.
pub(super) fn needed(claim: Claim, method: Method) -> Option<u64> {
    smallest(|each| can_refute(each, claim, method)).map(|each| 2 * each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_read_as_both_inequalities() {
        // 95 of 100 above, 10 of 100 above: limits of scipy 1.17 at 0.025 each are 0.8871651 and 0.1762226.
        let threshold = Threshold { false_positives: 10, excluded: 100, true_positives: 95, included: 100 };
        let found = threshold.epsilon(0.01, 0.05, Method::ClopperPearson);
        let above = ((0.887_165_1f64 - 0.01) / 0.176_222_6).ln();
        let below = ((1.0f64 - 0.176_222_6 - 0.01) / (1.0 - 0.887_165_1)).ln();
        assert!((found - above.max(below)).abs() < 1e-5, "{found} {above} {below}");
        let mirrored = Threshold { false_positives: 5, true_positives: 90, ..threshold };
        assert!((mirrored.epsilon(0.01, 0.05, Method::ClopperPearson) - found).abs() < 1e-6, "symmetric");
    }

    #[test]
    fn a_gaussian_bound_is_the_epsilon_of_its_mu() {
        let epsilon = of_gaussian(0.841_344_746_068_543, 0.5, 1e-5);
        let exact = gaussian::epsilon(1e-5, 1.0).unwrap();
        assert!((epsilon - exact).abs() < 1e-6 && epsilon < exact, "{epsilon} {exact}");
        assert!((quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-12);
    }

    #[test]
    fn ranks_depend_on_the_number_alone_and_are_valid() {
        for n in 1..200 {
            let ranks = ranks(n);
            assert!(ranks.iter().all(|&rank| (1..=n).contains(&rank)) && ranks[0] == 1, "{n}: {ranks:?}");
        }
        assert_eq!(ranks(10), [1, 2, 4, 7, 9, 10]);
    }

    #[test]
    fn the_number_needed_is_the_smallest() {
        for method in [Method::ClopperPearson, Method::Gaussian] {
            let claim = Claim { epsilon: 2.0, delta: 1e-5, confidence: 0.99 };
            let needed = needed(claim, method).unwrap();
            assert!(can_refute(needed / 2, claim, method) && !can_refute(needed / 2 - 1, claim, method));
        }
    }
}
