//! Rates of what a job, and a caller over all of its jobs, may do.

use std::time::{Duration, Instant};

use node::admission::KeyedRates;
use node::auth::ClientKey;
use proto::{JobId, ServiceError};

use super::settings::{FLAG_BRANCHES, FLAG_CHECKPOINTS, FLAG_LOG_LINES, FLAG_PLACEMENTS};

/// What may be had at once, in seconds of its rate.
const BURST_SECONDS: f64 = 600.0;
/// The rate of a caller, in rates of a job: one training program may have several jobs.
const CALLER_TIMES: u32 = 10;

/// Something that has a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Branches opened.
    Branches,
    /// Checkpoints requested, those before a change of the number of shards too.
    Checkpoints,
    /// Replacements of placement hints, each of which may move shards.
    Placements,
    /// Requests that write a line to the log whatever they change.
    LogLines,
}

impl Rate {
    /// Returns what is counted, and the flag that sets its rate.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Branches => ("branches opened", FLAG_BRANCHES),
            Self::Checkpoints => ("checkpoints requested", FLAG_CHECKPOINTS),
            Self::Placements => ("changes of placement hints", FLAG_PLACEMENTS),
            Self::LogLines => ("log lines caused", FLAG_LOG_LINES),
        }
    }
}

/// The rates of all jobs and of all callers.
#[derive(Debug)]
pub struct RatePair {
    per_minute: u32,
    of_jobs: KeyedRates<JobId>,
    of_callers: KeyedRates<ClientKey>,
}

/// Whose rate is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRefusal {
    is_of_caller: bool,
    per_minute: u32,
    wait: Duration,
}

impl RatePair {
    /// Returns rates of so many a minute for each job, and of ten times as many for each caller.
    pub fn new(per_minute: u32) -> Self {
        let per_second = f64::from(per_minute) / 60.0;
        Self {
            per_minute,
            of_jobs: KeyedRates::new(per_second, BURST_SECONDS),
            of_callers: KeyedRates::new(per_second * f64::from(CALLER_TIMES), BURST_SECONDS),
        }
    }

    /// Takes one of both, or of neither.
    pub fn take(&self, client: Option<&ClientKey>, job: &JobId, now: Instant) -> Result<(), RateRefusal> {
        if let Some(client) = client {
            let per_minute = self.per_minute.saturating_mul(CALLER_TIMES);
            let refused = |wait| RateRefusal { is_of_caller: true, per_minute, wait };
            self.of_callers.take(client, 1.0, now).map_err(refused)?;
        }
        self.of_jobs.take(job, 1.0, now).map_err(|wait| {
            if let Some(client) = client {
                self.of_callers.give_back(client, 1.0, now);
            }
            RateRefusal { is_of_caller: false, per_minute: self.per_minute, wait }
        })
    }
}

impl RateRefusal {
    /// Returns the error that callers get.
    pub fn into_error(self, rate: Rate, job: &JobId) -> ServiceError {
        let (counted, flag) = rate.words();
        let whose = if self.is_of_caller { "by this caller".to_owned() } else { format!("of job {job}") };
        ServiceError::QuotaExceeded {
            what: format!("{counted} {whose}"),
            limit: format!(
                "{} a minute, {:.0} minutes' worth at once",
                self.per_minute,
                BURST_SECONDS / 60.0
            ),
            remedy: format!("an operator may raise {flag}"),
            retry_after_ms: Some(in_ms(self.wait)),
        }
    }
}

/// Returns whole milliseconds, at least one.
pub fn in_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_ten_jobs_worth_and_a_refused_one_pays_nothing() {
        let rates = RatePair::new(6);
        let now = Instant::now();
        let client = ClientKey("c".into());
        let job = |number: usize| JobId::new(format!("j{number}")).unwrap();
        let taken =
            |number| (0..100).filter(|_| rates.take(Some(&client), &job(number), now).is_ok()).count();
        assert_eq!((0..12).map(taken).collect::<Vec<_>>(), [60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 0, 0]);
        let refused = rates.take(Some(&client), &job(11), now).unwrap_err();
        assert!(refused.is_of_caller && refused.wait == Duration::from_secs(1), "{refused:?}");
        // Another caller has its own, and the job's.
        let other = ClientKey("d".into());
        assert!(!rates.take(Some(&other), &job(0), now).unwrap_err().is_of_caller);
        rates.take(Some(&other), &job(11), now).unwrap();
    }
}
