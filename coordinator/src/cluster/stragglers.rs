//! How fast workers make rows, beside one another: what placement reckons with, changed only by what lasts.
//!
//! Workers measure themselves; a worker is compared with the median of those that are here. One that is about as fast
//! as the others counts as the others do: shards are not moved for the noise of a measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::{Incarnation, WorkerId};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::placement::NORMAL_SPEED;

/// Within this factor of the median a worker is as fast as the median.
const ALIKE: f64 = 2.0;
/// What a worker measured when it started must be further off than what it has measured at work for a time.
const AT_FIRST_SIGHT: f64 = 3.0;
/// What counts is changed where the measure differs from it by this factor.
const MOVED: f64 = 1.5;
const EXTREME: f64 = 16.0;
/// A worker that stood still gets nothing for this long, and twice as long each time after.
const AVOIDED: Duration = Duration::from_secs(30);
const LONGEST_AVOIDED: Duration = Duration::from_secs(600);

/// What one worker says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub process: Incarnation,
    /// Bytes a second; 0 for unknown.
    pub rate: f64,
    /// For how long requests have waited with no row made, less what its rows usually take.
    pub stalled: Duration,
}

#[derive(Debug, Default)]
pub struct Stragglers {
    known: BTreeMap<WorkerId, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    process: Incarnation,
    /// In thousandths of the median.
    speed: u32,
    /// Since when the measure has been another than that.
    off_since: Option<Instant>,
    avoided: Option<Avoided>,
}

#[derive(Clone, Copy, Debug)]
struct Avoided {
    until: Instant,
    next: Duration,
}

impl Stragglers {
    /// Takes in what all live workers say. `lasting`: how long a worker must be slow or stand still before it counts.
    pub fn observe(&mut self, now: Instant, lasting: Duration, measures: &BTreeMap<WorkerId, Measure>) {
        self.known.retain(|worker, known| measures.get(worker).is_some_and(|it| it.process == known.process));
        let median = median(measures.values().map(|it| it.rate).filter(|&rate| rate > 0.0).collect());
        for (worker, measure) in measures {
            let relative = median.filter(|_| measure.rate > 0.0).map_or(1.0, |median| measure.rate / median);
            let known = self.known.entry(worker.clone()).or_insert_with(|| Known {
                process: measure.process,
                speed: speed_of(relative, AT_FIRST_SIGHT),
                off_since: None,
                avoided: None,
            });
            known.settle(now, lasting, worker, relative);
            known.avoid(now, lasting, worker, measure.stalled);
        }
    }

    /// In thousandths of the usual.
    pub fn speed(&self, worker: &WorkerId) -> u32 {
        self.known.get(worker).map_or(NORMAL_SPEED, |known| known.speed)
    }

    /// It lives and does not make rows: its shards should go elsewhere.
    pub fn is_avoided(&self, worker: &WorkerId, now: Instant) -> bool {
        let avoided = self.known.get(worker).and_then(|known| known.avoided);
        avoided.is_some_and(|avoided| now < avoided.until)
    }
}

impl Known {
    fn settle(&mut self, now: Instant, lasting: Duration, worker: &WorkerId, relative: f64) {
        let counted = f64::from(self.speed) / f64::from(NORMAL_SPEED);
        let new = speed_of(relative, ALIKE);
        if new == self.speed || (counted / MOVED..counted * MOVED).contains(&relative) {
            self.off_since = None;
            return;
        }
        let since = *self.off_since.get_or_insert(now);
        if now.duration_since(since) >= lasting {
            info!(%worker, before = self.speed, now = new, "this worker's speed has changed (1000 is the usual)");
            (self.speed, self.off_since) = (new, None);
        }
    }

    fn avoid(&mut self, now: Instant, lasting: Duration, worker: &WorkerId, stalled: Duration) {
        let is_over = self.avoided.is_none_or(|avoided| now >= avoided.until);
        if stalled < lasting || !is_over {
            return;
        }
        let wait = self.avoided.map_or(AVOIDED, |avoided| avoided.next);
        warn!(%worker, ?stalled, "this worker lives and makes no rows that are waited for: its shards go to others");
        self.avoided = Some(Avoided { until: now + wait, next: (wait * 2).min(LONGEST_AVOIDED) });
    }
}

/// The upper one of two in the middle: of two workers, the slower is the slow one.
fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

fn speed_of(relative: f64, alike: f64) -> u32 {
    if (1.0 / alike..=alike).contains(&relative) {
        NORMAL_SPEED
    } else {
        (relative.clamp(1.0 / EXTREME, EXTREME) * f64::from(NORMAL_SPEED)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTING: Duration = Duration::from_secs(10);

    fn worker(number: usize) -> WorkerId {
        WorkerId::new(format!("w{number}")).unwrap()
    }

    fn measures(rates: &[f64]) -> BTreeMap<WorkerId, Measure> {
        let measure = |rate| Measure { process: Incarnation([1; 16]), rate, stalled: Duration::ZERO };
        rates.iter().enumerate().map(|(at, &rate)| (worker(at), measure(rate))).collect()
    }

    fn speeds(speeds: &Stragglers) -> Vec<u32> {
        (0..3).map(|at| speeds.speed(&worker(at))).collect()
    }

    #[test]
    fn what_lasts_counts_and_what_passes_does_not() {
        let mut known = Stragglers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        known.observe(at(0), LASTING, &measures(&[1e9, 1.1e9, 0.9e9]));
        assert_eq!(speeds(&known), [1000; 3]);
        known.observe(at(1), LASTING, &measures(&[1e9, 1.1e9, 0.2e9]));
        known.observe(at(9), LASTING, &measures(&[1e9, 1.1e9, 0.9e9]));
        known.observe(at(10), LASTING, &measures(&[1e9, 1.1e9, 0.2e9]));
        known.observe(at(19), LASTING, &measures(&[1e9, 1.1e9, 0.2e9]));
        assert_eq!(speeds(&known), [1000; 3], "it was well in between");
        known.observe(at(20), LASTING, &measures(&[1e9, 1.1e9, 0.2e9]));
        assert_eq!(speeds(&known), [1000, 1000, 200]);
        // A little better is not well yet; well for a time is.
        known.observe(at(40), LASTING, &measures(&[1e9, 1.1e9, 0.28e9]));
        known.observe(at(60), LASTING, &measures(&[1e9, 1.1e9, 0.28e9]));
        assert_eq!(speeds(&known), [1000, 1000, 200]);
        known.observe(at(61), LASTING, &measures(&[1e9, 1.1e9, 0.9e9]));
        known.observe(at(71), LASTING, &measures(&[1e9, 1.1e9, 0.9e9]));
        assert_eq!(speeds(&known), [1000; 3]);
    }

    #[test]
    fn a_new_worker_is_taken_at_its_word_only_where_it_is_far_off() {
        let mut known = Stragglers::default();
        known.observe(Instant::now(), LASTING, &measures(&[1e9, 0.4e9, 0.1e9]));
        assert_eq!(speeds(&known), [1000, 1000, 250]);
        known.observe(Instant::now(), LASTING, &measures(&[1e9, 0.0, f64::MIN_POSITIVE]));
        assert_eq!(known.speed(&worker(1)), 1000);
        assert_eq!(known.speed(&worker(7)), 1000, "a stranger is as fast as the usual");
    }

    #[test]
    fn who_stands_still_is_avoided_for_longer_each_time() {
        let mut known = Stragglers::default();
        let mut now = Instant::now();
        let mut still = measures(&[1e9, 1e9]);
        known.observe(now, LASTING, &still);
        still.get_mut(&worker(1)).unwrap().stalled = LASTING;
        for wait in [AVOIDED, AVOIDED * 2, AVOIDED * 4] {
            known.observe(now, LASTING, &still);
            assert!(known.is_avoided(&worker(1), now + wait * 9 / 10) && !known.is_avoided(&worker(0), now));
            now += wait;
            assert!(!known.is_avoided(&worker(1), now));
        }
        let mut restarted = measures(&[1e9, 1e9]);
        restarted.get_mut(&worker(1)).unwrap().process = Incarnation([2; 16]);
        known.observe(now, LASTING, &still);
        known.observe(now, LASTING, &restarted);
        assert!(!known.is_avoided(&worker(1), now), "another process under its name");
    }
}
