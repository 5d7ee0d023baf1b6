//! `rustle completions`: scripts for shells.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell to complete in
    shell: Shell,
}

/// Prints the script, whatever the format asked for: it is for the shell to read.
pub fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rustle", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)?;
    Ok(ExitCode::SUCCESS)
}
