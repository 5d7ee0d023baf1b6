//! Who created a job, opened its branches and adopted its ledger, and when.

use serde::{Deserialize, Serialize};

/// An event after which a job's noise is fresh, as the chain of the job's ledger has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The kind of event: `created`, `branch_opened` or `adopted`.
    pub event: String,
    /// The branch that was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<u64>,
    /// The id under which the ledger was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<String>,
    /// The role and identity of who did it.
    pub by: String,
    /// When, in milliseconds since 1970, by the clock of the process that recorded it.
    pub at_ms: u64,
}

impl Opening {
    /// Returns what was done, in words.
    pub(crate) fn what(&self) -> String {
        match (self.event.as_str(), self.branch, &self.ledger) {
            ("created", ..) => "job created".to_owned(),
            ("branch_opened", Some(branch), _) => format!("branch {branch} opened"),
            ("adopted", _, Some(ledger)) => format!("ledger adopted as {}…", &ledger[..ledger.len().min(8)]),
            (event, ..) => event.to_owned(),
        }
    }

    /// Returns the time as text, such as `2026-09-21 14:13:20 UTC`.
    pub(crate) fn at(&self) -> String {
        let seconds = self.at_ms / 1_000;
        let (year, month, day) = date(seconds / 86_400);
        let [hour, minute, second] = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Returns the date that is so many days after 1970-01-01. Years are counted from March, so that a leap day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a walk over all days.
    #[test]
    fn dates_are_those_of_the_calendar() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days_of = |year: u64, month: u64| match month {
            2 if is_leap(year) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut expected = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), expected, "day {days}");
            expected = match expected {
                (year, 12, 31) => (year + 1, 1, 1),
                (year, month, day) if day == days_of(year, month) => (year, month + 1, 1),
                (year, month, day) => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn an_opening_reads_as_people_write() {
        let text = r#"{"event":"branch_opened","branch":2,"by":"operator token:4fa01b23c4d5","at_ms":1790000000123}"#;
        let opening: Opening = serde_json::from_str(text).unwrap();
        assert_eq!(
            (opening.what(), opening.at()),
            ("branch 2 opened".into(), "2026-09-21 14:13:20 UTC".into())
        );
        assert_eq!(serde_json::to_string(&opening).unwrap(), text);
    }
}
