//! `--out` beside the files that a command reads: it takes the place of none of them. A key that is replaced by noise is
//! lost, and all noise of its jobs with it.

use std::any::TypeId;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use crate::output::bad_use;

/// Refuses a command whose `--out` is a file that another of its arguments names.
pub fn refuse(root: &Command, matches: &ArgMatches) -> anyhow::Result<()> {
    let mut command = root;
    let mut matches = matches;
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { return Ok(()) };
        (command, matches) = (found, inner);
    }
    let files =
        || command.get_arguments().filter(|one| one.get_value_parser().type_id() == TypeId::of::<PathBuf>());
    let Some(out) = files().find(|one| one.get_long() == Some("out")) else { return Ok(()) };
    let values = |id: &str| matches.get_raw(id).into_iter().flatten();
    for other in files().filter(|other| other.get_id() != out.get_id()) {
        let same =
            |file: &&OsStr| values(out.get_id().as_str()).any(|out| is_same(out.as_ref(), (*file).as_ref()));
        if let Some(file) = values(other.get_id().as_str()).find(same) {
            let name =
                other.get_long().map_or_else(|| "read by the command".to_owned(), |long| format!("--{long}"));
            let file = Path::new(file).display();
            return Err(bad_use(format!("--out is {file}, which is {name} too; allowed: another file")));
        }
    }
    Ok(())
}

/// Returns whether both name one file; where there is none yet, whether the names are the same.
fn is_same(out: &Path, other: &Path) -> bool {
    match (fs::metadata(out), fs::metadata(other)) {
        (Ok(out), Ok(other)) => out.is_file() && out.dev() == other.dev() && out.ino() == other.ino(),
        (Err(_), Err(_)) => out == other && out != Path::new("-"),
        _ => false,
    }
}
