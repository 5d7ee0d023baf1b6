//! Rows through shared memory: a process on the worker's host lends a region, and workers write released rows into it.
//!
//! The lender makes the memory, so that it lives and dies with the lender. It can't shrink once lent, so that a lender
//! can't crash a worker that writes. docs/shared-memory.md describes every byte for other languages.
//!
//! # Layout
//!
//! * [`Layout`]: where each row lies in a region, and [`RegionId`]: the region's name.
//! * [`Region`]: the lender's memory, and [`RegionLease`]: the connection that lends it to one worker.
//! * [`Offer`], [`BorrowedRegion`] and [`Writer`]: the same region on the worker's side.
//! * The handshake that opens a lease: its constants here, its bytes in `handshake.rs`. `memory.rs` maps memory and is
//!   the one module with `unsafe`; `linux.rs` and `unsupported.rs` are the operating system's part.

#![deny(missing_docs)]

mod handshake;
mod layout;
mod lease;
mod memory;
mod region;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod system;

pub use handshake::{HELLO_BYTES, MAGIC, VERSION};
pub use layout::{ALIGN, Layout, RegionId};
pub use lease::{Offer, RegionLease, acceptance_answer, refusal_answer};
pub use region::{BorrowedRegion, Region, Writer};
