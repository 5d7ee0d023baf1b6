//! How often to write a checkpoint: what writing it costs against what it saves.
//!
//! Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974), with replay at its own
//! speed: writing costs C every τ, and a failure, once in M, costs the replay of τ/2, r seconds for each second that
//! the job ran. C/τ + r·τ/2M is least at τ = √(2·C·M/r).

use std::{str::FromStr, time::Duration};

use node::config::units::parse_duration;

/// Of the job's time, at most (CheckFreq, FAST 2021).
const MOST_OVERHEAD: f64 = 0.035;
/// Before anything has been measured.
const FIRST: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3600);
/// Also where writing is said to take so long that no interval is affordable: a worker may say anything.
const LONGEST_AT_ALL: Duration = Duration::from_secs(86_400);

/// When checkpoints are written without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    Never,
    Every(Duration),
    ByCost,
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Self::ByCost),
            "0" => return Ok(Self::Never),
            _ => {}
        }
        let every =
            parse_duration(text).map_err(|error| format!("{error}; allowed too: auto, and 0 for none"))?;
        Ok(if every.is_zero() { Self::Never } else { Self::Every(every) })
    }
}

/// What a job's last checkpoint showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// C, as if all of the writing kept the job waiting.
    pub write: Duration,
    /// r: seconds of replay for each second that the job ran.
    pub replay_rate: f64,
}

/// What the operator expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// M.
    pub between_failures: Duration,
    /// A replay that is to be stayed under, where the bound on overhead allows it.
    pub longest_replay: Duration,
}

/// Time from one checkpoint of a job to the next; `None` for never.
pub fn interval(schedule: Schedule, cost: Option<Cost>, expected: Expectations) -> Option<Duration> {
    match (schedule, cost) {
        (Schedule::Never, _) => None,
        (Schedule::Every(every), _) => Some(every),
        (Schedule::ByCost, None) => Some(FIRST),
        (Schedule::ByCost, Some(cost)) => Some(by_cost(cost, expected)),
    }
}

fn by_cost(cost: Cost, expected: Expectations) -> Duration {
    let write = cost.write.as_secs_f64();
    let rate = cost.replay_rate.max(1e-6);
    let best = (2.0 * write * expected.between_failures.as_secs_f64() / rate).sqrt();
    let replayed_in_time = expected.longest_replay.as_secs_f64() / rate;
    let affordable = write / MOST_OVERHEAD;
    let seconds = best.min(replayed_in_time).min(LONGEST.as_secs_f64());
    let shortest = SHORTEST.as_secs_f64();
    let longest = LONGEST_AT_ALL.as_secs_f64();
    Duration::from_secs_f64(seconds.max(affordable).clamp(shortest, longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expectations = Expectations {
        between_failures: Duration::from_secs(10_800),
        longest_replay: Duration::from_secs(60),
    };

    fn seconds(write: f64, replay_rate: f64) -> f64 {
        let cost = Cost { write: Duration::from_secs_f64(write), replay_rate };
        interval(Schedule::ByCost, Some(cost), EXPECTED).unwrap().as_secs_f64()
    }

    #[test]
    fn writing_and_replaying_cost_the_same_at_the_chosen_interval() {
        // Away from the bounds the derivative of C/τ + r·τ/2M is zero: both terms are equal.
        for (write, rate) in [(0.01, 0.3), (0.05, 0.2), (0.1, 0.9)] {
            let chosen = seconds(write, rate);
            let writing = write / chosen;
            let replaying = rate * chosen / 2.0 / 10_800.0;
            assert!((writing / replaying - 1.0).abs() < 1e-6, "{write} {rate}: {chosen}");
        }
    }

    #[test]
    fn overhead_is_bounded_before_all_else_and_replay_next() {
        for write in [1e-4, 0.01, 0.3, 2.0, 60.0, 1e3] {
            for rate in [0.0, 1e-3, 0.1, 1.0, 3.0] {
                let chosen = seconds(write, rate);
                assert!(write / chosen <= MOST_OVERHEAD * 1.000_001, "{write} {rate}: {chosen}");
                let replay = chosen * rate;
                assert!(
                    replay <= 60.0 + 1e-6 || write / chosen > MOST_OVERHEAD * 0.999,
                    "{write} {rate}: {chosen}"
                );
            }
        }
        assert_eq!(seconds(0.0, 1.0), 5.0);
        assert_eq!(seconds(0.5, 1e-9), 3600.0);
    }

    #[test]
    fn whatever_a_worker_says_of_its_time_there_is_an_interval() {
        for write in [Duration::MAX, Duration::from_secs(1 << 62)] {
            for replay_rate in [0.0, 1.0, f64::MAX, f64::INFINITY, f64::NAN] {
                let cost = Cost { write, replay_rate };
                let chosen = interval(Schedule::ByCost, Some(cost), EXPECTED);
                assert_eq!(chosen, Some(LONGEST_AT_ALL), "{cost:?}");
            }
        }
    }

    #[test]
    fn schedules_are_words_or_durations() {
        let parsed = |text: &str| text.parse::<Schedule>();
        assert_eq!(parsed("auto"), Ok(Schedule::ByCost));
        assert_eq!((parsed("0"), parsed("0s")), (Ok(Schedule::Never), Ok(Schedule::Never)));
        assert_eq!(parsed("90s"), Ok(Schedule::Every(Duration::from_secs(90))));
        assert!(parsed("often").unwrap_err().contains("auto"));
        assert_eq!(interval(Schedule::Never, None, EXPECTED), None);
        assert_eq!(interval(Schedule::ByCost, None, EXPECTED), Some(FIRST));
    }
}
