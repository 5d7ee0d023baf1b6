//! Band-Toeplitz coefficients by their series: error and gradient in O(ℓ·p), ℓ the decoder's settling time.
//!
//! The unknowns are the ratios c_i/c_{i−1}, each a logistic function of a free number, so c stays positive and
//! decreasing: Theorem 3.1 holds at every step and the loss is exact for any separation. A ratio is 1 − O(1/i), so that a
//! number moves the loss the less the further out it is; in [`units`] that grow along the band some dozens of steps do.

use super::lbfgs::{Limits, Search, Watch, minimise_in};
use super::monotone::{decoder, sensitivity_squared};
use super::power::best_start;
use super::{ColumnCost, Descent, Optimized, ProgressFn, Target, check_bands, logistic, logit};
use crate::decoder::Decoder;
use crate::error::Result;
use crate::numeric::add;
use crate::strategy::Strategy;

const LIMITS: Limits = Limits { steps: 3000, tolerance: 1e-8 };
/// The power of i that is the unit of the i-th free number. With 0, ½, 0.7 and 1 a search of 128 bands for 10⁵ rounds takes over
/// 224, 67, 51 and 158 evaluations.
const UNIT: f64 = 0.7;
/// Bands below which [`descend`] moves all at once.
const FEW: usize = 12;
/// Places that it moves first, a factor of two along the band.
const PER_OCTAVE: u32 = 3;
/// Free numbers that another search may start from: ratios of at least 5 %, or a tail that was cut off would have no
/// slope to come back by, and within 6e-6 of one.
const FREE: std::ops::RangeInclusive<f64> = -3.0..=12.0;

/// Optimizes a band-Toeplitz strategy.
pub(super) fn optimize(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    let limits = Limits { tolerance: LIMITS.tolerance.max(target.least_gain), ..LIMITS };
    let column = column_within(limits, bands, target, &mut Watch::new(progress))?;
    let strategy = Strategy::BandToeplitz { c: column.c, column_normalised: false };
    Optimized::evaluate(strategy, target, column.search)
}

/// Searches on from a positive, decreasing column with another cost in place of the sensitivity; see
/// [`super::descend`].
pub(super) fn descend(
    start: &[f64],
    target: &Target,
    descent: Descent,
    cost: &mut ColumnCost<'_>,
) -> Result<Vec<f64>> {
    check_bands(start.len(), target)?;
    let decoder = decoder("band-toeplitz", target)?;
    let mut ln_loss = |x: &[f64], gradient: &mut [f64]| {
        let c = column(x);
        let error = decoder.error_gradient(&c);
        let mut by = vec![0.0; c.len()];
        let value = cost(&c, &mut by);
        add(&mut by, 0.5 / error.value, &error.gradient);
        pull(x, &c, &by, gradient);
        0.5 * error.value.ln() + value
    };
    let mut x: Vec<f64> = free(start).iter().map(|x| x.clamp(*FREE.start(), *FREE.end())).collect();
    if start.len() > FEW {
        // The unknowns are distances from the start, so that numbers between the knots keep their own shape.
        let knots = Knots::new(x.len());
        let at = |few: &[f64]| -> Vec<f64> { knots.spread(few).iter().zip(&x).map(|(d, x)| d + x).collect() };
        let found = descent.minimise(vec![0.0; knots.places.len()], |few, gradient| {
            let mut all = vec![0.0; x.len()];
            let value = ln_loss(&at(few), &mut all);
            knots.gather(&all, gradient);
            value
        });
        x = at(&found);
    }
    Ok(column(&descent.minimise(x, ln_loss)))
}

/// An optimized first column, also where band-mf starts.
pub(super) struct Column {
    pub c: Vec<f64>,
    pub search: Search,
}

pub(super) fn optimal_column(bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Result<Column> {
    column_within(LIMITS, bands, target, watch)
}

fn column_within(limits: Limits, bands: usize, target: &Target, watch: &mut Watch<'_, '_>) -> Result<Column> {
    check_bands(bands, target)?;
    let decoder = decoder("band-toeplitz", target)?;
    let start = free(&best_start(bands, target, &decoder));
    let found = minimise_in(&units(bands), start, limits, watch, |x, gradient| {
        ln_loss(x, gradient, target, &decoder)
    });
    Ok(Column { c: column(&found.x), search: watch.search(found.converged) })
}

/// The units in which the free numbers of so many bands have a like curvature.
pub(super) fn units(bands: usize) -> Vec<f64> {
    (1..bands).map(|i| (i as f64).powf(UNIT)).collect()
}

/// Places among 0…count−1, dense at the start, with what lies between them interpolated linearly in ln(1 + i).
struct Knots {
    places: Vec<usize>,
    /// The knot before each of the numbers, and the share of the knot after it.
    between: Vec<(usize, f64)>,
}

impl Knots {
    fn new(count: usize) -> Self {
        let place = |i: u32| (f64::from(i) / f64::from(PER_OCTAVE)).exp2().round() as usize - 1;
        let mut places: Vec<usize> = (0..).map(place).take_while(|k| k + 1 < count).collect();
        places.push(count - 1);
        places.dedup();
        let ln = |i: usize| ((i + 1) as f64).ln();
        let mut between = Vec::with_capacity(count);
        for (knot, ends) in places.windows(2).enumerate() {
            let share = |i: usize| (ln(i) - ln(ends[0])) / (ln(ends[1]) - ln(ends[0]));
            between.extend((ends[0]..ends[1]).map(|i| (knot, share(i))));
        }
        between.push((places.len() - 2, 1.0));
        Self { places, between }
    }

    fn spread(&self, few: &[f64]) -> Vec<f64> {
        self.between.iter().map(|(k, share)| few[*k] * (1.0 - share) + few[k + 1] * share).collect()
    }

    /// The adjoint of [`Self::spread`].
    fn gather(&self, all: &[f64], few: &mut [f64]) {
        few.fill(0.0);
        for ((k, share), g) in self.between.iter().zip(all) {
            few[*k] += (1.0 - share) * g;
            few[k + 1] += share * g;
        }
    }
}

pub(super) fn column(x: &[f64]) -> Vec<f64> {
    let mut c = vec![1.0];
    for x in x {
        c.push(c[c.len() - 1] * logistic(*x));
    }
    c
}

pub(super) fn free(c: &[f64]) -> Vec<f64> {
    c.windows(2).map(|w| logit(w[1], w[0] - w[1])).collect()
}

pub(super) fn ln_loss(x: &[f64], gradient: &mut [f64], target: &Target, decoder: &Decoder) -> f64 {
    let c = column(x);
    let error = decoder.error_gradient(&c);
    let square = sensitivity_squared(&c, target);
    let halves = square.gradient.iter().zip(&error.gradient);
    let by: Vec<f64> = halves.map(|(s, e)| 0.5 * (s / square.value + e / error.value)).collect();
    pull(x, &c, &by, gradient);
    0.5 * (error.value * square.value).ln()
}

/// Derivatives by x from those by c: ∂/∂x_i = (1 − ratio_i)·Σ_{j>i} c_j ∂/∂c_j, because x_i scales every later
/// coefficient.
pub(super) fn pull(x: &[f64], c: &[f64], by: &[f64], gradient: &mut [f64]) {
    let mut later = 0.0;
    for i in (0..x.len()).rev() {
        later += c[i + 1] * by[i + 1];
        gradient[i] = logistic(-x[i]) * later;
    }
}

/// Makes bands for a large min-sep usable for a smaller one: c_i ← c_{p−1} for i ≥ `from`.
///
/// This reconstructs McKenna (2024), App. H, whose formula is lost: keep the first `from` coefficients of a strategy
/// made for the larger separation and let all later ones have its last, smallest value. The result stays
/// non-increasing where `c` is, so Theorem 3.1 of McMahan, Xu, Zhang (2024) still has its exact sensitivity.
/// Optimizing the mean loss over the separations themselves ([`Target::over_participations`]) is better.
#[must_use]
pub fn flatten_tail(c: &[f64], from: usize) -> Vec<f64> {
    let last = c.last().copied().unwrap_or_default();
    c.iter().enumerate().map(|(i, c)| if i < from { *c } else { last }).collect()
}
