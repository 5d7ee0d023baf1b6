//! The noise multiplier for an (ε, δ), on common random numbers.

use super::block::Draw;
use super::pair::Drawn;
use super::{Delta, SCOUTS};
use crate::error::{AccountingError, Result, positive, probability};
use crate::gaussian;

/// How near ln δ must come to its goal.
const NEAR: f64 = 1e-4;
/// What stands for ln δ where no sample counts: chords need a number.
const LEAST: f64 = -50.0;
/// Most evaluations of one search.
const STEPS: usize = 60;

/// The σ at which `figure`, which falls in σ, is δ, looked for near a σ where one is given; just above it where it
/// can't be met exactly.
pub(super) fn search(
    pair: &(impl Drawn + ?Sized),
    epsilon: f64,
    delta: f64,
    draw: Draw,
    near: Option<f64>,
    figure: impl Fn(Delta) -> f64,
) -> Result<f64> {
    positive("epsilon", epsilon)?;
    probability("delta", delta)?;
    // No σ need be larger than where a record's batch is known, but for what samples leave open.
    let known = gaussian::calibrate_gaussian(pair.longest(), epsilon, delta)?;
    let scouts = Draw { samples: draw.samples.min(SCOUTS), ..draw };
    let of = |draw: Draw| {
        let figure = &figure;
        move |x: f64| -> Result<f64> {
            Ok((figure(pair.delta_with(x.exp(), epsilon, draw)?) / delta).ln().max(LEAST))
        }
    };
    let about = |draw: Draw, start: f64, step: f64| root(start, step, of(draw), epsilon, delta);
    // Few samples leave more open, so what they say about a bound is too high: it is where to start alone.
    let start = match near {
        Some(near) => near.ln(),
        None => about(scouts, known.ln(), 0.5).unwrap_or(known.ln()),
    };
    Ok(about(draw, start, 0.02)?.exp())
}

/// The root of a falling f by Illinois' false position, from where `f(x) ≤ 0` within [`NEAR`].
fn root(start: f64, step: f64, f: impl Fn(f64) -> Result<f64>, epsilon: f64, delta: f64) -> Result<f64> {
    let first = f(start)?;
    if (-NEAR..=0.0).contains(&first) {
        return Ok(start);
    }
    let (mut kept, mut broken) = (None, None);
    if first <= 0.0 {
        kept = Some((start, first))
    } else {
        broken = Some((start, first))
    }
    let mut width = step;
    let mut x = start;
    for _ in 0..STEPS {
        x = match (kept, broken) {
            (Some((k, below)), Some((b, above))) => {
                let aim = -0.5 * NEAR;
                let chord = b + (k - b) * (above - aim) / (above - below);
                if chord.is_finite() { chord } else { f64::midpoint(k, b) }
            }
            (Some(_), None) => x - width,
            _ => x + width,
        };
        width *= 2.0;
        let value = f(x)?;
        if (-NEAR..=0.0).contains(&value) {
            return Ok(x);
        }
        if value <= 0.0 {
            kept = Some((x, value));
            broken = broken.map(|(b, above)| (b, 0.5 * above));
        } else {
            broken = Some((x, value));
            kept = kept.map(|(k, below)| (k, 0.5 * below));
        }
        if let (Some((k, _)), Some((b, _))) = (kept, broken)
            && (k - b).abs() < 1e-9
        {
            return Ok(k);
        }
        if width > 200.0 {
            break;
        }
    }
    kept.map(|(k, _)| k).ok_or_else(|| AccountingError::OutOfReach {
        what: "noise multiplier",
        setting: format!("epsilon = {epsilon}, delta = {delta} and so few samples"),
    })
}
