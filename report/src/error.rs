//! Why there is no statement.

use accounting::AccountingError;
use plan::PlanError;
use plot::PlotError;

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("noise_multiplier is 0: without noise there is no guarantee to state")]
    NoNoise,
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid { what: &'static str, value: String, allowed: String },
    /// A coordinator's report that isn't what this build understands, or contradicts itself.
    #[error("the coordinator's report: {0}")]
    Job(String),
    /// An event that isn't of the plan it was held against.
    #[error("the event is not of this plan: {what} is {value}; allowed: {allowed}")]
    NotOfPlan { what: &'static str, value: String, allowed: String },
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Plot(#[from] PlotError),
}

pub type Result<T, E = ReportError> = std::result::Result<T, E>;
