//! The coordinator: membership of workers, ownership of shards, release of rows, and checkpoints.
//!
//! It moves noise but can't make it: it never sees a key and links no noise kernel. The ledger is the truth. The state
//! in memory can be lost at any moment without a row being released twice.
//!
//! # Layout
//!
//! * `run`, `background`, `leadership`, `known_leader`: start and end of the process, its tasks, and election among several
//!   coordinators.
//! * `config`, `defaults`, `renamed_settings`, `ledger_store`, `data_dir`: settings, and where the ledger is.
//! * `anchor_keeper`, `anchor_place`: the ledger's anchor in the checkpoint store, which copies of the ledger are found by.
//! * `grpc`: the gRPC server; its handlers authorise a call and delegate to `service`.
//! * `service`, `proxy`: jobs, branches, bindings, routing, resharding, workers, and fetches through the coordinator.
//! * `release`: binds rows and signs release grants.
//! * `cluster`: the state in memory: members, leases, layouts, watermarks.
//! * `quotas`: what one job and one caller may add to ledger, checkpoints and log.
//! * `reconcile`, `placement`: which worker gets which shard.
//! * [`checkpointing`]: how often checkpoints are written, their rounds, and which are kept.
//! * `privacy_meter`, `metering`, `metering_turns`, `report`: the privacy that jobs have cost.
//! * `health`, `health_watch`: whether the cluster is healthy, and what is wrong.
//! * `status`, `status_page`, `job_metrics`, `budget_meter`, `metric_definitions`: `/status`, the page for people, and the metrics.

#![deny(missing_docs)]

mod anchor_keeper;
mod anchor_place;
mod answer_limits;
mod audit_log;
mod background;
mod block_readings;
mod blocking;
mod budget_meter;
mod budget_metering;
pub mod checkpointing;
mod cluster;
mod config;
mod coordinator;
mod data_dir;
mod defaults;
mod grpc;
mod health;
mod health_watch;
mod job_metrics;
#[cfg(any(feature = "etcd", test))]
mod known_leader;
#[cfg(feature = "etcd")]
mod leadership;
mod ledger_store;
mod metering;
mod metering_turns;
mod metric_definitions;
mod placement;
mod plan_summary;
mod privacy_meter;
mod proxy;
mod quotas;
mod read_job;
mod reconcile;
mod renamed_settings;
mod report;
mod run;
mod service;
mod status;
mod status_page;

#[cfg(test)]
mod tests;

pub use anchor_keeper::AnchorStore;
pub use config::{CoordinatorArgs, CoordinatorConfig, Options, Settings};
pub use data_dir::{init_ledger, ledger_file};
pub use ledger_store::{LedgerStore, LedgerStoreArgs};
pub use metric_definitions::{DATA_SET_DEFINITIONS, DEFINITIONS, JOB_DEFINITIONS, describe_metrics};
pub use quotas::{QuotaArgs, QuotaSettings};
pub use run::{TestProbe, run, run_over};
