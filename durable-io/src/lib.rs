//! Files that survive a power cut, and points where a test can crash the process.
//!
//! A file's content is durable once the file is synced, and its name once its folder is. The functions here create and
//! sync folders and files that only their owner may read. Around each durable step a test can stop, delay or fail the
//! process, in builds with the feature `failpoints`.
//!
//! # Layout
//!
//! * `files`: private folders and files, and syncing of folders.
//! * `crash_points`: [`fail_point!`] and [`crash_point`], which do nothing without the feature `failpoints`.

#![deny(missing_docs)]

mod crash_points;
mod files;

pub use crash_points::{ARE_ARMABLE, crash_point};
pub use files::{create_private_file, create_private_folder, folder_of, make_private, sync_folder};

/// Items that the expansion of [`fail_point!`] uses.
#[cfg(feature = "failpoints")]
#[doc(hidden)]
pub mod expansion {
    pub use crate::crash_points::arm;
    pub use fail;
}
