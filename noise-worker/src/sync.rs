//! The locks of the worker's record. `tests/schedules` builds the same file on locks that a scheduler hands out.

pub use std::sync::{Mutex, MutexGuard, PoisonError};
