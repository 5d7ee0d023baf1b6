//! The gradient-free family c = (1−x)^{−α}, cut after p terms (McKenna 2024, App. J): one number to find.
//!
//! α = ½ is the banded square root, the optimum for one band count only; α rises towards 1 as n/p grows. The best
//! member is within 0.2 % of the optimal band-Toeplitz strategy and a good place to start from.

use super::lbfgs::Watch;
use super::monotone::{decoder, loss_squared};
use super::{Optimized, ProgressFn, Target};
use crate::decoder::Decoder;
use crate::error::Result;
use crate::series::power;
use crate::strategy::Strategy;

/// Points of the scan over α in ½…1; the loss has one valley there.
const SCAN: u32 = 10;
/// Golden-section steps; each shrinks the bracket by 0.618.
const STEPS: u32 = 20;

pub(super) fn optimize(bands: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimized> {
    super::check_bands(bands, target)?;
    let decoder = decoder("band-toeplitz", target)?;
    let mut watch = Watch::new(progress);
    let alpha = search(bands, target, &decoder, &mut watch);
    let c = power(alpha, bands);
    Optimized::evaluate(Strategy::BandToeplitz { c, column_normalised: false }, target, watch.search(true))
}

/// The α of least loss.
fn search(bands: usize, target: &Target, decoder: &Decoder, watch: &mut Watch<'_, '_>) -> f64 {
    let loss = |alpha: f64| loss_squared(&power(alpha, bands), target, decoder);
    let best = scan(&loss);
    let step = 0.5 / f64::from(SCAN);
    let mut low = (best - step).max(0.0);
    let mut high = (best + step).min(1.0);
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..STEPS {
        let left = high - golden * (high - low);
        let right = low + golden * (high - low);
        let at_left = loss(left);
        let at_right = loss(right);
        if at_left < at_right {
            high = right;
        } else {
            low = left;
        }
        if !watch.step(0.5 * at_left.min(at_right).ln(), f64::NAN) {
            break;
        }
    }
    f64::midpoint(low, high)
}

/// The best of a coarse scan, where optimizers start.
pub(super) fn best_start(bands: usize, target: &Target, decoder: &Decoder) -> Vec<f64> {
    power(scan(&|alpha| loss_squared(&power(alpha, bands), target, decoder)), bands)
}

fn scan(loss: &impl Fn(f64) -> f64) -> f64 {
    (0..=SCAN)
        .map(|i| 0.5 + 0.5 * f64::from(i) / f64::from(SCAN))
        .map(|alpha| (alpha, loss(alpha)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0.5, |best| best.0)
}
