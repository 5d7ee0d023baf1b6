//! The locks of the release log. `tests/schedules` builds the same file on locks that a scheduler controls.

pub use std::sync::{Mutex, MutexGuard, PoisonError};
