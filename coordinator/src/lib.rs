//! The coordinator: who is here, who holds which shard, what may be released, and what is stored.
//!
//! It moves noise and can't make it: it never sees a key, and links no noise kernel. The ledger on disk is the truth;
//! what is in memory can be lost at any moment without a row being released twice.

mod blocking;
mod checkpoints;
mod cluster;
mod config;
mod coordinator;
mod grpc;
mod job_series;
mod metric_definitions;
pub mod pace;
mod page;
pub mod placement;
mod plan_facts;
mod proxy;
mod reconcile;
mod release;
mod report;
mod retention;
mod run;
mod schedule;
mod service;
#[cfg(feature = "etcd")]
mod standing;
mod status;
mod store;
mod watch;

#[cfg(test)]
mod tests;

pub use config::{CoordinatorArgs, CoordinatorConfig, Options, Settings};
pub use metric_definitions::{DEFINITIONS, JOB_DEFINITIONS, describe_metrics};
pub use run::{Onlooker, run, run_over};
pub use store::{Store, StoreArgs};
