//! Where an audit log is written: a file, which others may move away, or standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Mode of a new file: entries name people and jobs.
const MODE: u32 = 0o600;

/// An open audit log.
pub enum Target {
    Stdout,
    File { path: PathBuf, file: File },
}

impl Target {
    /// Opens the file, which is begun if there is none; `-` is standard output.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        Ok(Self::File { path: path.to_owned(), file: open(path)? })
    }

    /// Appends whole lines, all or, where the file can be cut back, none. A file that was moved away or removed, as tools that
    /// rotate logs do, is begun anew under its name.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(lines)?;
                out.flush()
            }
            Self::File { path, file } => {
                let own = file.metadata()?;
                let is_there = fs::metadata(&*path)
                    .is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
                if !is_there {
                    *file = open(path)?;
                }
                let before = file.metadata()?.len();
                file.write_all(lines).inspect_err(|_| {
                    // The attempt is made again; where this fails too, a line is cut.
                    let _ = file.set_len(before);
                })
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe without a reader would hold up the start.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no file; allowed: a file, or - for standard output",
        ));
    }
    OpenOptions::new().create(true).append(true).mode(MODE).open(path)
}
