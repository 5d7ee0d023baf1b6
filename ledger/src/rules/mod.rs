//! The rules of what may be recorded: each call of [`crate::Ledger`] is one transaction on the tables.

pub mod adoptions;
mod approvals;
pub mod archives;
pub mod bindings;
mod blocks;
pub mod branches;
pub mod charges;
mod checkpoint_list;
pub mod coverage;
pub mod cursor;
mod data_sets;
mod jobs;
pub mod openings;
mod shards;
mod sweep_runs;
mod sweeps;
