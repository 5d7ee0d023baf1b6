//! What a run promises, stated in full: for whom, against what, under which assumptions, by which account.
//!
//! A [`Question`] is a plan, what is assumed of its batches, and for a job what it has released; [`Statement`] is
//! the answer as data. [`markdown`] and [`html`] put it into sections, item by item along the reporting checklist of
//! Ponomareva et al. 2023, §5.3, that papers/000 (Appendix C) and papers/002 (Appendix A) follow.
//!
//! Figures come from `accounting` alone; nothing here knows a formula. Without noise there is no statement.

mod bands;
mod charts;
mod error;
pub mod event;
mod figures;
mod html;
mod job;
mod markdown;
mod privacy_curve;
mod question;
mod sections;
mod statement;

pub use error::{ReportError, Result};
pub use figures::{AtDelta, Figures};
pub use html::html;
pub use job::Job;
pub use markdown::markdown;
pub use question::{Question, SamplingAssumption, Unit};
pub use statement::{PlanParticipation, ReleasedSoFar, Statement};
