//! Decays that single precision can hold.
//!
//! A run keeps θ as `f32`, whose numbers below one are 2⁻²⁴ apart. Up to some 10⁷ rounds that changes nothing that
//! shows. Beyond, the best φ = 1−θ lies between two such numbers: then the best of those around it is taken, so
//! that the optimized numbers are those that run.

use super::super::Target;
use crate::blt::Blt;
use crate::error::Result;

/// A relative change of the loss that does not show.
const UNSEEN: f64 = 1e-4;
/// A θ whose neighbours change φ by less than this share is rounded to the nearest.
const FINE: f64 = 1e-4;
/// The search for weights ends with steps this small, in ln ω.
const LEAST_STEP: f64 = 5e-3;
/// Most θ of which both neighbours are tried.
const TRIED: usize = 4;

/// The BLT itself where rounding its numbers to `f32` does not show in the loss, else the best one around it of
/// numbers that `f32` holds.
pub(super) fn representable(blt: Blt, target: &Target) -> Result<Blt> {
    let loss = |blt: &Blt| target.loss(&crate::strategy::Strategy::Blt(blt.clone()));
    let nearest = rounded(&blt, 0)?;
    let wanted = loss(&blt)?;
    if (loss(&nearest)? / wanted - 1.0).abs() <= UNSEEN {
        return Ok(blt);
    }
    let mut best = (f64::INFINITY, nearest);
    for choice in 0..1_usize << coarse(&blt).count().min(TRIED) {
        let (value, candidate) = reweighted(rounded(&blt, choice)?, &loss)?;
        if value < best.0 {
            best = (value, candidate);
        }
    }
    Ok(best.1)
}

/// The weights ω that suit decays which had to move, by trying a larger and a smaller one of each in turn.
fn reweighted(blt: Blt, loss: &impl Fn(&Blt) -> Result<f64>) -> Result<(f64, Blt)> {
    let mut best = (loss(&blt)?, blt);
    let mut step = std::f64::consts::LN_2;
    while step > LEAST_STEP {
        let before = best.0;
        for i in 0..best.1.buffers() {
            for factor in [step.exp(), (-step).exp()] {
                let mut omega = best.1.omega().to_vec();
                omega[i] = f64::from((omega[i] * factor) as f32).max(f64::from(f32::MIN_POSITIVE));
                let candidate = Blt::new(best.1.theta().to_vec(), omega)?;
                let value = loss(&candidate)?;
                if value < best.0 {
                    best = (value, candidate);
                }
            }
        }
        if before - best.0 < 1e-3 * step * before {
            step /= 2.0;
        }
    }
    Ok(best)
}

/// The buffers whose θ has neighbours that matter.
fn coarse(blt: &Blt) -> impl Iterator<Item = usize> {
    let gap = |theta: f64| f64::from((theta as f32).next_up()) - f64::from((theta as f32).next_down());
    blt.theta().iter().enumerate().filter(move |(_, t)| gap(**t) > FINE * (1.0 - **t)).map(|(i, _)| i)
}

/// All numbers rounded to the nearest, but for coarse θ: bit j of `choice` takes the neighbour above for the j-th.
fn rounded(blt: &Blt, choice: usize) -> Result<Blt> {
    let mut theta: Vec<f64> = blt.theta().iter().map(|t| f64::from(*t as f32)).collect();
    for (bit, place) in coarse(blt).enumerate().take(TRIED) {
        let exact = blt.theta()[place];
        let near = blt.theta()[place] as f32;
        let below = if f64::from(near) > exact { near.next_down() } else { near };
        let above = if f64::from(below) < exact { below.next_up() } else { below };
        theta[place] = f64::from(if choice >> bit & 1 == 1 { above } else { below }).min(1.0);
    }
    Blt::new(theta, blt.omega().iter().map(|w| f64::from(*w as f32)).collect())
}
