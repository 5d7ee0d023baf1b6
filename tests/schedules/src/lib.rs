//! What threads meet in, from the files that ship, on locks that a scheduler hands out: it decides at every lock who goes
//! on, by a seed, so that a schedule that breaks something can be run again.

#![allow(dead_code)] // what the rest of the worker asks of its record

/// Under this name the worker finds [`blocking`].
extern crate self as node;

pub mod blocking;
mod run;

#[path = "../../../ledger/src"]
mod of_the_ledger {
    pub mod queue;
}
#[path = "../../../noise-worker/src"]
mod of_the_worker {
    pub mod release_log;
}

mod sync {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

use ledger::{LedgerError, Result};

pub use of_the_ledger::queue;
pub use of_the_worker::release_log;
pub use run::each_schedule;
