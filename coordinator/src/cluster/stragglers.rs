//! Straggler detection: how fast workers make rows compared with each other, and which make none.
//!
//! Workers measure themselves, and each is compared with the median of the live ones. A worker that is about as fast as
//! the others counts as equally fast, and only a lasting difference changes its speed, so that shards are not moved
//! because of noise in a measurement.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proto::{Incarnation, WorkerId};
use tokio::time::Instant;
use tracing::{info, warn};

use super::Cluster;
use super::membership::Member;
use crate::placement::NORMAL_SPEED;

/// A worker within this factor of the median counts as exactly as fast as the median.
const SAME_SPEED_FACTOR: f64 = 2.0;
/// The same factor for a worker's first measurement, which it takes before it has worked: wider, for it is less
/// certain.
const FIRST_SIGHT_FACTOR: f64 = 3.0;
/// A worker's speed is changed if the measurement differs from it by at least this factor.
const CHANGE_FACTOR: f64 = 1.5;
/// The slowest and fastest speeds that count are this factor away from the median.
const EXTREME_FACTOR: f64 = 16.0;
/// A worker that made no rows gets no shards for this long, and twice as long each time after.
const FIRST_AVOIDANCE: Duration = Duration::from_secs(30);
/// The bound on that doubling.
const LONGEST_AVOIDANCE: Duration = Duration::from_secs(600);

/// A row may take this many times as long as its worker's rows usually do before requests that wait for it count as
/// stalled. A row alone varies by a factor of about two, and several may be ahead of it.
const STALL_ROW_TIMES: u32 = 4;

/// A worker's measurement of itself.
#[derive(Clone, Copy, Debug)]
pub struct SpeedReport {
    pub process: Incarnation,
    /// Bytes per second; 0 if unknown.
    pub rate: f64,
    /// The time that requests have waited with no row made, less the time that a row usually takes.
    pub stalled: Duration,
}

/// How a worker makes rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The speed that counts, in thousandths of the median.
    pub speed: u32,
    /// Whether it makes none although it lives.
    pub is_avoided: bool,
}

/// The speeds of all live workers, and those that get no shards.
#[derive(Debug, Default)]
pub struct Stragglers {
    workers: BTreeMap<WorkerId, SpeedRecord>,
}

#[derive(Clone, Copy, Debug)]
struct SpeedRecord {
    process: Incarnation,
    /// The speed that counts, in thousandths of the median.
    speed: u32,
    /// Since when measurements have differed from it.
    off_since: Option<Instant>,
    avoided: Option<Avoidance>,
}

#[derive(Clone, Copy, Debug)]
struct Avoidance {
    until: Instant,
    next: Duration,
}

impl Cluster {
    /// Updates the stragglers from the workers' reports. `window` is how long a worker must be slow or stalled to count
    /// as one; zero turns this off.
    pub fn detect_stragglers(&mut self, now: Instant, window: Duration) {
        if window.is_zero() {
            return;
        }
        let mut longest: HashMap<&WorkerId, Duration> = HashMap::new();
        for shard in self.jobs.values().filter(|view| view.is_served()).flat_map(|view| &view.shards) {
            let (Some(owner), Some(report)) = (&shard.record.owner, &shard.last_report) else { continue };
            // A row of a large shard may take its time.
            let stalled = report.stalled.saturating_sub(report.row_time.saturating_mul(STALL_ROW_TIMES));
            if stalled.is_zero() {
                continue;
            }
            let longest = longest.entry(owner).or_default();
            *longest = stalled.max(*longest);
        }
        let report = |worker, member: &Member| {
            let stalled = longest.get(worker).copied().unwrap_or_default();
            SpeedReport { process: member.incarnation, rate: member.rate, stalled }
        };
        let live = self.members.all_live(now);
        let reports: Vec<_> = live.map(|(worker, member)| (worker, report(worker, member))).collect();
        self.stragglers.observe(now, window, &reports);
    }
}

impl Stragglers {
    /// Takes in the reports of all live workers, in the order of their names. A worker must be slow, or make no rows, for
    /// all of `window` to count as so.
    pub fn observe(&mut self, now: Instant, window: Duration, reports: &[(&WorkerId, SpeedReport)]) {
        let rates = reports.iter().map(|(_, report)| report.rate);
        let median = median(rates.filter(|&rate| rate > 0.0).collect());
        // Both are in the same order, and each is gone through once.
        let mut before = std::mem::take(&mut self.workers).into_iter().peekable();
        let observed = reports.iter().map(|&(worker, report)| {
            while before.next_if(|(known, _)| known < worker).is_some() {}
            let known = before.next_if(|(known, _)| known == worker);
            let relative = median.filter(|_| report.rate > 0.0).map_or(1.0, |median| report.rate / median);
            let (name, mut known) = known
                .filter(|(_, known)| known.process == report.process)
                .unwrap_or_else(|| (worker.clone(), SpeedRecord::first(report.process, relative)));
            known.settle(now, window, worker, relative);
            known.avoid(now, window, worker, report.stalled);
            (name, known)
        });
        self.workers = observed.collect();
    }

    /// Returns a worker's pace; that of the median for one that is not known.
    pub fn pace(&self, worker: &WorkerId, now: Instant) -> Pace {
        let Some(known) = self.workers.get(worker) else {
            return Pace { speed: NORMAL_SPEED, is_avoided: false };
        };
        let is_avoided = known.avoided.is_some_and(|avoided| now < avoided.until);
        Pace { speed: known.speed, is_avoided }
    }

    /// Returns whether a worker that lives makes no rows, so that its shards should go elsewhere.
    pub fn is_avoided(&self, worker: &WorkerId, now: Instant) -> bool {
        self.pace(worker, now).is_avoided
    }
}

impl SpeedRecord {
    fn first(process: Incarnation, relative: f64) -> Self {
        Self { process, speed: speed_of(relative, FIRST_SIGHT_FACTOR), off_since: None, avoided: None }
    }

    fn settle(&mut self, now: Instant, window: Duration, worker: &WorkerId, relative: f64) {
        let current = f64::from(self.speed) / f64::from(NORMAL_SPEED);
        let new = speed_of(relative, SAME_SPEED_FACTOR);
        if new == self.speed || (current / CHANGE_FACTOR..current * CHANGE_FACTOR).contains(&relative) {
            self.off_since = None;
            return;
        }
        let since = *self.off_since.get_or_insert(now);
        if now.duration_since(since) >= window {
            info!(%worker, before = self.speed, now = new, "this worker's speed has changed (1000 is the median)");
            self.speed = new;
            self.off_since = None;
        }
    }

    fn avoid(&mut self, now: Instant, window: Duration, worker: &WorkerId, stalled: Duration) {
        let is_over = self.avoided.is_none_or(|avoided| now >= avoided.until);
        if stalled < window || !is_over {
            return;
        }
        let wait = self.avoided.map_or(FIRST_AVOIDANCE, |avoided| avoided.next);
        warn!(%worker, ?stalled, "this worker lives but makes none of the rows requested: its shards go to others");
        self.avoided = Some(Avoidance { until: now + wait, next: (wait * 2).min(LONGEST_AVOIDANCE) });
    }
}

/// Returns the upper median, so that of two workers the slower one is the straggler.
fn median(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

/// Returns the speed that counts for a measurement: the median's within a factor of `alike`.
fn speed_of(relative: f64, alike: f64) -> u32 {
    if (1.0 / alike..=alike).contains(&relative) {
        NORMAL_SPEED
    } else {
        (relative.clamp(1.0 / EXTREME_FACTOR, EXTREME_FACTOR) * f64::from(NORMAL_SPEED)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    fn worker(number: usize) -> WorkerId {
        WorkerId::new(format!("w{number}")).unwrap()
    }

    fn reports(rates: &[f64]) -> BTreeMap<WorkerId, SpeedReport> {
        let measure = |rate| SpeedReport { process: Incarnation([1; 16]), rate, stalled: Duration::ZERO };
        rates.iter().enumerate().map(|(at, &rate)| (worker(at), measure(rate))).collect()
    }

    fn observe(known: &mut Stragglers, now: Instant, reports: &BTreeMap<WorkerId, SpeedReport>) {
        let reports: Vec<_> = reports.iter().map(|(worker, report)| (worker, *report)).collect();
        known.observe(now, WINDOW, &reports);
    }

    fn speeds(speeds: &Stragglers) -> Vec<u32> {
        (0..3).map(|at| speeds.pace(&worker(at), Instant::now()).speed).collect()
    }

    #[test]
    fn what_lasts_counts_and_what_passes_does_not() {
        let mut known = Stragglers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        observe(&mut known, at(0), &reports(&[1e9, 1.1e9, 0.9e9]));
        assert_eq!(speeds(&known), [1000; 3]);
        observe(&mut known, at(1), &reports(&[1e9, 1.1e9, 0.2e9]));
        observe(&mut known, at(9), &reports(&[1e9, 1.1e9, 0.9e9]));
        observe(&mut known, at(10), &reports(&[1e9, 1.1e9, 0.2e9]));
        observe(&mut known, at(19), &reports(&[1e9, 1.1e9, 0.2e9]));
        assert_eq!(speeds(&known), [1000; 3], "it was well in between");
        observe(&mut known, at(20), &reports(&[1e9, 1.1e9, 0.2e9]));
        assert_eq!(speeds(&known), [1000, 1000, 200]);
        // Slightly better is not enough; normal for the whole window is.
        observe(&mut known, at(40), &reports(&[1e9, 1.1e9, 0.28e9]));
        observe(&mut known, at(60), &reports(&[1e9, 1.1e9, 0.28e9]));
        assert_eq!(speeds(&known), [1000, 1000, 200]);
        observe(&mut known, at(61), &reports(&[1e9, 1.1e9, 0.9e9]));
        observe(&mut known, at(71), &reports(&[1e9, 1.1e9, 0.9e9]));
        assert_eq!(speeds(&known), [1000; 3]);
    }

    #[test]
    fn a_new_worker_is_taken_at_its_word_only_where_it_is_far_off() {
        let mut known = Stragglers::default();
        observe(&mut known, Instant::now(), &reports(&[1e9, 0.4e9, 0.1e9]));
        assert_eq!(speeds(&known), [1000, 1000, 250]);
        observe(&mut known, Instant::now(), &reports(&[1e9, 0.0, f64::MIN_POSITIVE]));
        assert_eq!(known.pace(&worker(1), Instant::now()).speed, 1000);
        assert_eq!(
            known.pace(&worker(7), Instant::now()).speed,
            1000,
            "an unknown worker is as fast as the median"
        );
    }

    #[test]
    fn each_worker_keeps_its_own_record_while_others_come_and_go() {
        let mut known = Stragglers::default();
        let now = Instant::now();
        let all = reports(&[1e9, 1e9, 1e9, 0.1e9, 1e9, 1e9]);
        let without = |gone: &[usize]| {
            let is_here = |name: &WorkerId| gone.iter().all(|it| worker(*it) != *name);
            all.iter().filter(|(name, _)| is_here(name)).map(|(name, it)| (name.clone(), *it)).collect()
        };
        observe(&mut known, now, &without(&[1, 4]));
        for gone in [&[0, 5][..], &[2], &[], &[1, 2, 4]] {
            observe(&mut known, now, &without(gone));
            let names: Vec<_> = known.workers.keys().cloned().collect();
            assert_eq!(names, without(gone).into_keys().collect::<Vec<_>>());
            let slow = known.workers.iter().filter(|(_, it)| it.speed != NORMAL_SPEED);
            assert_eq!(slow.map(|(name, _)| name.clone()).collect::<Vec<_>>(), [worker(3)]);
        }
        observe(&mut known, now, &without(&[3]));
        assert!(!known.workers.contains_key(&worker(3)));
    }

    #[test]
    fn who_stands_still_is_avoided_for_longer_each_time() {
        let mut known = Stragglers::default();
        let mut now = Instant::now();
        let mut still = reports(&[1e9, 1e9]);
        observe(&mut known, now, &still);
        still.get_mut(&worker(1)).unwrap().stalled = WINDOW;
        for wait in [FIRST_AVOIDANCE, FIRST_AVOIDANCE * 2, FIRST_AVOIDANCE * 4] {
            observe(&mut known, now, &still);
            assert!(known.is_avoided(&worker(1), now + wait * 9 / 10) && !known.is_avoided(&worker(0), now));
            now += wait;
            assert!(!known.is_avoided(&worker(1), now));
        }
        let mut restarted = reports(&[1e9, 1e9]);
        restarted.get_mut(&worker(1)).unwrap().process = Incarnation([2; 16]);
        observe(&mut known, now, &still);
        observe(&mut known, now, &restarted);
        assert!(!known.is_avoided(&worker(1), now), "another process under its name");
    }
}
