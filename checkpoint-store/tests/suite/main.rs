//! The checkpoint store, seen from outside.
#![allow(clippy::unwrap_used)]

mod checkpoint_objects;
mod lifecycle;
mod manifest;

use proto::{CoordinateRange, JobId};

pub(crate) fn id(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

pub(crate) fn range(start: u64, end: u64) -> CoordinateRange {
    CoordinateRange::new(start, end).unwrap()
}
