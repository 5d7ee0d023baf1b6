//! Searches for calibration, whose brackets can't run away.

use crate::error::{AccountingError, Result, positive};

/// How far below its target a found ε may stay, relatively.
pub(crate) const SLACK: f64 = 2e-4;

/// Most doublings of a bracket.
const MAX_DOUBLINGS: u32 = 60;

/// Where a parameter is searched for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub what: &'static str,
    pub start: f64,
    pub least: f64,
    pub most: f64,
}

impl Range {
    fn out_of_reach(&self, target: f64, tried: (f64, f64), at: f64) -> AccountingError {
        let (low, high) = tried;
        let setting = format!("epsilon = {target}: tried {low:.3e} to {high:.3e}, where epsilon is {at:.6}");
        AccountingError::OutOfReach { what: self.what, setting }
    }
}

/// The smallest x of a range whose ε(x), which falls in x, is at most `target`: never below it, and by at most
/// [`SLACK`] of ε above.
pub(crate) fn smallest(range: Range, target: f64, epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    search(range, target, 1.0, epsilon)
}

/// The largest x of a range whose ε(x), which rises in x, is at most `target`; the range's end where all are.
pub(crate) fn largest(range: Range, target: f64, epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    search(range, target, -1.0, epsilon)
}

/// `sign` 1: ε falls in x, and x grows until the promise is kept; −1: the other way round.
fn search(range: Range, target: f64, sign: f64, mut epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    positive("epsilon", target)?;
    let clamp = |x: f64| x.clamp(range.least, range.most);
    // (x, ln ε(x)/target): one that keeps the promise and one that breaks it.
    let mut kept: Option<(f64, f64)> = None;
    let mut broken: Option<(f64, f64)> = None;
    let mut x = clamp(range.start);
    let mut factor = 1.25f64;
    for _ in 0..MAX_DOUBLINGS {
        let reached = epsilon(x)?;
        let miss = (reached / target).ln();
        let safe = reached <= target;
        if safe && reached >= target * (1.0 - SLACK) {
            return Ok(x);
        }
        if safe {
            kept = Some((x, miss))
        } else {
            broken = Some((x, miss))
        }
        if kept.is_some() && broken.is_some() {
            break;
        }
        // Safe: be bolder. Broken: be safer.
        let direction = if safe { -sign } else { sign };
        let next = clamp(x * factor.powf(direction));
        if next == x {
            if safe {
                return Ok(x);
            }
            let start = clamp(range.start);
            return Err(range.out_of_reach(target, (x.min(start), x.max(start)), reached));
        }
        x = next;
        factor = (factor * factor).min(16.0);
    }
    match (kept, broken) {
        (Some(kept), Some(broken)) => refine(target, kept, broken, epsilon),
        (_, Some((at, miss))) => {
            let start = clamp(range.start);
            Err(range.out_of_reach(target, (at.min(start), at.max(start)), target * miss.exp()))
        }
        (Some((at, _)), None) => Ok(at),
        (None, None) => Err(range.out_of_reach(target, (x, x), f64::NAN)),
    }
}

/// Illinois' false position in ln x against ln ε, halving where it is slow; returns the side that keeps.
fn refine(
    target: f64,
    (mut good, mut below): (f64, f64),
    (mut bad, mut above): (f64, f64),
    mut epsilon: impl FnMut(f64) -> Result<f64>,
) -> Result<f64> {
    // The chord aims between the target and the slack below it, so that the last step lands inside.
    let aim = -0.5 * SLACK;
    for step in 0..80 {
        let low = good.ln();
        let high = bad.ln();
        if (high - low).abs() < 1e-12 {
            break;
        }
        let chord = low + (high - low) * (below - aim) / (below - above);
        let middle = if step % 4 == 3 || !chord.is_finite() { f64::midpoint(low, high) } else { chord };
        let x = middle.exp();
        let reached = epsilon(x)?;
        let miss = (reached / target).ln();
        if reached <= target {
            if reached >= target * (1.0 - SLACK) {
                return Ok(x);
            }
            (good, below) = (x, miss);
            above = aim + 0.5 * (above - aim);
        } else {
            (bad, above) = (x, miss);
            below = aim + 0.5 * (below - aim);
        }
    }
    Ok(good)
}

/// The largest count in 1..=`most` whose ε, which rises in it, is at most `target`.
pub(crate) fn largest_count(
    what: &'static str,
    most: u64,
    target: f64,
    mut epsilon: impl FnMut(u64) -> Result<f64>,
) -> Result<u64> {
    positive("epsilon", target)?;
    let at_one = epsilon(1)?;
    if at_one > target {
        let range = Range { what, start: 1.0, least: 1.0, most: 1.0 };
        return Err(range.out_of_reach(target, (1.0, 1.0), at_one));
    }
    // What no figure can be found for counts as too much.
    let mut holds = |count: u64| match epsilon(count) {
        Ok(reached) => Ok(reached <= target),
        Err(AccountingError::OutOfReach { .. }) => Ok(false),
        Err(other) => Err(other),
    };
    let mut good = 1;
    let mut bad = None;
    while bad.is_none() && good < most {
        let next = good.saturating_mul(2).min(most);
        if holds(next)? { good = next } else { bad = Some(next) }
    }
    let Some(mut bad) = bad else { return Ok(good) };
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle)? { good = middle } else { bad = middle }
    }
    Ok(good)
}
