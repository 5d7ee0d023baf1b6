//! The crate's error type.

use thiserror::Error;

/// The reason why there is no account.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// An argument outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The argument's name.
        what: &'static str,
        /// The value given.
        value: f64,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// A search without an answer in the range that was tried, or a figure that f64 cannot hold.
    #[error("{what} is out of reach for {setting}")]
    OutOfReach {
        /// The figure that was searched for.
        what: &'static str,
        /// The arguments of the search, and the range that was tried.
        setting: String,
    },
    /// An event for which no account is known under the relation asked for.
    #[error("{event} can't be accounted for: {why}")]
    Unsupported {
        /// The kind of the event, as written in JSON.
        event: &'static str,
        /// The reason, and what to do instead where there is something.
        why: String,
    },
    /// A list of branches and rows that no job can have released.
    #[error("released rows: {why}")]
    InvalidRelease {
        /// The branch, and what is wrong with it.
        why: String,
    },
    /// An audit that could not refute its claim if the attack were perfect.
    #[error("{given} guesses about canaries can't show an epsilon above {epsilon} at confidence {confidence}, if all of them are right; {}", canaries_allowed(*needed))]
    TooFewCanaries {
        /// Guesses that there are.
        given: u64,
        /// The claim's ε.
        epsilon: f64,
        /// The confidence asked for.
        confidence: f64,
        /// The fewest canaries that would do; none where δ is too large for any number.
        needed: Option<u64>,
    },
    /// A strategy that could not be evaluated.
    #[error(transparent)]
    Strategy(#[from] strategy::StrategyError),
}

/// The crate's result type.
pub type Result<T, E = AccountingError> = std::result::Result<T, E>;

/// Builds the error of a number outside its range.
pub(crate) fn invalid(what: &'static str, value: f64, allowed: &'static str) -> AccountingError {
    AccountingError::Invalid { what, value, allowed }
}

fn canaries_allowed(needed: Option<u64>) -> String {
    needed.map_or_else(
        || "at this delta and confidence no number of canaries does; allowed: a smaller delta, one number of guesses, or a \
         method for independent scores".into(),
        |needed| format!("allowed: {needed} canaries or more, and some more for an attack that is not perfect"),
    )
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
