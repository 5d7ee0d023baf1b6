//! C⁻¹ of every strategy as a streaming operator: round t takes z_t and returns the correlated noise of that round.

use std::borrow::Cow;

use super::Strategy;
use crate::blt::Blt;
use crate::column_normalised;
use crate::error::{Result, StrategyError};
use crate::scaled::Base;
use crate::series::convolve_at;
use crate::workload::Rounds;

/// Returns C⁻¹ from round 0 of a run of `n`, in the plainest form.
///
/// # Errors
/// [`StrategyError::NoMatrix`] for trees; [`StrategyError::Invalid`] for unusable parameters.
pub(crate) fn rounds(strategy: &Strategy, n: usize) -> Result<Box<dyn Rounds + '_>> {
    let n64 = n as u64;
    Ok(match strategy {
        Strategy::Tree(_) => return Err(StrategyError::NoMatrix { mechanism: strategy.name() }),
        Strategy::Blt(blt) => self::blt(blt),
        Strategy::BandMf(banded) => stepping(move |t, z, past| {
            let reach = t.min(banded.bands() - 1);
            let earlier: f64 = (1..=reach).map(|i| banded.entry(t, t - i) * past[t - i]).sum();
            (z - earlier) / banded.entry(t, t)
        }),
        Strategy::Dense(dense) => stepping(move |t, z, past| {
            let row = dense.matrix().row(t);
            let earlier: f64 = row.iter().zip(past).map(|(c, x)| c * x).sum();
            (z - earlier) / row[t]
        }),
        Strategy::BandToeplitz { c, column_normalised: true } => {
            // C = T·diag(1/ν), so C⁻¹z is T⁻¹z with entry t times ν_t.
            let norm = column_normalised::norms(c, n);
            let mut past = Vec::new();
            stepping(move |t, z, _| {
                let out = (z - convolve_at(c, &past, t)) / c[0];
                past.push(out);
                out * norm(t)
            })
        }
        Strategy::Scaled(scaled) => {
            let mut base = match scaled.base() {
                Base::BandToeplitz { c, .. } => toeplitz(c.into()),
                Base::Blt(blt) => self::blt(blt),
            };
            let factor = scaled.factors(n);
            stepping(move |t, z, _| base.next(z) / factor(t))
        }
        _ => match strategy.inverse_bands(n64)? {
            Some(s) => {
                let mut drawn: Vec<f64> = Vec::new();
                stepping(move |t, z, _| {
                    let out = s[0] * z + convolve_at(&s, &drawn, t);
                    drawn.push(z);
                    out
                })
            }
            None => toeplitz(strategy.bands(n64)?.into()),
        },
    })
}

fn blt(blt: &Blt) -> Box<dyn Rounds + '_> {
    let mut state = vec![0.0; blt.buffers()];
    stepping(move |_, z, _| {
        let out = z - blt.omega().iter().zip(&state).map(|(w, s)| w * s).sum::<f64>();
        state.iter_mut().zip(blt.theta()).for_each(|(s, t)| *s = *s * t + out);
        out
    })
}

fn toeplitz(c: Cow<'_, [f64]>) -> Box<dyn Rounds + '_> {
    stepping(move |t, z, past| (z - convolve_at(&c, past, t)) / c[0])
}

/// An operator from (round, z, its own past results) to the round's result.
fn stepping<'a>(step: impl FnMut(usize, f64, &[f64]) -> f64 + 'a) -> Box<dyn Rounds + 'a> {
    Box::new(Stepping { past: Vec::new(), step })
}

struct Stepping<F> {
    past: Vec<f64>,
    step: F,
}

impl<F: FnMut(usize, f64, &[f64]) -> f64> Rounds for Stepping<F> {
    fn next(&mut self, x: f64) -> f64 {
        let out = (self.step)(self.past.len(), x, &self.past);
        self.past.push(out);
        out
    }
}
