//! Banded Toeplitz coefficients and scales of their columns, from the optimum without scales.
//!
//! Where the bands are at most min_sep, columns are normalised besides: the last p − 1 are cut short by the end of the run,
//! and would use less than what one user may move. A second search has these norms in its loss.

use super::choice::better;
use super::normalised::Normalised;
use super::problem::Problem;
use crate::decoder::{Decoder, transposed_solve};
use crate::error::Result;
use crate::numeric::dot;
use crate::optimize::band_toeplitz::{column, free, optimal_column, pull, units};
use crate::optimize::lbfgs::{Limits, Watch, minimise_in};
use crate::optimize::monotone::decoder;
use crate::optimize::{Optimized, ProgressFn, Target};
use crate::scaled::{Base, Scaled};
use crate::strategy::Strategy;

const LIMITS: Limits = Limits { steps: 1000, tolerance: 1e-9 };
/// Most rounds of the second search, whose evaluations are O(n²). Where a run is longer, its last columns are few.
const MOST_NORMALISED: usize = 1 << 13;

/// Optimizes a band-Toeplitz strategy with a scale for each participation.
pub(in crate::optimize) fn optimize(
    bands: usize,
    target: &Target,
    progress: &mut ProgressFn<'_>,
) -> Result<Optimized> {
    let Some(problem) = Problem::new("band-toeplitz", target)? else {
        return crate::optimize::band_toeplitz::optimize(bands, target, progress);
    };
    let mut watch = Watch::new(progress);
    let start = optimal_column(bands, target, &mut watch)?;
    let decoder = decoder("band-toeplitz", target)?;
    let mut x = free(&start.c);
    x.extend(problem.start());
    let limits = Limits { tolerance: LIMITS.tolerance.max(target.least_gain), ..LIMITS };
    let units = problem.units(units(bands));
    let found = minimise_in(&units, x, limits, &mut watch, |x, gradient| {
        ln_loss(&problem, &decoder, bands, x, gradient)
    });
    let column_normalised = bands <= problem.gap;
    let found = if column_normalised && problem.n <= MOST_NORMALISED && !watch.stopped {
        let normalised = Normalised::new(&problem, bands);
        minimise_in(&units, found.x, limits, &mut watch, |x, gradient| normalised.ln_loss(x, gradient))
    } else {
        found
    };
    let (x, ratios) = found.x.split_at(bands - 1);
    let base = Base::BandToeplitz { c: column(x), column_normalised };
    let scaled = Scaled::new(base, problem.scales(ratios)?)?;
    let scaled = Optimized::evaluate(Strategy::Scaled(scaled), target, watch.search(found.converged))?;
    let equal = Strategy::BandToeplitz { c: start.c, column_normalised: false };
    Ok(better(Optimized::evaluate(equal, target, start.search)?, scaled))
}

fn ln_loss(problem: &Problem, decoder: &Decoder, bands: usize, x: &[f64], gradient: &mut [f64]) -> f64 {
    let (x, ratios) = x.split_at(bands - 1);
    let c = column(x);
    // b until it has settled, and from there on its limit.
    let head = decoder.column(&c);
    let total: f64 = c.iter().sum();
    let mut b = head.clone();
    b.resize(problem.n, 1.0 / total);
    let loss = problem.ln_loss(&c, &b, ratios);
    let mut by = loss.by_c;
    // C·b = 1: ∂/∂c_j = −Σ_i λ_i·b_{i−j} with Cᵀλ = ∂/∂b; the limit 1/Σc has the same derivative by every c_j.
    let (by_head, by_limit) = loss.by_b.split_at(head.len());
    let lambda = transposed_solve(&c, by_head);
    let limit = by_limit.iter().sum::<f64>() / (total * total);
    for (j, by) in by.iter_mut().enumerate() {
        *by -= dot(lambda.get(j..).unwrap_or_default(), &head) + limit;
    }
    let (by_x, by_ratios) = gradient.split_at_mut(bands - 1);
    pull(x, &c, &by, by_x);
    by_ratios.copy_from_slice(&loss.by_ratios);
    loss.value
}
