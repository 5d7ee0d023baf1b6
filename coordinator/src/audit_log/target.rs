//! Where an audit log is written: a file, which others may move away, standard output, or an OpenTelemetry collector.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use node::telemetry::LogExportError;
use node::telemetry::log_export::LogExport;

use super::lines::Line;

/// Mode of a new file: entries name people and jobs.
const MODE: u32 = 0o600;
/// What every line begins with.
const BEGINNING: &[u8] = br#"{"chain":""#;
/// What OpenTelemetry calls the kind of a record.
const EVENT: &str = "rustle.ledger.entry";
/// Bytes that are read at once in search of the end of the last whole line.
const CHUNK: u64 = 64 << 10;

/// The reason why lines were not appended.
pub enum AppendError {
    File(io::Error),
    Collector(LogExportError),
}

impl AppendError {
    /// Returns whether fewer lines at once may be taken.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Collector(LogExportError::Failed { .. } | LogExportError::Refused { .. }))
    }

    /// Returns whether a line that was alone will never be taken.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Collector(LogExportError::Refused { .. }))
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(formatter),
            Self::Collector(error) => error.fmt(formatter),
        }
    }
}

/// An open audit log.
pub enum Target {
    Stdout,
    File { path: PathBuf, file: File },
    Collector(Box<LogExport>),
}

impl Target {
    /// Opens the file, which is begun if there is none; `-` is standard output.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        Ok(Self::File { path: path.to_owned(), file: open(path)? })
    }

    /// Appends whole lines, all or, where the file can be cut back, none; a collector may have lines of a failed attempt. A file
    /// that was moved away or removed, as tools that rotate logs do, is begun anew under its name.
    pub fn append(&mut self, lines: &[Line]) -> Result<(), AppendError> {
        match self {
            Self::Stdout => write_all(&mut io::stdout().lock(), lines).map_err(AppendError::File),
            Self::File { path, file } => append_to_file(path, file, lines).map_err(AppendError::File),
            Self::Collector(export) => {
                let bodies = lines.iter().map(|line| line.text.trim_end());
                export.send(EVENT, bodies).map_err(AppendError::Collector)
            }
        }
    }
}

fn append_to_file(path: &Path, file: &mut File, lines: &[Line]) -> io::Result<()> {
    let own = file.metadata()?;
    let is_there = fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
    if !is_there {
        *file = open(path)?;
    }
    let before = file.metadata()?.len();
    write_all(file, lines).inspect_err(|_| {
        // The attempt is made again; where this fails too, a line is cut.
        let _ = file.set_len(before);
    })
}

fn write_all(to: &mut impl Write, lines: &[Line]) -> io::Result<()> {
    let text: String = lines.iter().map(|line| line.text.as_str()).collect();
    to.write_all(text.as_bytes())?;
    to.flush()
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe without a reader would hold up the start.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no file; allowed: a file, or - for standard output",
        ));
    }
    let file = OpenOptions::new().read(true).create(true).append(true).mode(MODE).open(path)?;
    cut_torn_line(&file)?;
    Ok(file)
}

/// Cuts off a last line that has no end, as a crash leaves it: the next entry would continue it. A file that can only be
/// appended to gets the end.
fn cut_torn_line(mut file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let whole = end_of_whole_lines(file, length)?;
    if whole == length {
        return Ok(());
    }
    let torn = read_at(file, whole, (length - whole).min(BEGINNING.len() as u64))?;
    if !BEGINNING.starts_with(&torn) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its last line has no end and is no entry; allowed: a new file, or an audit log",
        ));
    }
    file.set_len(whole).or_else(|_| file.write_all(b"\n"))
}

/// Returns the length of the file without a last line that has no end.
fn end_of_whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        let chunk = read_at(file, start, end - start)?;
        if let Some(newline) = chunk.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn read_at(file: &File, start: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
