//! Protection of the process before it reads or draws a secret.

use anyhow::Context;
use node::process::hardening::Hardening;

/// Disables core dumps and keeps other processes of the same user from reading this one's memory, until the process ends.
pub fn harden() -> anyhow::Result<()> {
    Hardening::default().apply().context("harden this process")
}
