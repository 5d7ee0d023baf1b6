//! Ours beside a peer: how a setting came out on the other side, whatever is compared.

use reproduce::measure::Spread;

/// What came of asking a peer to do the same.
#[derive(Clone, Debug)]
pub enum Comparison<T> {
    Compared(T),
    /// It has no such thing.
    Absent(String),
    /// It gave no answer in time, or none that is of use.
    Failed(String),
    /// Two evaluations of one answer differ, so that nothing of this setting can be trusted.
    Disagreed(String),
    /// No peer was asked.
    Alone,
}

impl<T> Comparison<T> {
    pub fn compared(&self) -> Option<&T> {
        match self {
            Self::Compared(theirs) => Some(theirs),
            _ => None,
        }
    }

    /// Returns why nothing was compared, where there is a reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Absent(why) | Self::Failed(why) | Self::Disagreed(why) => Some(why),
            Self::Compared(_) | Self::Alone => None,
        }
    }
}

/// Returns the spread of what was measured. Fails where nothing was.
pub fn spread(values: &[f64]) -> anyhow::Result<Spread> {
    Spread::of(values).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

/// Times in words, with three digits that count, however short.
pub fn short_time(time: f64, digits: [usize; 2]) -> String {
    match time {
        _ if time >= 100.0 => format!("{time:.0}"),
        _ if time >= 1.0 => format!("{time:.*}", digits[0]),
        _ => format!("{time:.*}", digits[1]),
    }
}

/// The cell of a value that may be missing.
pub fn cell<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map(show).unwrap_or_default()
}
