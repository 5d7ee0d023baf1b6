//! The locks of what threads meet in. `tests/schedules` builds the same files on locks that a scheduler hands out.

pub use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
