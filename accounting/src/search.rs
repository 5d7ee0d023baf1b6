//! Bracketed searches for calibration.

use crate::error::{AccountingError, Result, positive};

/// The relative distance by which ε may stay below its target when a search ends.
pub(crate) const SLACK: f64 = 2e-4;

/// Most steps of a bracket: each squares the factor of the one before up to 16, so that 60 of them cross f64.
const MAX_DOUBLINGS: u32 = 60;

/// The range in which a parameter is searched for, and where the search starts.
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

/// Returns the smallest x of a range with ε(x) ≤ `target`, where ε falls in x. The result is never below that x, and
/// its ε is at most [`SLACK`] below the target.
pub(crate) fn smallest(range: Range, target: f64, epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    search(range, target, 1.0, epsilon)
}

/// Returns the largest x of a range with ε(x) ≤ `target`, where ε rises in x; the range's end where every x will do.
pub(crate) fn largest(range: Range, target: f64, epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    search(range, target, -1.0, epsilon)
}

/// Searches by doubling, then by [`refine`]. With `sign` 1, ε falls in x and x grows until the target is met; with −1,
/// ε rises in x and x shrinks.
fn search(range: Range, target: f64, sign: f64, mut epsilon: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    positive("epsilon", target)?;
    let clamp = |x: f64| x.clamp(range.least, range.most);
    // (x, ln ε(x)/target): one that meets the target and one that misses it.
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
        // Below the target there is room for a bolder x; above it x must become safer.
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

/// Narrows a bracket by the Illinois method (false position) in ln x against ln ε, halving where that is slow. Returns
/// the end that meets the target.
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

/// Returns the largest count in 1..=`most` with ε ≤ `target`, where ε rises in the count.
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
    // A count whose ε is out of reach counts as too large.
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
