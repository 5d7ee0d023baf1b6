//! The largest Σ|X_ij| over patterns with a smallest gap, exactly, where columns overlap little.
//!
//! Dynamic programming from participation to participation. What a new one collects depends on earlier ones
//! less than `reach` before it; as it comes at least `gap` after the last one, only those less than
//! reach − gap before the last need remembering: none at all where reach ≤ 2·gap.

use std::collections::HashMap;

use super::gram::Gram;

/// Most values kept for traceback, most terms added, and most of them for each participation.
const MAX_KEPT: f64 = 3e7;
const MAX_STEPS: f64 = 5e8;
const MAX_WINDOWS: f64 = 8e6;

/// In `Layer::from`: the one before lies `reach` or more back.
const APART: u32 = u32::MAX;

/// The part of a pattern that later participations depend on, and how it changes with each gap.
struct Windows {
    gap: usize,
    reach: usize,
    /// Distances from the last participation back to the ones before it, ascending; the first window is empty.
    list: Vec<Vec<usize>>,
    /// The window after a gap of `gap` + g, at [window·gaps + g].
    next: Vec<usize>,
}

impl Windows {
    /// The number of windows: sets of distances from `gap` to reach − gap − 1 with gaps ≥ `gap`.
    fn count(gap: usize, reach: usize) -> f64 {
        let mut sets = vec![1.0; gap];
        for widest in gap..reach.saturating_sub(gap) {
            sets.push(sets[widest - 1] + sets[widest - gap]);
        }
        sets.last().copied().unwrap_or(1.0)
    }

    fn new(gap: usize, reach: usize) -> Self {
        let mut list = vec![Vec::new()];
        let mut known = HashMap::from([(Vec::new(), 0)]);
        let mut next = Vec::new();
        let mut at = 0;
        while at < list.len() {
            for g in gap..reach {
                let moved = std::iter::once(g).chain(list[at].iter().map(|o| o + g));
                let window: Vec<usize> = moved.filter(|o| o + gap < reach).collect();
                let fresh = list.len();
                let index = *known.entry(window.clone()).or_insert(fresh);
                if index == fresh {
                    list.push(window);
                }
                next.push(index);
            }
            at += 1;
        }
        Self { gap, reach, list, next }
    }

    fn gaps(&self) -> usize {
        self.reach - self.gap
    }
}

/// The best patterns of one number of participations, by last round and window.
struct Layer {
    value: Vec<f64>,
    /// Window and gap before, as window·gaps + (gap − smallest gap), or [`APART`].
    from: Vec<u32>,
    /// The best (round, window) of one participation less that lies `reach` or more back, for each last round.
    far: Vec<(u32, u32)>,
}

/// Returns whether [`heaviest`] has an answer for a Gram matrix of so many rows (one where it is stationary).
pub(crate) fn fits(sites: usize, reach: usize, gap: usize, count: usize) -> bool {
    let windows = Windows::count(gap, reach);
    let kept = sites as f64 * count as f64 * windows;
    let terms = (reach - gap) as f64 * reach.div_ceil(gap) as f64;
    kept <= MAX_KEPT && kept * terms <= MAX_STEPS && windows * terms <= MAX_WINDOWS
}

/// The largest Σ_{i,j∈π}|X_ij| over patterns of at most `count` rounds below `n`, gaps ≥ `gap`, with a pattern
/// that attains it; `None` where that takes too long. A stationary X is taken to be as long as patterns need.
///
/// Needs `gap` < reach.
pub(crate) fn heaviest(gram: &Gram, n: usize, gap: usize, count: usize) -> Option<(f64, Vec<usize>)> {
    let sites = if gram.is_stationary() { 1 } else { n };
    let reach = gram.reach();
    if !fits(sites, reach, gap, count) {
        return None;
    }
    let windows = Windows::new(gap, reach);
    let mut layers = vec![first(gram, sites, windows.list.len())];
    for c in 1..count {
        layers.push(grown(gram, &windows, &layers[c - 1], sites));
    }
    Some(traced(gram, &windows, &layers))
}

fn first(gram: &Gram, sites: usize, windows: usize) -> Layer {
    let mut value = vec![f64::NEG_INFINITY; sites * windows];
    (0..sites).for_each(|t| value[t * windows] = gram.back(t, 0));
    Layer { value, from: Vec::new(), far: Vec::new() }
}

/// One participation more.
fn grown(gram: &Gram, windows: &Windows, before: &Layer, sites: usize) -> Layer {
    let count = windows.list.len();
    let mut value = vec![f64::NEG_INFINITY; before.value.len()];
    let mut from = vec![APART; before.value.len()];
    for t in 0..sites {
        for m in 0..count {
            let base = before.value[t * count + m];
            if base == f64::NEG_INFINITY {
                continue;
            }
            for g in windows.gap..windows.reach {
                let to = if gram.is_stationary() { 0 } else { t + g };
                if to >= sites {
                    break;
                }
                let code = m * windows.gaps() + g - windows.gap;
                let met: f64 = windows.list[m].iter().map(|o| gram.back(to, g + o).abs()).sum();
                let total = base + gram.back(to, 0) + 2.0 * (gram.back(to, g).abs() + met);
                let slot = to * count + windows.next[code];
                if total > value[slot] {
                    value[slot] = total;
                    from[slot] = code as u32;
                }
            }
        }
    }
    let far = far_before(gram, windows, before, sites);
    for (t, &(round, window)) in far.iter().enumerate() {
        if round != APART {
            let total = before.value[round as usize * count + window as usize] + gram.back(t, 0);
            if total > value[t * count] {
                value[t * count] = total;
                from[t * count] = APART;
            }
        }
    }
    Layer { value, from, far }
}

fn far_before(gram: &Gram, windows: &Windows, before: &Layer, sites: usize) -> Vec<(u32, u32)> {
    let count = windows.list.len();
    let mut best = (APART, APART);
    let mut highest = f64::NEG_INFINITY;
    let mut out = Vec::with_capacity(sites);
    for t in 0..sites {
        let ready = if gram.is_stationary() { Some(0) } else { t.checked_sub(windows.reach) };
        for m in ready.map_or(0..0, |s| s * count..(s + 1) * count) {
            if before.value[m] > highest {
                highest = before.value[m];
                best = ((m / count) as u32, (m % count) as u32);
            }
        }
        out.push(best);
    }
    out
}

/// The best end of all layers, and the pattern back from it.
fn traced(gram: &Gram, windows: &Windows, layers: &[Layer]) -> (f64, Vec<usize>) {
    let count = windows.list.len();
    let ends = layers.iter().enumerate().flat_map(|(c, l)| l.value.iter().enumerate().map(move |e| (c, e)));
    let (c, (slot, value)) =
        ends.fold((0, (0, &f64::NEG_INFINITY)), |best, end| if end.1.1 > best.1.1 { end } else { best });
    let mut t = slot / count;
    let mut m = slot % count;
    let mut rounds = vec![t];
    let mut gaps = Vec::new();
    for layer in layers[1..=c].iter().rev() {
        let code = layer.from[t * count + m];
        let gap = if code == APART {
            let (round, window) = layer.far[t];
            let gap = if gram.is_stationary() { windows.reach } else { t - round as usize };
            (t, m) = (round as usize, window as usize);
            gap
        } else {
            let gap = windows.gap + code as usize % windows.gaps();
            m = code as usize / windows.gaps();
            t -= if gram.is_stationary() { 0 } else { gap };
            gap
        };
        rounds.push(t);
        gaps.push(gap);
    }
    rounds.reverse();
    if gram.is_stationary() {
        rounds = vec![0];
        gaps.iter().rev().for_each(|gap| rounds.push(rounds[rounds.len() - 1] + gap));
    }
    (*value, rounds)
}
