//! The locks of code that several threads run. `tests/schedules` builds the same files on a scheduler's locks.

pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
