//! General bands (papers/001) for RmsLoss by the covariance recursion, O(n·p²) an evaluation.
//!
//! Every column is normalised, so for p ≤ min_sep the sensitivity is √min(k, ⌈n/b⌉) whatever the parameters
//! are and the error alone is minimised. The search starts at the column-normalised optimal Toeplitz strategy.

use ndarray::Array2;

use super::band_toeplitz::optimal_column;
use super::lbfgs::{Limits, Watch, minimise};
use super::{Objective, Optimised, ProgressFn, Target};
use crate::banded::Banded;
use crate::column_normalised;
use crate::covariance::error_gradient;
use crate::dense::{Dense, MAX_DENSE};
use crate::error::{Result, StrategyError, invalid};
use crate::mechanism::Strategy;

const LIMITS: Limits = Limits { steps: 500, tolerance: 1e-9 };

/// Most rounds of a dense optimisation: a step costs O(n³).
pub(super) const MAX_DENSE_ROUNDS: u64 = 512;

pub(super) fn optimise(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    let mut watch = Watch::new(progress);
    let (banded, converged) = search("band-mf", bands, target, &mut watch)?;
    Optimised::evaluate(Strategy::BandMf(banded), target, watch.search(converged))
}

/// A dense strategy for one participation is the band strategy with as many bands as rounds.
pub(super) fn optimise_dense(target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    let n = target.iterations;
    if n == 0 || n > MAX_DENSE_ROUNDS || n > MAX_DENSE as u64 {
        let why = format!("a dense optimisation takes 1 to {MAX_DENSE_ROUNDS} iterations, not {n}");
        return Err(StrategyError::NotOptimisable { mechanism: "dense", why });
    }
    let mut watch = Watch::new(progress);
    let (banded, converged) = search("dense", n as usize, target, &mut watch)?;
    let size = n as usize;
    let c = Array2::from_shape_fn((size, size), |(i, j)| banded.entry(i, j));
    Optimised::evaluate(Strategy::Dense(Dense::new(c)?), target, watch.search(converged))
}

fn search(name: &'static str, bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Result<(Banded, bool)> {
    let refuse = |why: &str| StrategyError::NotOptimisable { mechanism: name, why: why.into() };
    if target.objective != Objective::Rms {
        return Err(refuse("only the rms loss is smooth in general bands"));
    }
    let rule = target.participation;
    if rule.in_rounds(target.iterations) > 1 && bands as u64 > rule.min_sep {
        return Err(refuse("more bands than min_sep let one user's columns overlap"));
    }
    if target.iterations.saturating_mul(bands as u64) > 1 << 24 {
        return Err(invalid("iterations × bands", target.iterations.saturating_mul(bands as u64), "to 2^24"));
    }
    let start = optimal_column(bands, target, watch)?;
    let banded = column_normalised::columns(&start.c, target.iterations)?;
    let shape = banded.columns().dim();
    let free = banded.columns().iter().copied().collect();
    let found = minimise(free, LIMITS, watch, |x, g| ln_loss(x, g, shape, rule.in_rounds(target.iterations)));
    Ok((from_free(&found.x, shape)?.normalised(), found.converged))
}

fn from_free(x: &[f64], shape: (usize, usize)) -> Result<Banded> {
    let columns = Array2::from_shape_vec(shape, x.to_vec())
        .map_err(|e| invalid("shape of columns", e, "(iterations, bands)"))?;
    Banded::new(columns)
}

fn ln_loss(x: &[f64], gradient: &mut [f64], shape: (usize, usize), count: u64) -> f64 {
    // A diagonal that is not positive is outside the search; the line search steps back.
    let Ok(raw) = from_free(x, shape) else { return f64::INFINITY };
    let banded = raw.normalised();
    let (error, error_c) = error_gradient(&banded);
    let (n, p) = shape;
    for j in 0..n {
        let inside = p.min(n - j);
        let (c, g) = (banded.columns().row(j), error_c.row(j));
        let norm = (0..inside).map(|i| raw.columns()[[j, i]].powi(2)).sum::<f64>().sqrt();
        let along: f64 = (0..inside).map(|i| c[i] * g[i]).sum();
        for i in 0..p {
            let free = if i < inside { (g[i] - c[i] * along) / norm } else { 0.0 };
            gradient[j * p + i] = 0.5 * free / error;
        }
    }
    0.5 * (error * count as f64).ln()
}
