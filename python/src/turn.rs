//! Turns: one call of a session at a time.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Refused, Result};

/// The right to use a session, until it is dropped.
pub struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    /// Takes the turn that `busy` stands for. `process` is the process that opened the session.
    ///
    /// # Errors
    /// Another process than that one, or a call that has not returned.
    pub fn take(busy: &'a AtomicBool, process: u32) -> Result<Self> {
        if process != std::process::id() {
            let text = "the session was opened before a fork; connect anew in each process, after forking";
            return Err(Refused::Here("forked", text.into()));
        }
        if busy.swap(true, Ordering::Acquire) {
            let text = "another thread is using the session; one trainer has it, one call at a time";
            return Err(Refused::Here("busy", text.into()));
        }
        Ok(Self(busy))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
