//! Rows through shared memory: a process on the worker's host lends a region, workers write released rows into it.
//!
//! The lender makes the memory, so that it lives and dies with the lender; it can't shrink once lent, so that a
//! lender can't crash a worker that writes. docs/shared-memory.md describes every byte for other languages.

mod hello;
mod layout;
mod loan;
mod memory;
mod region;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "elsewhere.rs")]
mod system;

pub use hello::{HELLO_BYTES, MAGIC, VERSION};
pub use layout::{ALIGN, Layout, RegionId};
pub use loan::{Loan, Offer, refuse, welcome};
pub use region::{Borrowed, Region, Writer};
