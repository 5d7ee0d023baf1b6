//! Tails of the binomial distribution, and the Clopper–Pearson limits that they give.

use libm::lgamma;

/// Relative error that a tail may have: rounding of ln Γ up to a million trials, and much room.
pub(super) const ROUNDING: f64 = 1e-7;

/// Relative width of the bracket that a limit is the safe end of.
const WIDTH: f64 = 1e-10;

/// Most terms of the continued fraction; it takes about √n of them.
const MAX_TERMS: u32 = 1_000_000;

/// A probability and its complement, each with all its digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance {
    pub of: f64,
    pub against: f64,
}

impl Chance {
    pub(super) fn new(of: f64) -> Self {
        Self { of, against: 1.0 - of }
    }

    fn reversed(self) -> Self {
        Self { of: self.against, against: self.of }
    }
}

/// Returns P[B ≥ k] of B binomial with n trials.
pub(super) fn at_least(k: u64, n: u64, chance: Chance) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n || chance.of <= 0.0 {
        return 0.0;
    }
    if chance.against <= 0.0 {
        return 1.0;
    }
    incomplete_beta(k as f64, (n - k + 1) as f64, chance).min(1.0)
}

/// Returns ln P[B = k].
pub(super) fn ln_mass(k: u64, n: u64, chance: Chance) -> f64 {
    let ln_choose = lgamma(n as f64 + 1.0) - lgamma(k as f64 + 1.0) - lgamma((n - k) as f64 + 1.0);
    ln_choose + k as f64 * chance.of.ln() + (n - k) as f64 * chance.against.ln()
}

/// Returns the chance below which k or more of n successes are seen with probability `alpha` at most.
pub(super) fn lower_limit(k: u64, n: u64, alpha: f64) -> f64 {
    let alpha = alpha * (1.0 - ROUNDING);
    bracket(|p| at_least(k, n, Chance::new(p)) > alpha).0
}

/// Returns the chance above which k or fewer of n successes are seen with probability `alpha` at most.
pub(super) fn upper_limit(k: u64, n: u64, alpha: f64) -> f64 {
    let alpha = alpha * (1.0 - ROUNDING);
    // k or fewer successes are n − k or more failures.
    bracket(|p| at_least(n - k, n, Chance::new(p).reversed()) < alpha).1
}

/// Returns two chances near each other, between which a monotone predicate turns true.
fn bracket(holds: impl Fn(f64) -> bool) -> (f64, f64) {
    let mut low = 0.0;
    let mut high = 1.0;
    while high - low > WIDTH * high && high > f64::MIN_POSITIVE {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    (low, high)
}

/// Returns the regularised incomplete beta function I_x(a, b), x = `chance.of`.
fn incomplete_beta(a: f64, b: f64, chance: Chance) -> f64 {
    let ln_beta = lgamma(a) + lgamma(b) - lgamma(a + b);
    let front = (a * chance.of.ln() + b * chance.against.ln() - ln_beta).exp();
    // The fraction converges fast on this side of the mean alone.
    if chance.of < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, chance.of) / a
    } else {
        1.0 - front * fraction(b, a, chance.against) / b
    }
}

/// Evaluates the continued fraction of I_x(a, b) by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let floor = |value: f64| if value.abs() < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / floor(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for term in 1..=MAX_TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / floor(1.0 + even * d);
        c = floor(1.0 + even / c);
        result *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / floor(1.0 + odd * d);
        c = floor(1.0 + odd / c);
        result *= d * c;
        if (d * c - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P[B ≥ k] term by term, by Pascal's rule on the distribution itself.
    fn enumerated(k: u64, n: u64, p: f64) -> f64 {
        let mut masses = vec![1.0];
        for _ in 0..n {
            let mut next = vec![0.0; masses.len() + 1];
            for (i, mass) in masses.iter().enumerate() {
                next[i] += mass * (1.0 - p);
                next[i + 1] += mass * p;
            }
            masses = next;
        }
        masses[k as usize..].iter().sum()
    }

    #[test]
    fn tails_are_those_of_exact_enumeration() {
        for n in [1, 2, 7, 40, 300] {
            for p in [0.01, 0.3, 0.5, 0.731, 0.99] {
                for k in (0..=n).step_by((n as usize / 13).max(1)) {
                    let got = at_least(k, n, Chance::new(p));
                    let exact = enumerated(k, n, p);
                    assert!(
                        (got - exact).abs() <= 1e-11 * exact + 1e-300,
                        "{k} of {n} at {p}: {got} {exact}"
                    );
                    if k < n {
                        let mass = exact - enumerated(k + 1, n, p);
                        assert!((ln_mass(k, n, Chance::new(p)).exp() - mass).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn limits_are_published_ones_and_on_the_safe_side() {
        // scipy 1.17: beta.ppf(0.025, k, 21 − k) and beta.ppf(0.975, k + 1, 20 − k).
        for (k, low, high) in
            [(7, 0.153_909_204_784_541_18, 0.592_188_534_532_828_2), (0, 0.0, 0.168_433_470_983_085_3)]
        {
            let found = (lower_limit(k, 20, 0.025), upper_limit(k, 20, 0.025));
            assert!((found.0 - low).abs() < 1e-7 && found.0 <= low, "{found:?}");
            assert!((found.1 - high).abs() < 1e-7 && found.1 >= high, "{found:?}");
        }
        assert!(upper_limit(20, 20, 0.025) >= 1.0);
        assert!((lower_limit(20, 20, 0.025) - 0.025f64.powf(1.0 / 20.0)).abs() < 1e-8);
    }

    #[test]
    fn tails_of_a_million_trials_agree_with_the_sum_of_masses() {
        let n = 1_000_000;
        let chance = Chance::new(0.5);
        let k = 502_000;
        let sum: f64 = (k..k + 4000).map(|i| ln_mass(i, n, chance).exp()).sum();
        let tail = at_least(k, n, chance);
        assert!((tail / sum - 1.0).abs() < ROUNDING, "{tail} {sum}");
    }
}
