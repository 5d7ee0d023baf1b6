//! The privacy statement of a run: for whom, against whom, under which assumptions, by which account.
//!
//! A [`Question`] is a plan, the assumption about its batches, and for a job the rows that it has released; a
//! [`Statement`] is the answer as data. [`markdown()`] and [`html()`] write it out, item by item along the reporting checklist
//! of Ponomareva et al. (2023), §5.3, which McMahan, Xu, Zhang (2024), Appendix C, and Xu et al. (2023), Appendix A, follow
//! too.
//!
//! All figures come from `accounting`; this crate has no formula of its own. Without noise there is no statement.
//!
//! ```
//! use plan::{Mechanism, Participation, Plan, PlanSpec};
//! use report::{Question, Statement, markdown};
//!
//! # fn main() -> report::Result<()> {
//! let plan = Plan::new(PlanSpec {
//!     chacha_rounds: 20,
//!     iterations: 60,
//!     noise_multiplier: 4.0,
//!     clip_norm: 1.0,
//!     participation: Participation { min_sep: 10, max_participations: 2 },
//!     mechanism: Mechanism::BandSqrt { bands: 4 },
//!     layout: None,
//!     grid: None,
//! })?;
//! let statement = Statement::new(&Question::for_plan(plan, vec![1e-6], "0.1.0"))?;
//! assert_eq!(statement.accounting, "gaussian");
//! assert!(markdown(&statement).contains("differentially private for one user"));
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//!
//! * [`Question`], [`SamplingAssumption`] (`question`): what is asked, and the participation rule that covers the batches.
//! * [`Statement`] (`statement`), [`Figures`] (`figures`): the answer as data.
//! * [`GridFacts`] (`grid_facts`): what is said of a plan's grid.
//! * `privacy_curve`: the distribution that figures are read off.
//! * [`markdown()`], [`html()`], `sections`, `charts`: the answer as a page.
//! * [`event`], `bands`: a plan's run as an event of `accounting`.
//! * [`DataSetReport`] (`data_set`): the budget of a data set with all that it pays for, as data and as a page.
//! * [`Job`] (`job`): a job as its coordinator reports it.
//!
//! Symbols are in `docs/notation.md`.

#![deny(missing_docs)]

mod amount;
mod approval;
mod bands;
mod block;
mod charts;
mod data_set;
mod error;
pub mod event;
mod figures;
mod grid_facts;
mod html;
mod job;
mod markdown;
mod opening;
mod privacy_curve;
mod question;
mod sections;
mod share;
mod statement;
mod unit;

pub use amount::Amount;
pub use approval::ApprovalLine;
pub use block::BlockLine;
pub use data_set::{ChargeLine, DataSetReport};
pub use error::{ReportError, Result};
pub use figures::{AtDelta, Figures};
pub use grid_facts::GridFacts;
pub use html::html;
pub use job::{Job, SweepCharge};
pub use markdown::markdown;
pub use opening::Opening;
pub use question::{Question, SamplingAssumption};
pub use share::ShareLine;
pub use statement::{PlanParticipation, ReleasedSoFar, Statement};
pub use unit::Unit;
