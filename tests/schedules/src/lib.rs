//! Tests the interleavings of threads: the shipped files that share state between threads are built on the locks of a
//! scheduler (`shuttle`). At every lock a seed decides which thread continues, so that a failing schedule can be
//! repeated. Run it with `cargo nextest run --release -p schedules`.

#![allow(dead_code)] // used by the rest of the worker only

/// Under this name the worker finds [`process::blocking`].
extern crate self as node;

pub mod blocking;
mod run;

pub mod process {
    pub use crate::blocking;
}

#[path = "../../../ledger/src/store"]
mod of_the_ledger {
    pub mod group_commit;
}
#[path = "../../../noise-worker/src"]
mod of_the_worker {
    pub mod release_log;
}

mod sync {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

use ledger::{LedgerError, Result};

pub use of_the_ledger::group_commit;
pub use of_the_worker::release_log;
pub use run::each_schedule;
