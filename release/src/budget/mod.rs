//! The privacy budget of a data set, over all jobs that draw on it.
//!
//! A job of a data set is admitted only where the event of its whole plan, composed with the charges of all other jobs, stays
//! within the budget. The composition is the accountant's ([`accounting::Account`]): exact for Gaussian mechanisms, by
//! privacy-loss distributions where batches are sampled, by Rényi divergences where nothing better is known. ε are never
//! added up.
//!
//! # What is charged
//!
//! * A new job reserves all n rows of its plan. Rows beyond are refused by the ledger, so that no binding exceeds a charge.
//! * A rewind is charged, before its branch is opened, for the stretches of rows that branches leave behind
//!   ([`accounting::rewind`]), as unsampled Gaussian mechanisms: a branch may repeat the batches that it left.
//! * The branch of a job whose ledger is adopted is charged for all rows that were unbound, as if the other copy released
//!   them; beyond the budget too.
//! * A job that ends before it has bound a row is charged for nothing. Any other keeps its whole charge, however early it
//!   ended: when it ended may depend on what it released.
//! * A sweep is charged from the beginning for the best of its random number of runs, and for nothing else: its runs can't
//!   rewind, and nothing is given back.
//!
//! # Shares
//!
//! A data set may have a share for each tenant. Then each charge is in the share of one tenant, and is admitted only where both
//! the share and the whole budget hold it, each beside the charges that count in it.
//!
//! # Blocks
//!
//! A data set that grows may have blocks, days of records with a budget each. Then each new job names the blocks that it reads, and
//! is admitted only where each of them holds its whole event beside what is charged there. Each charge is one record of the ledger
//! with all of its blocks, so that whatever changes it changes it in each of them.
//!
//! # Approvals
//!
//! A data set may have been recorded with a rule: a budget or a share is raised, and a job rewound beyond a number, only once another
//! person has approved exactly that. The ledger demands it, in the transaction of the change.
//!
//! # Decisions
//!
//! The ledger composes nothing. A decision is made here, on one state of the data set, and the ledger applies it in one
//! transaction with what it admits, unless the state has changed since; then it is made again.
//!
//! Most decisions need no composition: Rényi divergences of each kind of event are known after the first job of it, their sum
//! bounds ε from above, and where that is clearly within the budget, the composition is too. Else it decides.

mod admission;
mod approvals;
mod blocks;
mod bound;
mod counted;
mod decision;
mod events;
mod kinds;
mod odometer;
mod quick;
mod readings;
mod rewinds;
mod rounding;
mod shares;
mod shown;
mod shown_blocks;
mod sweeps;

pub use admission::{Admission, admit, create_admitted, create_job, grant};
pub use approvals::{approvals_used, approve};
pub use blocks::add_block;
pub use decision::ATTEMPTS;
pub use events::planned_event;
pub use odometer::Odometer;
pub use rewinds::{open_adopted_branch, open_branch, released_rows};
pub use shares::set_share;
pub use shown::{message_of, report_of};
pub use sweeps::{Sweep, create_run, create_sweep};
