//! The server that a client means to call, checked against its certificate.

use std::borrow::Cow;

use crate::auth::Role;

/// The server that a client means to call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExpectedServer {
    /// The coordinator.
    Coordinator,
    /// The worker of this name and no other: its answers are taken for noise.
    Worker(Cow<'static, str>),
}

impl ExpectedServer {
    /// Returns the worker of this name.
    pub fn worker(name: impl Into<String>) -> Self {
        Self::Worker(Cow::Owned(name.into()))
    }

    /// Returns whether a certificate of this role is the server's.
    pub fn matches(&self, role: &Role) -> bool {
        match (self, role) {
            (Self::Coordinator, Role::Coordinator) => true,
            (Self::Worker(expected), Role::Worker(name)) => expected == name,
            _ => false,
        }
    }
}
