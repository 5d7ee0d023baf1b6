//! The crate's error type.

use thiserror::Error;

/// Why an account could not be made.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// An argument outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid { what: &'static str, value: f64, allowed: &'static str },
    /// No answer in the range that was tried, or none that f64 can hold.
    #[error("{what} is out of reach for {setting}")]
    OutOfReach { what: &'static str, setting: String },
    /// Something for which no account is known.
    #[error("{event} can't be accounted for: {why}")]
    Unsupported { event: &'static str, why: String },
    /// Branches and rows that no job can have released.
    #[error("released rows: {why}")]
    InvalidRelease { why: String },
    /// The strategy itself could not be evaluated.
    #[error(transparent)]
    Strategy(#[from] strategy::StrategyError),
}

/// The crate's result type.
pub type Result<T, E = AccountingError> = std::result::Result<T, E>;

/// The error of a number outside its range.
pub(crate) fn invalid(what: &'static str, value: f64, allowed: &'static str) -> AccountingError {
    AccountingError::Invalid { what, value, allowed }
}

/// Accepts a finite number above zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(AccountingError::Invalid { what, value, allowed: "finite and above zero" })
    }
}

/// Accepts a finite number that is zero or above.
pub(crate) fn not_negative(what: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        Ok(value)
    } else {
        Err(AccountingError::Invalid { what, value, allowed: "finite and at least zero" })
    }
}

/// Accepts a failure probability strictly between zero and one.
pub(crate) fn probability(what: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(AccountingError::Invalid { what, value, allowed: "strictly between 0 and 1" })
    }
}
