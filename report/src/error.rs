//! The crate's error type.

use accounting::AccountingError;
use plan::PlanError;
use plot::PlotError;

/// The reason why there is no statement.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A plan without noise.
    #[error("noise_multiplier is 0: without noise there is no guarantee to state")]
    NoNoise,
    /// An argument outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The argument's name.
        what: &'static str,
        /// The value given.
        value: String,
        /// The values that are allowed, in words.
        allowed: String,
    },
    /// A coordinator's report that this build doesn't understand, or that contradicts itself.
    #[error("the coordinator's report: {0}")]
    Job(String),
    /// An event that does not describe the plan it was compared with.
    #[error("the event is not of this plan: {what} is {value}; allowed: {allowed}")]
    NotOfPlan {
        /// The field that differs.
        what: &'static str,
        /// Its value in the event.
        value: String,
        /// The values that the plan allows, in words.
        allowed: String,
    },
    /// An error of the account.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// An error of the plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An error of a chart.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// The crate's result type.
pub type Result<T, E = ReportError> = std::result::Result<T, E>;

/// Returns the reason in place of a figure that is out of reach: on a grid, what may fail counts e^ε times, which can be more
/// than δ allows where ε is large.
pub(crate) fn within_reach<T>(figure: Result<T>) -> Result<Result<T, String>> {
    match figure {
        Ok(figure) => Ok(Ok(figure)),
        Err(error @ ReportError::Accounting(AccountingError::OutOfReach { .. })) => {
            Ok(Err(error.to_string()))
        }
        Err(error) => Err(error),
    }
}
