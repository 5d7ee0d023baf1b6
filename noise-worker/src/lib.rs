//! The worker: owns shards of the parameter vector under leases, makes their noise ahead of need, and serves slices of
//! rows that the coordinator has bound.
//!
//! A request goes `transport/grpc.rs` → [`service`] → [`shard`] (made ahead by [`make`]) or [`replay`] (drawn again).
//! Shards come and go by [`membership`] → [`leases`] → [`restore`].

// `mpi/window.rs` alone may have it (N-8).
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]

mod bf16;
mod clerk;
pub mod config;
mod connect;
mod delivery;
mod idle;
mod keyring;
mod leases;
mod limits;
mod listeners;
mod make;
pub mod marks;
mod membership;
mod meter;
mod metric_definitions;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod recipe;
mod regions;
mod replay;
mod restore;
mod row;
mod run;
mod service;
mod shard;
mod snapshot;
mod spans;
mod stores;
mod sync;
#[cfg(test)]
mod tests;
mod transport;

pub use metric_definitions::DEFINITIONS;
pub use run::{Over, run, run_over};

// A stored shard has state for whole blocks of the kernel, and shards are cut between them.
const _: () = assert!(noise_kernel::BLOCK as u64 == proto::tiling::SHARD_ALIGNMENT);
