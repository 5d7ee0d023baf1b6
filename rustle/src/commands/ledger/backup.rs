//! `rustle ledger backup`: a whole copy of a ledger in use.

use std::fs;
use std::path::PathBuf;

use ledger::Ledger;

use super::LedgerPlace;
use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;

#[derive(Clone, Debug, clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    source: LedgerPlace,
    /// File to write the copy to, which its owner alone may read
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &BackupArgs, format: Format) -> anyhow::Result<()> {
    let path = args.source.path();
    if fs::canonicalize(&path).is_ok_and(|path| path == out_file::replaced(&args.out)) {
        return Err(bad_use(format!(
            "--out is {}, which is the ledger; allowed: another file",
            args.out.display()
        )));
    }
    let out = OutFile::open(&args.out, Access::Owner)?;
    let progress = Progress::spinner("reading and checking the ledger");
    let bytes = Ledger::backup(&path)?;
    drop(progress);
    out.write_and_finish(&bytes)?;
    if out_file::is_stdout(&args.out) {
        return Ok(());
    }
    Answer::new()
        .with("ledger", path.display().to_string())
        .with("out", args.out.display().to_string())
        .with("bytes", bytes.len())
        .print(format)?;
    Ok(())
}
