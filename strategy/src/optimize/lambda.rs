//! λ-CGD: one number, by a scan and a golden-section search in ln(1−λ).

use super::lbfgs::Watch;
use super::{Optimized, ProgressFn, Target};
use crate::error::{Result, StrategyError, series_length};
use crate::strategy::Strategy;
use crate::workload::Workload;

/// Points of the scan over 1−λ from 1e-8 to 1.
const SCAN: u32 = 40;
/// Most rounds where each evaluation follows every impulse.
const MOST_IMPULSES: u64 = 512;
/// Golden-section steps; each shrinks the bracket by 0.618.
const STEPS: usize = 45;

pub(super) fn optimize(target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    series_length(target.iterations)?;
    let by_impulses = matches!(target.workload, Workload::Dense(_) | Workload::Streaming(_));
    if by_impulses && target.iterations > MOST_IMPULSES {
        let why = format!("{} rounds of this workload; {MOST_IMPULSES} at most", target.iterations);
        return Err(StrategyError::NotOptimizable { mechanism: "lambda-cgd", why });
    }
    let mut watch = Watch::new(progress);
    let lambda = search(target, &mut watch);
    Optimized::evaluate(Strategy::LambdaCgd { lambda }, target, watch.search(true))
}

/// The best λ in [0, 1).
pub(super) fn search(target: &Target, watch: &mut Watch<'_, '_>) -> f64 {
    let point = |i: u32| -18.4 * f64::from(i) / f64::from(SCAN);
    let best = (0..=SCAN)
        .map(|i| (i, ln_loss(point(i), target)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |b| b.0);
    let mut low = point((best + 1).min(SCAN));
    let mut high = point(best.saturating_sub(1));
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..STEPS {
        let left = high - golden * (high - low);
        let right = low + golden * (high - low);
        let at_left = ln_loss(left, target);
        let at_right = ln_loss(right, target);
        if at_left < at_right {
            high = right;
        } else {
            low = left;
        }
        if !watch.step(at_left.min(at_right), f64::NAN) {
            break;
        }
    }
    // The end of the bracket, λ = 0, is a candidate too (one participation in every round).
    let middle = (low + high) / 2.0;
    let x = if ln_loss(0.0, target) <= ln_loss(middle, target) { 0.0 } else { middle };
    -x.exp_m1()
}

/// ln(loss) at ln(1−λ) = x; O(k) for prefix sums.
fn ln_loss(x: f64, target: &Target) -> f64 {
    let strategy = Strategy::LambdaCgd { lambda: -x.exp_m1() };
    let Ok(error) = target.error(&strategy) else { return f64::INFINITY };
    let sensitivity = |rule| strategy.sensitivity(target.iterations, rule).map_or(f64::INFINITY, |s| s.value);
    let rules = target.rules();
    let mean = rules.iter().map(|rule| sensitivity(*rule)).sum::<f64>() / rules.len() as f64;
    (error * mean).ln()
}
