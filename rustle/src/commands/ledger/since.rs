//! A time in the past, as arguments name it.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use node::config::units::parse_duration;
use time::{Date, Month, OffsetDateTime, Time};

/// A time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(pub u64);

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = parse_duration(text).ok().map(|ago| now.saturating_sub(ago).as_millis() as u64);
        let found = ago.or_else(|| moment(text)).map(Self);
        found.ok_or_else(|| {
            "allowed: a date 2026-11-27, a time 2026-11-27T01:30:00Z, or how long ago, such as 90m or 24h"
                .to_owned()
        })
    }
}

/// Reads a date with or without a time, in UTC.
fn moment(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':')?;
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, u8::try_from(day).ok()?).ok()?;
    let parts = [hour, minute, second].map(|part| u8::try_from(part).unwrap_or(u8::MAX));
    let time = Time::from_hms(parts[0], parts[1], parts[2]).ok()?;
    let seconds = u64::try_from(OffsetDateTime::new_utc(date, time).unix_timestamp()).ok()?;
    Some(seconds * 1_000)
}

/// Reads three numbers.
fn numbers(text: &str, between: char) -> Option<[u16; 3]> {
    let numbers: Option<Vec<u16>> = text.split(between).map(|part| part.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_dates_are_read_and_others_refused() {
        assert_eq!("2026-09-21T14:13:20Z".parse(), Ok(Since(1_790_000_000_000)));
        assert_eq!("2026-09-21".parse(), Ok(Since(1_789_948_800_000)));
        let hour_ago = "1h".parse::<Since>().unwrap();
        assert!(hour_ago.0 > 1_700_000_000_000 && "0s".parse::<Since>().unwrap().0 >= hour_ago.0 + 3_600_000);
        for bad in ["", "yesterday", "2026-13-01", "2026-09-21T25:00:00Z", "2026-09-21T14:13:20", "2026-09"] {
            assert!(bad.parse::<Since>().is_err(), "{bad}");
        }
    }
}
