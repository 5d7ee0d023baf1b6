//! What coefficients and scales of a Toeplitz strategy are searched for: ln(loss), its parts and their gradients.

use super::error::Stretches;
use crate::error::{Result, StrategyError, invalid, series_length};
use crate::numeric::add;
use crate::optimize::{Objective, Target, logistic};
use crate::scaled::{ColumnScales, spaced_sum};
use crate::workload::Workload;

/// Most products of one evaluation: some seconds.
const MAX_PRODUCTS: u64 = 1 << 32;
/// The free number of a ratio of 0.97, from which all ratios start.
const START: f64 = 3.5;
/// The unit of the free numbers of ratios, which move the loss as much less than others do.
const UNIT: f64 = 10.0;

/// The setting, for n rounds and k participations at 0, b, 2b, …
pub(super) struct Problem {
    pub n: usize,
    pub gap: usize,
    pub count: usize,
    stretches: Stretches,
}

/// ln(loss) with its derivatives by b, c and the free numbers of the scales.
pub(super) struct LnLoss {
    pub value: f64,
    pub by_b: Vec<f64>,
    pub by_c: Vec<f64>,
    pub by_ratios: Vec<f64>,
}

impl Problem {
    /// Returns the setting; `None` for one participation, which scales gain nothing for.
    ///
    /// # Errors
    /// [`StrategyError::NotOptimizable`] for anything but the rms error of prefix sums under one rule.
    pub fn new(mechanism: &'static str, target: &Target) -> Result<Option<Self>> {
        let refuse = |what: String| {
            let why = format!(
                "norms by epoch are sought for the rms error of prefix sums under one rule, not for {what}"
            );
            Err(StrategyError::NotOptimizable { mechanism, why })
        };
        if !matches!(target.workload, Workload::Prefix) {
            return refuse(format!("the workload {}", target.workload.name()));
        }
        if target.objective != Objective::Rms {
            return refuse(format!("the loss {}", target.objective.name()));
        }
        if target.rules().len() > 1 {
            return refuse("several min-seps".into());
        }
        let n = target.iterations;
        let count = target.participation.in_rounds(n);
        if count < 2 {
            return Ok(None);
        }
        let rounds = series_length(n)?;
        if n.saturating_mul(count).saturating_mul(count) > MAX_PRODUCTS {
            let allowed = format!("up to {MAX_PRODUCTS} for norms by epoch");
            return Err(invalid(
                "iterations × max_participations²",
                n.saturating_mul(count * count),
                allowed,
            ));
        }
        let count = count as usize;
        let gap = target.participation.min_sep as usize;
        // The result's error could not be evaluated.
        ColumnScales::new(gap as u64, vec![1.0; count])?.check_correlations(n)?;
        Ok(Some(Self { n: rounds, gap, count, stretches: Stretches::new(rounds, gap, count) }))
    }

    /// Returns the free numbers of the ratios at the start.
    pub fn start(&self) -> Vec<f64> {
        vec![START; self.count - 1]
    }

    /// Returns the units of all free numbers: those given, and those of the ratios after them.
    pub fn units(&self, mut units: Vec<f64>) -> Vec<f64> {
        units.resize(units.len() + self.count - 1, UNIT);
        units
    }

    /// Returns the scales of free numbers, the first of them 1.
    pub fn scales(&self, ratios: &[f64]) -> Result<ColumnScales> {
        ColumnScales::new(self.gap as u64, values(ratios))
    }

    /// ln(error · sens(C)) of T = LtToep(c) with the running sums `b` of T⁻¹'s column; `c` is positive and does not rise.
    pub fn ln_loss(&self, c: &[f64], b: &[f64], ratios: &[f64]) -> LnLoss {
        let scales = values(ratios);
        let r: Vec<f64> = scales.iter().map(|s| 1.0 / s).collect();
        let error = self.stretches.error(b, &r);
        let sum = spaced_sum(c, |i| scales[i], self.n, self.gap, self.count);
        let square: f64 = sum.iter().map(|v| v * v).sum();
        let mut by_c = vec![0.0; c.len()];
        // By ln s_e, of half the logarithms of both squares.
        let mut by_ln_scales: Vec<f64> =
            error.by_r.iter().zip(&r).map(|(by, r)| -0.5 * by * r / error.value).collect();
        for (e, scale) in scales.iter().enumerate() {
            let from = (e * self.gap).min(sum.len());
            add(&mut by_c, scale / square, &sum[from..]);
            by_ln_scales[e] += scale * crate::numeric::dot(c, &sum[from..]) / square;
        }
        let mut by_ratios = vec![0.0; ratios.len()];
        by_free(ratios, &by_ln_scales, &mut by_ratios);
        let by_b = error.by_b.iter().map(|by| 0.5 * by / error.value).collect();
        LnLoss { value: 0.5 * (error.value * square).ln(), by_b, by_c, by_ratios }
    }
}

/// Writes the derivatives by the free numbers: ln s_e is the sum of ln logistic(x) over those up to it.
pub(super) fn by_free(ratios: &[f64], by_ln_scales: &[f64], by_ratios: &mut [f64]) {
    let mut later = 0.0;
    for e in (1..by_ln_scales.len()).rev() {
        later += by_ln_scales[e];
        by_ratios[e - 1] = later * logistic(-ratios[e - 1]);
    }
}

pub(super) fn values(ratios: &[f64]) -> Vec<f64> {
    let mut scales = vec![1.0];
    for x in ratios {
        scales.push(scales[scales.len() - 1] * logistic(*x));
    }
    scales
}
