//! The column-normalised Toeplitz strategy (McKenna 2024, App. K): p numbers, every column of C scaled to norm one with
//! the true, shorter columns near n. It is general band-mf with one column for all rounds.

use super::band_mf::check;
use super::band_mf_error::NormalisedError;
use super::band_toeplitz::optimal_column;
use super::lbfgs::{Limits, Watch, minimise};
use super::row_loss::RowLoss;
use super::{Optimized, ProgressFn, Target};
use crate::error::Result;
use crate::strategy::Strategy;

const LIMITS: Limits = Limits { steps: 500, tolerance: 1e-9 };

pub(super) fn optimize(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    let d = check(bands, target)?;
    let n = target.iterations as usize;
    let mut watch = Watch::new(progress);
    let mut c = optimal_column(bands, &super::band_mf::toeplitz(target), &mut watch)?.c;
    let mut error = NormalisedError::new(&d, n, bands);
    let mut columns = vec![0.0; n * bands];
    let ln_sensitivity = 0.5 * (target.participation.in_rounds(target.iterations) as f64).ln();
    // The best for the objective itself over all stages, the start included.
    let mut best = (objective(&mut error, &c, target), c.clone());
    let mut loss = RowLoss::first(&target.objective, n);
    loop {
        let found = minimise(c, LIMITS, &mut watch, |c, gradient| {
            columns.chunks_exact_mut(bands).for_each(|column| column.copy_from_slice(c));
            let value = error.ln_error(&loss, &mut columns);
            gradient.fill(0.0);
            for column in columns.chunks_exact(bands) {
                gradient.iter_mut().zip(column).for_each(|(g, by)| *g += by);
            }
            value + ln_sensitivity
        });
        c = found.x;
        let reached = objective(&mut error, &c, target);
        if reached < best.0 {
            best = (reached, c.clone());
        }
        match loss.next(&target.objective, n) {
            Some(next) if !watch.stopped => loss = next,
            _ => {
                let strategy = Strategy::BandToeplitz { c: leading_one(best.1), column_normalised: true };
                return Optimized::evaluate(strategy, target, watch.search(found.converged));
            }
        }
    }
}

/// The objective's error of one column for all rounds.
fn objective(error: &mut NormalisedError, c: &[f64], target: &Target) -> f64 {
    let raw = c.repeat(target.iterations as usize);
    error.rows(&raw).map_or(f64::INFINITY, |squared| target.objective.error(squared))
}

/// The same directions with c_0 = 1: lengths don't matter.
fn leading_one(c: Vec<f64>) -> Vec<f64> {
    let lead = c[0];
    c.into_iter().map(|c| c / lead).collect()
}
