//! The worker: owns shards of the parameter vector under leases, generates their noise ahead of demand, and serves slices
//! of rows that the coordinator has bound.
//!
//! # Layout
//!
//! A request passes through `transport` → `service` → `slice_stream`, which reads rows from `shard` or regenerates them
//! by `replay`. Shards come and go by `membership` → `leases` → `restore`.
//!
//! * [`config`]: flags and environment variables of a worker.
//! * `run`: starts and stops a worker ([`run()`], and [`run_on`] for simulations).
//! * `membership`: registration, heartbeats and draining, over a client of the coordinators.
//! * `leases`: the shards granted to this worker. [`Keyring`] holds their keys.
//! * `token_verifier`: verifies the release tokens of a request, and orders; `known_signatures` remembers those that were
//!   checked, `orders` those that were obeyed.
//! * [`release_log`]: the durable log of released rows, which is checked before every release.
//! * [`generation_spec`]: the plan and key of a job, checked against its grant and ready for the kernel.
//! * `shard`: one shard: its phase, its window of rows, and the lookahead. `producer` is the task that fills the window.
//! * `restore`: brings a granted shard to its job's position, from a checkpoint or from the key.
//! * `snapshot`: writes a shard to a checkpoint store; `stores` holds the stores that are open.
//! * `replay`: regenerates rows that have left the window.
//! * `row_check`: whether this host computes rightly, when it starts and while it serves ([`check_every_core`]).
//! * [`shard_runner`]: one shard without leases and without gRPC, for noise ranks under MPI.
//! * `chunk_queue`: chunks on their way to a reader, who may not come for them.
//! * `service`: checks requests; `slice_stream` answers one of them, as chunks or into a region of `regions`.
//! * `transport`: gRPC, the lending socket, and the listeners.
//! * `throughput`: how fast this worker generates rows; `limits`: what all shards share.
//! * `metric_definitions`, `spans`: metrics ([`DEFINITIONS`]) and traces.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod chunk_queue;
pub mod config;
mod copy_budget;
pub mod generation_spec;
mod keyring;
mod known_signatures;
mod leases;
mod limits;
mod membership;
mod metric_definitions;
mod orders;
mod producer;
mod regions;
pub mod release_log;
mod replay;
mod restore;
mod row_check;
mod run;
mod service;
mod shard;
pub mod shard_runner;
mod slice_stream;
mod snapshot;
mod spans;
mod stores;
mod sync;
#[cfg(test)]
mod tests;
mod throughput;
mod token_verifier;
mod transport;

pub use keyring::Keyring;
pub use limits::Limits;
pub use metric_definitions::DEFINITIONS;
pub use row_check::check_every_core;
pub use run::{SimulatedNetwork, run, run_on};
pub use snapshot::Snapshot;

/// A shard begins at a multiple of the alignment, and so at the beginning of a noise block.
const _: () = assert!(noise_kernel::BLOCK as u64 == proto::tiling::SHARD_ALIGNMENT);
