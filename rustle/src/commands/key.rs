//! `rustle key`: keys of jobs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use super::harden::harden;
use crate::key_file;
use crate::out_file;
use crate::output::{Answer, Format};

#[derive(Clone, Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a random key of 32 bytes in a new file of mode 0400
    New {
        /// File to create; an existing file is never overwritten
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

impl KeyCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let Self::New { out } = self;
        out_file::refuse_stdout(&out, "a key")?;
        harden()?;
        let key = key_file::create(&out)?;
        Answer::new()
            .with("key_file", out.display().to_string())
            .with("commitment", hex::encode(key.commitment()))
            .print(format)?;
        Ok(ExitCode::SUCCESS)
    }
}
