//! `rustle man`: manual pages, from the same source as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};

use crate::streams;

#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Folder to write a page for each command to, created if missing [default: print the page of rustle itself]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the page of `command`, or writes one for it and for each command below it. `man` reads them, so they have no other
/// output format.
pub fn run(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    match &args.out {
        Some(folder) => {
            let named = || format!("write manual pages to {}", folder.display());
            std::fs::create_dir_all(folder).with_context(named)?;
            clap_mangen::generate_to(command, folder).with_context(named)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            streams::write(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
