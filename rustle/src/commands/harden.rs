//! What a command does about itself before it reads a secret or draws one.

use anyhow::Context;
use node::process::hardening::Hardening;

/// From here to its end this process leaves no core, and no other of this user can read its memory.
pub fn harden() -> anyhow::Result<()> {
    Hardening::default().apply().context("harden this process")
}
