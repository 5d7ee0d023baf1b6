//! What threads meet in, from the files that ship, on locks that a scheduler hands out: it decides at every lock who goes
//! on, by a seed, so that a schedule that breaks something can be run again.

mod run;

#[path = "../../../ledger/src"]
mod of_the_ledger {
    pub mod queue;
}

mod sync {
    pub use shuttle::sync::{Arc, Mutex, MutexGuard, PoisonError};
}

use ledger::{LedgerError, Result};

pub use of_the_ledger::queue;
pub use run::each_schedule;
