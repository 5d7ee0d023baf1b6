//! The words of refusals, which each process has of its own.

use tonic::Status;

use crate::auth::Refusal;

/// Maps refusals of this crate to the errors that a process's clients know.
pub trait ErrorMapping: Send + Sync + 'static {
    /// Returns the status to answer a refused call with.
    fn status(&self, refusal: Refusal) -> Status;

    /// Returns the kind of an answered error that the log should name; `None` for one that it should not.
    fn notable(&self, status: &Status) -> Option<String>;
}
