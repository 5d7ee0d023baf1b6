//! `rustle completions`: completion scripts of shells.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::streams;

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to complete in
    shell: Shell,
}

/// Prints the script that completes `command`. A shell reads it, so it has no other output format.
pub fn run(args: &CompletionsArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "rustle", &mut script);
    streams::write(&script)?;
    Ok(ExitCode::SUCCESS)
}
