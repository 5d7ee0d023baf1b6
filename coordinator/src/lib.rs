//! The coordinator: who is here, who holds which shard, what may be released, and what is stored.
//!
//! It moves noise and can't make it: it never sees a key, and links no noise kernel. The ledger on disk is the truth;
//! what is in memory can be lost at any moment without a row being released twice.

mod blocking;
pub mod checkpointing;
mod cluster;
mod config;
mod coordinator;
mod grpc;
mod job_metrics;
#[cfg(feature = "etcd")]
mod leadership;
mod ledger_store;
mod metric_definitions;
mod placement;
mod plan_summary;
mod privacy_meter;
mod proxy;
mod reconcile;
mod release;
mod report;
mod run;
mod service;
pub mod split;
mod status;
mod status_page;

#[cfg(test)]
mod tests;

pub use config::{CoordinatorArgs, CoordinatorConfig, Options, Settings};
pub use metric_definitions::{DEFINITIONS, JOB_DEFINITIONS, describe_metrics};
pub use run::{TestProbe, run, run_over};
pub use ledger_store::{LedgerStoreArgs, Store};
