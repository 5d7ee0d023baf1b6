//! Times of calls, and what is left of them.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

/// Of the calls of one kind that counted.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Seconds from when a call was due until its answer: a caller that is late itself makes it longer.
    since_due: Vec<f64>,
    /// Seconds from the call itself until its answer.
    since_called: Vec<f64>,
    pub failed: u64,
    /// Of the first call that failed.
    pub error: Option<String>,
}

impl Times {
    pub fn answered(&mut self, due: Instant, called: Instant) {
        self.since_due.push(due.elapsed().as_secs_f64());
        self.since_called.push(called.elapsed().as_secs_f64());
    }

    pub fn refused(&mut self, error: impl std::fmt::Display) {
        self.failed += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }

    pub fn add(&mut self, other: Self) {
        self.since_due.extend(other.since_due);
        self.since_called.extend(other.since_called);
        self.failed += other.failed;
        self.error = self.error.take().or(other.error);
    }

    pub fn summary(&self, seconds: f64) -> anyhow::Result<Summary> {
        Ok(Summary {
            answered: self.since_due.len(),
            failed: self.failed,
            error: self.error.clone(),
            per_second: self.since_due.len() as f64 / seconds,
            since_due: Quantiles::of(&self.since_due).context("no call was answered")?,
            since_called: Quantiles::of(&self.since_called).context("no call was answered")?,
        })
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub answered: usize,
    pub failed: u64,
    pub error: Option<String>,
    pub per_second: f64,
    pub since_due: Quantiles,
    pub since_called: Quantiles,
}

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Quantiles {
    /// By the nearest rank. `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let at = |share: f64| nearest_rank(&sorted, share);
        Some(Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max })
    }
}

/// The value of this rank, of sorted values; NaN of nothing.
pub fn nearest_rank(sorted: &[f64], share: f64) -> f64 {
    // A little less, so that 0.99 · 100 is 99 and not the float above it.
    let rank = (share * sorted.len() as f64 - 1e-9).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// When something that happens every so often is first due, as a share of its period: spread evenly, and the same in
/// every run.
pub fn phase(index: usize, period: Duration) -> Duration {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    period.mul_f64((index as f64 * GOLDEN).fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let of = Quantiles::of(&values).unwrap();
        assert_eq!((of.p50, of.p90, of.p99, of.p999, of.max), (500.0, 900.0, 990.0, 999.0, 1000.0));
        assert_eq!(Quantiles::of(&[3.0]).unwrap().p50, 3.0);
        assert_eq!(Quantiles::of(&[]), None);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| nearest_rank(&hundred, share)), [50.0, 99.0, 100.0]);
        assert_eq!(nearest_rank(&[3.0], 0.99), 3.0);
    }

    #[test]
    fn phases_fill_the_period_evenly() {
        let period = Duration::from_secs(10);
        let mut tenths = [0; 10];
        for index in 0..1000 {
            tenths[phase(index, period).as_secs() as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (95..=105).contains(count)), "{tenths:?}");
    }
}
