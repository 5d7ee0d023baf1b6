//! The question before a command that can't be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;
use clap::Args;

use crate::output::bad_use;
use crate::streams;

#[derive(Args, Clone, Copy, Debug)]
pub struct ConfirmArgs {
    /// Go ahead without a question; required where there is no terminal to ask on
    #[arg(long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Returns whether `--yes` was given.
    pub fn is_given(self) -> bool {
        self.yes
    }

    /// States the cost on standard error and waits for a yes. Errors: another answer; no terminal and no `--yes` (bad use).
    pub fn ask(self, cost: &str) -> anyhow::Result<()> {
        if self.yes {
            streams::note(cost);
            return Ok(());
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(bad_use(format!(
                "{cost} Nothing was changed: --yes is missing, and there is no terminal to ask on; add --yes to go ahead"
            )));
        }
        streams::note(cost);
        let mut stderr = io::stderr();
        write!(stderr, "Go ahead? [y/N] ")?;
        stderr.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => bail!("nothing was changed: the answer was not yes"),
        }
    }
}
