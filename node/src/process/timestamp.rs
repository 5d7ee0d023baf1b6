//! Moments as people and programs read them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::{OffsetDateTime, UtcOffset};

/// Returns a moment in UTC as RFC 3339 has it, to the second: `2026-11-26T18:40:11Z`. Moments before 1970 and beyond the
/// year 9999 are shown as the nearest of those.
pub fn rfc3339(moment: SystemTime) -> String {
    const LAST: i64 = 253_402_300_799;
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or(LAST).min(LAST);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let at = at.to_offset(UtcOffset::UTC);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// By GNU date: `date -u -d @N +%FT%TZ`.
    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_790_000_000, "2026-09-21T14:13:20Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
    }
}
