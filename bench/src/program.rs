//! The program that is measured.

use std::path::PathBuf;

use anyhow::ensure;

/// `RUSTLE_BIN`, else `rustle` beside this program.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("RUSTLE_BIN") {
        return Ok(path.into());
    }
    let program = std::env::current_exe()?.with_file_name("rustle");
    ensure!(program.exists(), "{} is missing: cargo build --release -p rustle", program.display());
    Ok(program)
}
