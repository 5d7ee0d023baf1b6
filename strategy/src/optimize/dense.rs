//! Dense strategies on any workload (McKenna 2024): X = CᵀC is free where no participation rule ties it down.
//!
//! All columns have norm one, and X_ij = 0 where rounds i ≠ j can both be one user's, so the sensitivity is
//! √min(k, ⌈n/b⌉) for any signs. tr(AᵀWA·X⁻¹) is convex in X, so the search ends at the least loss of such strategies.

use ndarray::Array2;

use super::band_toeplitz::optimal_column;
use super::lbfgs::{Limits, Watch, minimise};
use super::row_loss::RowLoss;
use super::{Optimized, ProgressFn, Target};
use crate::column_normalised;
use crate::dense::Dense;
use crate::dense_loss::DenseLoss;
use crate::error::{Result, StrategyError};
use crate::participation::Sensitivity;
use crate::strategy::Strategy;
use crate::workload::{LearningRates, Workload, materialise};

/// Most rounds: a step costs some 4·n³ operations.
const MAX_ROUNDS: u64 = 1024;
/// Bands of the Toeplitz strategy at the start: more are expensive to find, and a few steps make up for them.
const START_BANDS: usize = 32;
const LIMITS: Limits = Limits { steps: 500, tolerance: 1e-8 };
/// Limits of a stage that another stage follows.
const ROUGH: Limits = Limits { steps: 200, tolerance: 1e-7 };

/// When two rounds of one user can both be participations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Rounds at least min_sep apart.
    MinSep,
    /// Rounds that are a multiple of min_sep apart: every epoch has the same order.
    FixedEpoch,
}

pub(super) fn optimize(rule: Rule, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    let n = target.iterations;
    if n > MAX_ROUNDS {
        let why = format!("a dense optimization takes 1 to {MAX_ROUNDS} iterations, not {n}");
        return Err(StrategyError::NotOptimizable { mechanism: "dense", why });
    }
    if rule == Rule::FixedEpoch && !target.over_participations.is_empty() {
        let why = "a fixed order has one period; several separations belong to min-sep".into();
        return Err(StrategyError::NotOptimizable { mechanism: "dense", why });
    }
    let mut watch = Watch::new(progress);
    let mut search = Search::new(rule, target, &mut watch)?;
    let converged = search.run(&mut watch);
    let strategy = Strategy::Dense(Dense::new(search.best)?);
    let found = Optimized::evaluate(strategy, target, watch.search(converged))?;
    Ok(if rule == Rule::FixedEpoch { with_fixed_order(found, target) } else { found })
}

/// Under a fixed order no participations but multiples of min_sep apart exist, so the columns of one user are
/// orthogonal and the sensitivity is known.
fn with_fixed_order(mut found: Optimized, target: &Target) -> Optimized {
    let sensitivity = Sensitivity::exact_squared(target.participation.in_rounds(target.iterations) as f64);
    let ratio = sensitivity.value / found.sensitivity.value;
    found.sensitivity = sensitivity;
    found.rms_loss *= ratio;
    found.max_loss *= ratio;
    found.loss *= ratio;
    found
}

struct Search<'a> {
    n: usize,
    target: &'a Target,
    loss: DenseLoss,
    /// Entries below the diagonal that are free, (row, column).
    free: Vec<(usize, usize)>,
    /// X, of which the lower half counts.
    x: Array2<f64>,
    /// C of the least error of the objective itself so far.
    best: Array2<f64>,
    least: f64,
}

impl<'a> Search<'a> {
    fn new(rule: Rule, target: &'a Target, watch: &mut Watch<'_, '_>) -> Result<Self> {
        let n = target.iterations as usize;
        let together = |apart: usize| {
            target.rules().iter().filter(|one| one.in_rounds(target.iterations) > 1).any(|one| match rule {
                Rule::MinSep => apart as u64 >= one.min_sep,
                Rule::FixedEpoch => (apart as u64).is_multiple_of(one.min_sep),
            })
        };
        let below = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
        let free = below.filter(|(i, j)| !together(i - j)).collect();
        let loss = DenseLoss::new(n, written_out(&target.workload, n)?);
        let x = Array2::eye(n);
        let best = Array2::eye(n);
        let mut search = Self { n, target, loss, free, x, best, least: f64::INFINITY };
        search.keep();
        let bands = (1..n.min(START_BANDS)).take_while(|apart| !together(*apart)).count() + 1;
        let start = gram(bands, &toeplitz(target), watch)?;
        let identity = std::mem::replace(&mut search.x, start);
        if !search.keep() {
            search.x = identity;
        }
        Ok(search)
    }

    /// All stages of the loss; true when the last one settled.
    fn run(&mut self, watch: &mut Watch<'_, '_>) -> bool {
        let mut loss = RowLoss::first(&self.target.objective, self.n);
        loop {
            let limits = if loss.is_rough() { ROUGH } else { LIMITS };
            let converged = self.descend(limits, &loss, watch);
            match loss.next(&self.target.objective, self.n) {
                Some(next) if !watch.stopped => loss = next,
                _ => return converged,
            }
        }
    }

    fn descend(&mut self, limits: Limits, row_loss: &RowLoss, watch: &mut Watch<'_, '_>) -> bool {
        let Self { n, target, loss, free, x, .. } = self;
        let ln_sensitivity = 0.5 * (target.participation.in_rounds(target.iterations) as f64).ln();
        let mut weights = vec![0.0; *n];
        let mut by_x = Array2::zeros((*n, *n));
        let start = free.iter().map(|at| x[*at]).collect();
        let found = minimise(start, limits, watch, |values, gradient| {
            free.iter().zip(values).for_each(|(at, value)| x[*at] = *value);
            // Outside the positive definite matrices the line search steps back.
            let Some(squared) = loss.errors(x.view()) else { return f64::INFINITY };
            let ln_error = row_loss.ln_error(squared, &mut weights);
            if ln_error.is_finite() {
                loss.gradient(&weights, &mut by_x);
                gradient.iter_mut().zip(free.iter()).for_each(|(g, at)| *g = 2.0 * by_x[*at]);
            }
            ln_error + ln_sensitivity
        });
        free.iter().zip(&found.x).for_each(|(at, value)| x[*at] = *value);
        self.keep();
        found.converged
    }

    /// Keeps C if it is the best for the objective itself; true if it is.
    fn keep(&mut self) -> bool {
        let Some(squared) = self.loss.errors(self.x.view()) else { return false };
        let error = self.target.objective.error(squared);
        let better = error < self.least;
        if better {
            self.least = error;
            self.best.assign(self.loss.root());
        }
        better
    }
}

/// A where running sums don't do.
fn written_out(workload: &Workload, n: usize) -> Result<Option<Array2<f64>>> {
    Ok(match workload {
        Workload::Prefix => None,
        Workload::Dense(matrix) => Some(matrix.as_ref().clone()),
        Workload::Streaming(operator) => Some(materialise(operator.as_ref(), n)?),
        other => {
            let mut matrix = Array2::zeros((n, n));
            for j in 0..n {
                let mut rounds = other.rounds();
                for i in 0..n {
                    matrix[[i, j]] = rounds.next(if i == j { 1.0 } else { 0.0 });
                }
            }
            Some(matrix)
        }
    })
}

/// The setting with a Toeplitz workload near the given one, for a start.
fn toeplitz(target: &Target) -> Target {
    let mut target = target.clone();
    target.workload = match target.workload {
        Workload::Momentum(mut momentum) => {
            momentum.learning_rates = LearningRates::Constant;
            Workload::Momentum(momentum)
        }
        Workload::Toeplitz(column) => Workload::Toeplitz(column),
        _ => Workload::Prefix,
    };
    target
}

/// X of the column-normalised optimal Toeplitz strategy.
fn gram(bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Result<Array2<f64>> {
    let column = optimal_column(bands, target, watch)?.c;
    let banded = column_normalised::columns(&column, target.iterations)?;
    let n = target.iterations as usize;
    let c = Array2::from_shape_fn((n, n), |(i, j)| banded.entry(i, j));
    Ok(c.t().dot(&c))
}
