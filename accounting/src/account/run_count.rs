//! The random number of runs of a selection: its distribution, and how it is drawn.

use crate::error::{AccountingError, Result, not_negative, positive};
use crate::gaussian::bisect;

/// Below this, what is left of a distribution is less than f64 adds to a sum near 1.
const LN_NOTHING: f64 = -45.0;

/// The distribution of the number of runs of [`Event::RepeatAndSelect`](crate::Event::RepeatAndSelect): truncated negative
/// binomial where it has a shape, else Poisson (Papernot and Steinke 2021, Definitions 1 and 5).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunCount {
    mean: f64,
    shape: Option<f64>,
}

impl RunCount {
    /// Checks the distribution with a mean, and a shape η ≥ 0 or none.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] for a mean below 1 of a truncated negative binomial number, one of 0 or below of a Poisson
    /// number, and a negative shape.
    pub fn new(mean: f64, shape: Option<f64>) -> Result<Self> {
        match shape {
            Some(shape) => {
                not_negative("shape of the number of runs", shape)?;
                if !(mean.is_finite() && mean >= 1.0) {
                    let allowed = "finite and at least 1";
                    return Err(AccountingError::Invalid {
                        what: "mean number of runs",
                        value: mean,
                        allowed,
                    });
                }
            }
            None => {
                positive("mean number of runs", mean)?;
            }
        }
        Ok(Self { mean, shape })
    }

    /// Returns ln γ of the truncated negative binomial distribution, rounded down; 0 for a Poisson number, which has none.
    pub(super) fn ln_gamma(self) -> f64 {
        let Some(shape) = self.shape else { return 0.0 };
        // E[K] = η(1−γ)/(γ(1−γ^η)), which is (1/γ − 1)/ln(1/γ) at η = 0, in g = −ln γ.
        let of = |g: f64| match shape {
            0.0 => g.exp_m1() / g,
            _ => shape * g.exp_m1() / -(-shape * g).exp_m1(),
        };
        if self.mean == 1.0 {
            return 0.0;
        }
        -bisect(1e-12, 700.0, |g| of(g) >= self.mean).1
    }

    /// Returns the least number of runs and the logarithm of its probability.
    fn ln_first(self, ln_rest: f64) -> (u64, f64) {
        match self.shape {
            None => (0, -self.mean),
            Some(0.0) => (1, ln_rest - (-self.ln_gamma()).ln()),
            // η(1−γ)/(γ^{−η} − 1)
            Some(shape) => (1, shape.ln() + ln_rest - (-shape * self.ln_gamma()).exp_m1().ln()),
        }
    }

    /// Returns the number of runs at a quantile: where `uniform` is uniform in `[0, 1)`, a draw from the distribution, as
    /// near as f64 sums its probabilities.
    #[must_use]
    pub fn quantile(self, uniform: f64) -> u64 {
        if self.shape.is_some() && self.mean == 1.0 {
            return 1;
        }
        // ln(1 − γ)
        let ln_rest = (-self.ln_gamma().exp_m1()).ln();
        let (mut runs, mut ln_p) = self.ln_first(ln_rest);
        let mut below = ln_p.exp();
        // Past the mean probabilities fall; what f64 can't tell from nothing is not walked through.
        while below <= uniform && (ln_p > LN_NOTHING || (runs as f64) < self.mean) {
            let k = runs as f64;
            ln_p += match self.shape {
                None => (self.mean / (k + 1.0)).ln(),
                Some(shape) => ln_rest + ((k + shape) / (k + 1.0)).ln(),
            };
            runs += 1;
            below += ln_p.exp();
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    fn drawn(mean: f64, shape: Option<f64>) -> Vec<u64> {
        let runs = RunCount::new(mean, shape).unwrap();
        (0..DRAWS).map(|i| runs.quantile((i as f64 + 0.5) / DRAWS as f64)).collect()
    }

    #[test]
    fn quantiles_have_the_mean_that_is_accounted_for() {
        for (mean, shape) in [
            (20.0, None),
            (0.5, None),
            (20.0, Some(1.0)),
            (20.0, Some(0.5)),
            (7.0, Some(0.0)),
            (1.0, Some(2.0)),
        ] {
            let found = drawn(mean, shape).iter().sum::<u64>() as f64 / DRAWS as f64;
            assert!((found / mean - 1.0).abs() < 2e-3, "{mean} {shape:?}: {found}");
        }
    }

    /// Against closed forms: Poisson e^{−m}m^k/k!, geometric γ(1−γ)^{k−1}, logarithmic (1−γ)^k/(k ln(1/γ)).
    #[test]
    fn quantiles_have_the_probabilities_of_closed_forms() {
        let share =
            |drawn: &[u64], k: u64| drawn.iter().filter(|runs| **runs == k).count() as f64 / DRAWS as f64;
        let poisson = drawn(3.0, None);
        let geometric = drawn(4.0, Some(1.0));
        let logarithmic = drawn(7.0, Some(0.0));
        let gamma = RunCount::new(7.0, Some(0.0)).unwrap().ln_gamma().exp();
        for k in 0..12u64 {
            let factorial: f64 = (1..=k).map(|i| i as f64).product();
            let of_poisson = (-3f64).exp() * 3f64.powi(k as i32) / factorial;
            assert!((share(&poisson, k) - of_poisson).abs() < 2e-5, "{k}");
            if k == 0 {
                assert_eq!((share(&geometric, 0), share(&logarithmic, 0)), (0.0, 0.0));
                continue;
            }
            let of_geometric = 0.25 * 0.75f64.powi(k as i32 - 1);
            assert!((share(&geometric, k) - of_geometric).abs() < 2e-5, "{k}");
            let of_logarithmic = (1.0 - gamma).powi(k as i32) / (k as f64 * -gamma.ln());
            assert!((share(&logarithmic, k) - of_logarithmic).abs() < 2e-5, "{k}");
        }
    }

    #[test]
    fn the_last_quantile_ends() {
        for (mean, shape) in [(1000.0, None), (1000.0, Some(1.0)), (1000.0, Some(0.0)), (0.1, None)] {
            let last = RunCount::new(mean, shape).unwrap().quantile(1.0 - f64::EPSILON / 2.0);
            assert!(last as f64 > mean && (last as f64) < 1e6, "{mean} {shape:?}: {last}");
        }
    }
}
