//! Workers that have more watermarks to report than one message holds. Bindings wait for them, for so long and no longer: a
//! worker that reports without end must not keep every job waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::WorkerId;
use tokio::time::Instant;

/// The time that bindings wait for one worker. A message of 8,192 watermarks takes some 20 ms: it is enough for four
/// million.
const OF_ONE_WORKER: Duration = Duration::from_secs(10);
/// The time that bindings wait for all workers together: one caller may register under any number of names.
const OF_ALL_WORKERS: Duration = Duration::from_secs(60);
/// The time without waiting after which a second more may be waited for.
const PER_SECOND: u32 = 60;

/// The workers that have more to report, and how long bindings have waited for them.
#[derive(Debug, Default)]
pub struct LongReports {
    workers: BTreeMap<WorkerId, Reporter>,
    /// The number of workers that have more to report now.
    now_reporting: usize,
    together: Waiting,
}

#[derive(Debug, Default)]
struct Reporter {
    waiting: Waiting,
    is_named: bool,
}

/// Time waited for, which is forgotten slowly while nothing is waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    is_running: bool,
    changed_at: Option<Instant>,
    before: Duration,
}

impl Waiting {
    fn spent(&self, now: Instant) -> Duration {
        let passed = self.changed_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        if self.is_running { self.before + passed } else { self.before.saturating_sub(passed / PER_SECOND) }
    }

    fn set(&mut self, is_running: bool, now: Instant, at_most: Duration) {
        let before = self.spent(now).min(at_most);
        *self = Self { is_running, changed_at: Some(now), before };
    }
}

impl LongReports {
    /// Notes whether a worker has more to report. Returns true, once for a worker, where bindings do not wait for it any
    /// more though it has.
    pub fn note(&mut self, worker: &WorkerId, has_more: bool, now: Instant) -> bool {
        if !has_more && !self.workers.contains_key(worker) {
            return false;
        }
        let reporter = self.workers.entry(worker.clone()).or_default();
        self.now_reporting -= usize::from(reporter.waiting.is_running);
        self.now_reporting += usize::from(has_more);
        reporter.waiting.set(has_more, now, OF_ONE_WORKER);
        let is_over =
            reporter.waiting.spent(now) >= OF_ONE_WORKER || self.together.spent(now) >= OF_ALL_WORKERS;
        let is_news = has_more && is_over && !reporter.is_named;
        reporter.is_named |= is_news;
        self.together.set(self.now_reporting > 0, now, OF_ALL_WORKERS);
        is_news
    }

    /// Forgets a worker that is gone.
    pub fn forget(&mut self, worker: &WorkerId, now: Instant) {
        let Some(reporter) = self.workers.remove(worker) else { return };
        self.now_reporting -= usize::from(reporter.waiting.is_running);
        self.together.set(self.now_reporting > 0, now, OF_ALL_WORKERS);
    }

    /// Returns the workers with more to report that bindings wait for, dead ones too.
    pub fn waited_for(&self, now: Instant) -> impl Iterator<Item = &WorkerId> {
        let is_over = self.now_reporting == 0 || self.together.spent(now) >= OF_ALL_WORKERS;
        let workers = (!is_over).then_some(&self.workers).into_iter().flatten();
        workers
            .filter(move |(_, reporter)| {
                reporter.waiting.is_running && reporter.waiting.spent(now) < OF_ONE_WORKER
            })
            .map(|(worker, _)| worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(number: u64) -> WorkerId {
        WorkerId::new(format!("w{number}")).unwrap()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn who_reports_without_end_is_named_once_and_not_waited_for() {
        let began = Instant::now();
        let mut reports = LongReports::default();
        let named = (0..30).filter(|second| reports.note(&worker(0), true, began + seconds(*second)));
        assert_eq!(named.count(), 1);
        assert_eq!(reports.waited_for(began + seconds(30)).count(), 0);
        // Nor for a second time, but for one second a minute.
        assert!(!reports.note(&worker(0), false, began + seconds(30)));
        reports.note(&worker(0), true, began + seconds(90));
        assert_eq!(reports.waited_for(began + seconds(90)).count(), 1);
        assert_eq!(reports.waited_for(began + seconds(92)).count(), 0);
        // Others are.
        reports.note(&worker(1), true, began + seconds(92));
        assert_eq!(reports.waited_for(began + seconds(93)).collect::<Vec<_>>(), [&worker(1)]);
    }

    #[test]
    fn any_number_of_names_is_waited_for_a_minute() {
        let began = Instant::now();
        let mut reports = LongReports::default();
        let mut waited = 0;
        for second in 0..600 {
            let now = began + seconds(second);
            reports.note(&worker(second), true, now);
            waited += usize::from(reports.waited_for(now).next().is_some());
            reports.forget(&worker(second), now + seconds(1));
        }
        assert_eq!(waited, 60);
        assert_eq!((reports.workers.len(), reports.now_reporting), (0, 0));
    }
}
