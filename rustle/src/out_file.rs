//! The target of `--out`: a regular file, which appears whole or not at all, or a stream, which is written through.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::output::bad_use;
use crate::streams::{self, Stream};

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: noise and batches are as secret as what they hide.
    Owner,
    /// Everyone.
    Everyone,
}

/// Returns whether the path names standard output: `-`, a name of descriptor 1, or what that descriptor goes to.
pub fn is_stdout(path: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| path == Path::new(name)) || goes_to(io::stdout(), path)
}

/// Returns whether the path names standard error, or what that descriptor goes to.
pub fn is_stderr(path: &Path) -> bool {
    goes_to(io::stderr(), path)
}

/// Returns whether a descriptor goes to the file, pipe or device at the path. A log that it is appended to would be lost if
/// a file took its place.
fn goes_to(stream: impl AsFd, path: &Path) -> bool {
    let stream = stream.as_fd().try_clone_to_owned().and_then(|stream| File::from(stream).metadata());
    match (stream, fs::metadata(path)) {
        (Ok(stream), Ok(there)) => stream.dev() == there.dev() && stream.ino() == there.ino(),
        _ => false,
    }
}

/// Returns whether bytes for the path go through something that keeps none: standard output or error, a device or a pipe.
pub fn is_stream(path: &Path) -> bool {
    is_stdout(path)
        || is_stderr(path)
        || fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Returns the file that takes the output's name in the end: the target of a link, or the path itself.
pub fn replaced(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Refuses standard output and standard error for a secret, which a terminal or a log would keep.
pub fn refuse_stdout(path: &Path, what: &str) -> anyhow::Result<()> {
    if is_stdout(path) || is_stderr(path) {
        let out = path.display();
        return Err(bad_use(format!("--out is {out}; allowed: a new file, since {what} is never printed")));
    }
    Ok(())
}

/// Endings of files in formats that this program or others write.
const ENDINGS: [&str; 16] = [
    "toml", "json", "jsonl", "yaml", "yml", "csv", "npy", "npz", "svg", "png", "jpg", "gif", "pdf", "html",
    "htm", "md",
];

/// Refuses a name whose ending is of another format than the `written` one, such as `plan.json` for TOML.
pub fn refuse_ending(path: &Path, written: &str, own: &[&str]) -> anyhow::Result<()> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    if !ENDINGS.contains(&ending.as_str()) || own.contains(&ending.as_str()) {
        return Ok(());
    }
    let out = path.display();
    let own = own.join(", .");
    Err(bad_use(format!("--out is {out}, and what is written there is {written}; allowed: .{own}")))
}

/// An open target. A regular file replaces an earlier file in [`OutFile::finish`]; until then, what is there
/// stays. A device or a pipe is never replaced: bytes go through it.
#[derive(Debug)]
pub struct OutFile {
    shown: String,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Replacement { file: NamedTempFile, path: PathBuf, access: Access },
    Device(Stream<File>),
    Stdout(Stream<io::Stdout>),
}

impl OutFile {
    /// Opens the target before anything is computed for it. Standard output is what [`is_stdout`] takes for it, and
    /// standard error what [`is_stderr`] does. A link to a
    /// file stands, and the file that it names is replaced. Errors: a folder, a link to nothing, a socket, a folder that
    /// can't be written.
    pub fn open(path: &Path, access: Access) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let target = Target::open(path, access).with_context(|| format!("write {shown}"))?;
        Ok(Self { shown, target })
    }

    /// Reserves room on the disk, so that a full one shows before there is anything to lose. File systems that can't
    /// reserve are left to fail at the write.
    pub fn reserve(&self, bytes: u64) -> anyhow::Result<()> {
        let Target::Replacement { file, .. } = &self.target else { return Ok(()) };
        match fallocate(file.as_file(), FallocateFlags::KEEP_SIZE, 0, bytes) {
            Err(error @ (Errno::NOSPC | Errno::FBIG | Errno::DQUOT)) => {
                Err(error).with_context(|| format!("write {}: reserve {bytes} bytes", self.shown))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes all there is to write, and completes the target.
    pub fn write_and_finish(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = self.write_all(bytes);
        written.with_context(|| format!("write {}", self.shown))?;
        self.finish()
    }

    /// Completes the target: durable, under its name. Errors: a full disk, a reader that has left.
    pub fn finish(self) -> anyhow::Result<()> {
        let shown = self.shown;
        self.target.finish().with_context(|| format!("write {shown}"))
    }
}

impl Target {
    fn open(path: &Path, access: Access) -> anyhow::Result<Self> {
        if is_stdout(path) {
            return Ok(Self::Stdout(streams::stdout()));
        }
        if is_stderr(path) {
            // Through the descriptor itself: it knows where the log ends.
            return Ok(Self::Device(Stream(File::from(io::stderr().as_fd().try_clone_to_owned()?))));
        }
        match fs::metadata(path) {
            // Through a link, so that the link stays.
            Ok(there) if there.is_file() && there.permissions().readonly() => {
                bail!("a file that is read-only, as keys are, is there; remove it, or name another")
            }
            Ok(there) if there.is_file() => Self::replacement(fs::canonicalize(path)?, access),
            Ok(there) if there.is_dir() => {
                bail!("a folder is there; allowed: a file, a device, a pipe, or - for standard output")
            }
            Ok(there) if there.file_type().is_socket() => {
                bail!("a socket is there; allowed: a file, a device, a pipe, or - for standard output")
            }
            Ok(_) => Ok(Self::Device(Stream(OpenOptions::new().write(true).open(path)?))),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                bail!("a file is there where the path has a folder; name another")
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                bail!("a link to nothing is there; remove it or name its target")
            }
            Err(_) => Self::replacement(path.to_owned(), access),
        }
    }

    fn replacement(path: PathBuf, access: Access) -> anyhow::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!("there is no folder {}; create it first", folder.display());
        }
        // A killed process leaves its temporary file behind, under a name that explains it.
        let mut temporary = tempfile::Builder::new();
        let file = temporary.prefix(".rustle-").suffix(".partial").tempfile_in(folder)?;
        Ok(Self::Replacement { file, path, access })
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Replacement { file, path, access } => {
                if access == Access::Everyone {
                    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
                }
                file.as_file().sync_all()?;
                file.persist(path).map_err(|error| error.error)?;
                Ok(())
            }
            Self::Device(mut stream) => stream.flush(),
            Self::Stdout(mut stream) => stream.flush(),
        }
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.target {
            Target::Replacement { file, .. } => file.write(bytes),
            Target::Device(stream) => stream.write(bytes),
            Target::Stdout(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Replacement { file, .. } => file.flush(),
            Target::Device(stream) => stream.flush(),
            Target::Stdout(stream) => stream.flush(),
        }
    }
}
