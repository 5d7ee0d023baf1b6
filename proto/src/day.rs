//! A day of the calendar, as the blocks of a data set begin and end with one.

use std::fmt;
use std::str::FromStr;

use crate::ServiceError;

/// A day in UTC, as ISO 8601 writes it: `2026-11-01`. Days are in the order of the calendar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(String);

impl Day {
    /// Checks that there is such a day.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] where there is none.
    pub fn new(text: impl Into<String>) -> Result<Self, ServiceError> {
        let text = text.into();
        if is_day(&text).is_some() {
            return Ok(Self(text));
        }
        Err(ServiceError::invalid("day", format!("{text:?}"), "a day of the calendar, such as 2026-11-01"))
    }

    /// Returns the day as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns nothing where the text is no day from year 1 to 9999 of the Gregorian calendar.
fn is_day(text: &str) -> Option<()> {
    let is_separator = |at: usize| at == 4 || at == 7;
    let is_formed = text.bytes().enumerate().all(|(at, byte)| match byte {
        b'-' => is_separator(at),
        byte => byte.is_ascii_digit() && !is_separator(at),
    });
    if text.len() != 10 || !is_formed {
        return None;
    }
    let number = |digits: &str| digits.parse::<u32>().ok();
    let year = number(&text[..4]).filter(|year| *year > 0)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match number(&text[5..7])? {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&number(&text[8..])?).then_some(())
}

impl TryFrom<String> for Day {
    type Error = ServiceError;
    fn try_from(text: String) -> Result<Self, ServiceError> {
        Self::new(text)
    }
}

impl FromStr for Day {
    type Err = ServiceError;
    fn from_str(text: &str) -> Result<Self, ServiceError> {
        Self::new(text)
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.0
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar_and_in_its_order() {
        for day in ["0001-01-01", "2000-02-29", "2026-11-30", "2028-02-29", "9999-12-31"] {
            assert_eq!(Day::new(day).unwrap().to_string(), day);
        }
        for none in [
            "",
            "2026-11-31",
            "2026-02-29",
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "0000-01-01",
            "2026-1-01",
            "20261101",
            "2026-11-1",
            "2026/11/01",
            "26-11-2001",
            "2026-11-01T00:00:00Z",
            "+026-11-01",
            "２０２６",
            "-026-11-01",
        ] {
            let refused = Day::new(none).unwrap_err();
            assert!(refused.to_string().contains("such as 2026-11-01"), "{none}: {refused}");
        }
        assert!(Day::new("2025-12-31").unwrap() < Day::new("2026-01-01").unwrap());
    }
}
