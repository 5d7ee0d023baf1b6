//! General bands (McKenna 2024) on any workload whose inverse is banded, by the covariance recursion.
//!
//! Every column is normalised, so for p ≤ min_sep the sensitivity is √min(k, ⌈n/b⌉) whatever the parameters
//! are and the error alone is minimised. The norms are equal, or those of [`EpochNorms`], of the same sensitivity. The
//! search starts at the column-normalised optimal Toeplitz strategy. The best columns hardly change away from both ends, so
//! they are first sought at a few rounds, linear in between.

use ndarray::Array2;

use super::band_mf_error::NormalisedError;
use super::band_mf_filter::ColumnFilter;
use super::band_mf_knots::Knots;
use super::band_mf_norms::EpochNorms;
use super::band_toeplitz::optimal_column;
use super::lbfgs::{Limits, Watch, minimise};
use super::row_loss::RowLoss;
use super::{Objective, Optimized, ProgressFn, Target};
use crate::banded::Banded;
use crate::error::{Result, StrategyError, invalid};
use crate::strategy::Strategy;
use crate::workload::{InverseBands, LearningRates, Workload};

/// The best columns repeat themselves every p rounds after the first round, ever fainter: so many periods are free
/// in every round. Beyond, and towards the end, the distances of knots grow by the ratio.
const DENSE: usize = 32;
const RATIO: f64 = 1.2;
const COARSE: Limits = Limits { steps: 400, tolerance: 1e-7 };
/// The same for [`MANY`] numbers and more, where a step takes a good part of a second. Nor are so many ever free: the
/// search keeps some forty vectors of them.
const COARSEST: Limits = Limits { steps: 200, tolerance: 1e-6 };
const MANY: usize = 1 << 20;
/// Most numbers that are all free at the end; the knots alone come within some 1e-6 of the loss.
const MAX_FREE: usize = 1 << 14;
const FINE: Limits = Limits { steps: 500, tolerance: 1e-8 };
/// Limits of a stage that another stage follows.
const ROUGH: Limits = Limits { steps: 200, tolerance: 1e-7 };
/// Most numbers of a strategy; six times its memory is needed.
const MAX_NUMBERS: u64 = 1 << 26;

/// The norms of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnNorms {
    /// All are one, as published.
    Equal,
    /// One for each epoch of min_sep rounds.
    ByEpoch,
}

pub(super) fn optimize(
    bands: usize,
    norms: ColumnNorms,
    target: &Target,
    progress: &mut ProgressFn<'_>,
) -> Result<Optimized> {
    let d = check(bands, target)?;
    let norms = match norms {
        ColumnNorms::Equal => None,
        ColumnNorms::ByEpoch => EpochNorms::new(target),
    };
    let mut watch = Watch::new(progress);
    let column = optimal_column(bands, &toeplitz(target), &mut watch)?.c;
    let mut search = Search::new(&column, &d, target, norms);
    let converged = search.run(&mut watch);
    let columns = Array2::from_shape_vec((search.n, bands), search.best)
        .map_err(|e| invalid("shape of columns", e, "(iterations, bands)"))?;
    Optimized::evaluate(Strategy::BandMf(Banded::new(columns)?), target, watch.search(converged))
}

pub(super) fn check(bands: usize, target: &Target) -> Result<InverseBands> {
    let refuse = |why: String| StrategyError::NotOptimizable { mechanism: "band-mf", why };
    let n = target.iterations;
    super::check_bands(bands, target)?;
    let several = target.rules().iter().filter(|rule| rule.in_rounds(n) > 1);
    if let Some(rule) = several.min_by_key(|rule| rule.min_sep).filter(|rule| bands as u64 > rule.min_sep) {
        let why =
            format!("{bands} bands let one user's columns overlap; take {} at most, min_sep", rule.min_sep);
        return Err(refuse(why));
    }
    if n.saturating_mul(bands as u64) > MAX_NUMBERS {
        return Err(invalid(
            "iterations × bands",
            n.saturating_mul(bands as u64),
            format!("up to {MAX_NUMBERS}"),
        ));
    }
    let name = target.workload.name();
    target.workload.inverse_bands().ok_or_else(|| {
        refuse(format!(
            "the inverse of the workload {name} is not banded; optimize dense, or fit prefix or momentum"
        ))
    })
}

/// The setting with a Toeplitz workload that the start is optimal for: learning rates that don't change.
pub(super) fn toeplitz(target: &Target) -> Target {
    let mut target = target.clone();
    if let Workload::Momentum(momentum) = &mut target.workload {
        momentum.learning_rates = LearningRates::Constant;
    }
    target
}

/// The columns while the search runs.
struct Search<'a> {
    n: usize,
    p: usize,
    target: &'a Target,
    error: NormalisedError,
    /// Columns of any length, shape (n, p).
    at: Vec<f64>,
    /// The norms that are free, and their parameters, none where all are one.
    norms: Option<EpochNorms>,
    at_norms: Vec<f64>,
    /// The normalised columns with the least error of the objective itself so far.
    best: Vec<f64>,
    least: f64,
    /// [`NormalisedError::gains`] at the start.
    gains: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(column: &[f64], d: &InverseBands, target: &'a Target, norms: Option<EpochNorms>) -> Self {
        let n = target.iterations as usize;
        let p = column.len();
        let error = NormalisedError::new(d, n, p);
        let mut search = Self {
            n,
            p,
            target,
            error,
            at: column.repeat(n),
            at_norms: norms.as_ref().map_or_else(Vec::new, EpochNorms::equal),
            norms,
            best: Vec::new(),
            least: f64::INFINITY,
            gains: Vec::new(),
        };
        search.keep();
        search
    }

    /// All stages of the loss, on few knots first and then on as many as pay; true when the last one settled.
    fn run(&mut self, watch: &mut Watch<'_, '_>) -> bool {
        let dense = (DENSE * self.p).min(MANY / self.p);
        let few = Knots::graded(self.n, dense, RATIO);
        let all = Knots::all(self.n);
        let few_pay = 2 * few.len() < self.n;
        let (knots, limits) = match self.n * self.p {
            numbers if numbers <= MAX_FREE || (!few_pay && numbers < MANY) => (&all, FINE),
            numbers if numbers < MANY => (&few, COARSE),
            _ => (&few, COARSEST),
        };
        let mut loss = RowLoss::first(&self.target.objective, self.n);
        // All stages use the gains of the first loss: near the optimum of the worst row's they reveal little of the
        // curvature. They are those of equal norms: before a smaller norm, an epoch's last columns may have gains below zero.
        self.error.ln_error(&loss, &mut self.at.clone());
        self.gains.clear();
        self.gains.extend_from_slice(self.error.gains());
        self.at_norms = self.norms.as_ref().map_or_else(Vec::new, EpochNorms::start);
        if few_pay && knots == &all {
            self.descend(&few, COARSE, &loss, watch);
        }
        loop {
            let limits = if loss.is_rough() { ROUGH } else { limits };
            let converged = self.descend(knots, limits, &loss, watch);
            match loss.next(&self.target.objective, self.n) {
                Some(next) if !watch.stopped => loss = next,
                _ => return converged,
            }
        }
    }

    /// Minimises `loss` over the columns at the knots; true when the search settled.
    fn descend(&mut self, knots: &Knots, limits: Limits, loss: &RowLoss, watch: &mut Watch<'_, '_>) -> bool {
        let p = self.p;
        let limits = Limits { tolerance: limits.tolerance.max(self.target.least_gain), ..limits };
        let mut columns = self.at.clone();
        let mut scales = scales(&knots.gather(&self.gains), p);
        let mut start: Vec<f64> = knots.pick(&self.at, p);
        let numbers = start.len();
        start.extend_from_slice(&self.at_norms);
        if let Some(norms) = &self.norms {
            scales.extend(self::scales(&norms.gather(&self.gains), 1));
        }
        let filter = self.filter(knots);
        let place = |x: &[f64], free: &mut [f64]| {
            free.copy_from_slice(x);
            filter.apply(&mut free[..numbers], p);
            free.iter_mut().zip(&scales).zip(&start).for_each(|((free, s), start)| *free = start + *free * s);
        };
        let mut free = start.clone();
        let count = self.target.participation.in_rounds(self.target.iterations);
        let ln_sensitivity = 0.5 * (count as f64).ln();
        let error = &mut self.error;
        let norms = &self.norms;
        let found = minimise(vec![0.0; free.len()], limits, watch, |x, gradient| {
            place(x, &mut free);
            knots.expand(&free[..numbers], p, &mut columns);
            if let Some(norms) = norms {
                norms.lengths(&free[numbers..], error.lengths_mut());
            }
            let ln_error = error.ln_error(loss, &mut columns);
            knots.collect(&columns, p, &mut gradient[..numbers]);
            if let Some(norms) = norms {
                norms.gradient(&free[numbers..], error.gains(), &mut gradient[numbers..]);
            }
            gradient.iter_mut().zip(&scales).for_each(|(g, s)| *g *= s);
            filter.apply_transposed(&mut gradient[..numbers], p);
            ln_error + ln_sensitivity
        });
        place(&found.x, &mut free);
        self.at_norms = free.split_off(numbers);
        knots.expand(&free, p, &mut self.at);
        self.keep();
        found.converged
    }

    /// The filter is C's approximation for the rms error of prefix sums alone: other searches would stall, with momentum and a
    /// cool-down at losses 6 % above (n = 100, 25 bands). Columns between knots are not those of a product.
    fn filter(&self, knots: &Knots) -> ColumnFilter {
        let is_like =
            matches!((&self.target.workload, &self.target.objective), (Workload::Prefix, Objective::Rms));
        if is_like && knots.len() == self.n { ColumnFilter::new(self.p) } else { ColumnFilter::none() }
    }

    /// Keeps the columns if they are the best for the objective itself.
    fn keep(&mut self) {
        if let Some(norms) = &self.norms {
            norms.lengths(&self.at_norms, self.error.lengths_mut());
        }
        let Some(squared) = self.error.rows(&self.at) else { return };
        let error = self.target.objective.error(squared);
        if error < self.least {
            self.least = error;
            self.best.clear();
            self.best.extend_from_slice(self.error.columns());
        }
    }
}

/// Units of the columns at each knot in which all have a like curvature.
fn scales(gains: &[f64], p: usize) -> Vec<f64> {
    let floor = 1e-6 * gains.iter().sum::<f64>() / gains.len() as f64;
    gains.iter().flat_map(|gain| std::iter::repeat_n(1.0 / gain.max(floor).sqrt(), p)).collect()
}
