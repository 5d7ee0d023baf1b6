//! Values as the command line writes them: ranges, sizes in bytes, and durations.

use std::ops::Range;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::numbers;

/// Longest time of a flag, in days: 100 years. Dates end somewhere.
const MOST_DAYS: u64 = 36_500;

/// A range `a..b` that is not empty: a, a+1, …, b−1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span(pub Range<u64>);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a..b with a < b, such as 0..8";
        let (start, end) = text.split_once("..").ok_or_else(|| allowed.to_owned())?;
        let number = |text: &str| {
            let digits = numbers::digits(text).unwrap_or_default();
            digits.parse::<u64>().map_err(|_| format!("{text:?} is no whole number; {allowed}"))
        };
        let start = number(start)?;
        let end = number(end)?;
        if start < end { Ok(Self(start..end)) } else { Err(format!("the range is empty; {allowed}")) }
    }
}

/// A size in bytes, written as in 64MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = node::config::units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        node::config::units::parse_bytes(text).map(Self)
    }
}

/// Formats the size to three digits, in powers of 1024.
impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let steps = (0..4).take_while(|step| self.0 >> (10 * (step + 1)) > 0).count();
        let value = self.0 as f64 / (1_u64 << (10 * steps)) as f64;
        match steps {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.*} {}", if value < 10.0 { 2 } else { 1 }, UNITS[steps]),
        }
    }
}

/// Returns the time of milliseconds since 1970; 1970 for what no clock can say.
pub fn time_of(since_1970_ms: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(since_1970_ms)).unwrap_or(UNIX_EPOCH)
}

/// Parses a duration above 0 and of up to 100 years, as in 30s or 10m.
pub fn duration(text: &str) -> Result<Duration, String> {
    within_limits(node::config::units::parse_duration(text).map_err(|error| error.to_string())?)
}

fn within_limits(duration: Duration) -> Result<Duration, String> {
    let is_within = !duration.is_zero() && duration.as_secs() <= MOST_DAYS * 86_400;
    if is_within { Ok(duration) } else { Err(format!("allowed: above 0 and up to {}h", MOST_DAYS * 24)) }
}

/// Parses a duration for which 0 is allowed too.
pub fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let is_zero = text == "0" || node::config::units::parse_duration(text).is_ok_and(|time| time.is_zero());
    if is_zero { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses a duration in the usual units or in days, as in 30d.
pub fn duration_in_days(text: &str) -> Result<Duration, String> {
    match text.strip_suffix('d').map(str::parse::<u32>) {
        Some(Ok(days)) => within_limits(Duration::from_secs(u64::from(days) * 86_400)),
        _ => duration(text).map_err(|error| format!("{error}, or a whole number of days, as in 30d")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        assert_eq!("16GiB".parse(), Ok(Bytes(16 << 30)));
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (10 << 30, "10.0 GiB"), (1 << 45, "32.0 TiB")]
        {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn durations() {
        for bad in ["0s", "0", "-1s", "5", "1e9h", "876001h", "x"] {
            assert!(duration(bad).unwrap_err().contains("allowed: "), "{bad}");
        }
        for bad in ["0d", "36501d", "4294967295d", "99999999999d", "-1d", "0s"] {
            assert!(duration_in_days(bad).unwrap_err().contains("allowed: "), "{bad}");
        }
        assert_eq!(duration_in_days("36500d"), duration("876000h"));
        assert_eq!((duration_or_zero("0"), duration_or_zero("0s")), (Ok(Duration::ZERO), Ok(Duration::ZERO)));
    }

    #[test]
    fn spans() {
        assert_eq!("3..8".parse(), Ok(Span(3..8)));
        assert_eq!("2_000..1e6".parse(), Ok(Span(2000..1_000_000)));
        for bad in
            ["", "3", "3..", "..3", "8..3", "3..3", "-1..3", "0..18446744073709551616", "0..=3", "a..b"]
        {
            assert!(bad.parse::<Span>().unwrap_err().contains("a..b"), "{bad}");
        }
    }
}
