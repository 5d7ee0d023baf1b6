//! Noise under MPI: one launch of `mpirun` whose noise ranks own a shard each (docs/mpi.md).
//!
//! Everything about MPI is in this crate. Everything about a shard is the worker's: [`noise_worker::shard_runner`]
//! restores, generates and replays as it does behind gRPC, and the first noise rank binds in the same ledger and lists
//! the same checkpoints as a coordinator. MPI has neither names nor encryption nor recovery: a launch is one trust
//! domain, and a rank that fails ends it.
//!
//! # Layout
//!
//! The messages between ranks can be decoded without an MPI library, so that they are tested and fuzzed everywhere:
//!
//! * [`handshake`]: the 192 bytes that every process sends first, and why ranks do not fit together.
//! * [`wire`]: the control messages of 512 bytes between training ranks and noise ranks.
//! * [`watermark_exchange`]: the released rows that noise ranks report before the ledger is opened.
//! * [`launch_options`]: the options of the first rank that all others take over.
//!
//! Everything else needs the feature `mpi`:
//!
//! * `args`: the flags of `noise-worker mpi` (`MpiArgs`).
//! * `noise_rank`: joins a launch as a noise rank (`NoiseRank`) and runs it (`run`).
//! * `launch`: starts MPI and agrees with the other ranks; `deadlines`: time limits and polling; `step_size`: detects a
//!   launch that fell apart.
//! * `step`: a launch by itself. `sink`: where its rows go.
//! * `service`: a noise rank beside training ranks: the loop, with `rows` (requests for rows), `bindings` (the rows
//!   that may be generated), `control` (requests about the job), `checkpoint_rounds` and `sends`.
//! * `root_ledger`: the ledger and the list of checkpoints, on the first noise rank. `checkpoint_piece`: one rank's piece.
//! * `training`: a training rank in Rust.
//! * `window`: shared memory and sends in progress, the one file with `unsafe`.

#![deny(missing_docs)]

#[cfg(feature = "mpi")]
mod args;
#[cfg(feature = "mpi")]
mod bindings;
#[cfg(feature = "mpi")]
mod checkpoint_piece;
#[cfg(feature = "mpi")]
mod checkpoint_rounds;
#[cfg(feature = "mpi")]
mod control;
#[cfg(feature = "mpi")]
pub mod deadlines;
pub mod handshake;
#[cfg(feature = "mpi")]
pub mod launch;
pub mod launch_options;
#[cfg(feature = "mpi")]
mod noise_rank;
#[cfg(feature = "mpi")]
mod root_ledger;
#[cfg(feature = "mpi")]
mod rows;
#[cfg(feature = "mpi")]
mod sends;
#[cfg(feature = "mpi")]
pub mod service;
#[cfg(feature = "mpi")]
mod sink;
#[cfg(feature = "mpi")]
mod step;
#[cfg(feature = "mpi")]
mod step_size;
#[cfg(feature = "mpi")]
pub mod training;
pub mod watermark_exchange;
#[cfg(feature = "mpi")]
mod window;
pub mod wire;

#[cfg(feature = "mpi")]
pub use args::MpiArgs;
#[cfg(feature = "mpi")]
pub use noise_rank::{NoiseRank, run};

/// The number of a process within a launch, as MPI counts them.
pub type Rank = i32;
