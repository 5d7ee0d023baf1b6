//! Commitments that a command draws for the rows it writes to a file, kept beside that file.
//!
//! A command that ends early and is run again binds its rows to the same commitment and gets the same bytes. Once the file is
//! whole, its rows may have been used; the command run once more is refused, since the same noise would be written again for
//! other data in silence. So it is where the command ended while it gave the file its name.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Bytes of randomness in a drawn commitment.
const DRAWN_BYTES: usize = 32;
/// The second line of the file, from before the output has its name on.
const FINISHING: &str = "finishing";
/// The second line of the file, once the output is whole.
const COMPLETE: &str = "complete";

/// A commitment that was drawn, and the file that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCommitment {
    text: String,
    file: PathBuf,
}

/// The reason why a drawn commitment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptCommitmentError {
    /// The file cannot be read or written.
    #[error("commitment file {file}: {source}")]
    File {
        /// The file.
        file: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "commitment file {file} holds no drawn commitment; allowed: 64 hexadecimal digits as the command wrote them, or a \
         commitment named by --commitment"
    )]
    Content {
        /// The file.
        file: PathBuf,
    },
    /// The output was whole already when the command began, or may have been.
    #[error(
        "{output} was written whole before, for rows bound to the commitment that {file} keeps; allowed: another --out for \
         other data, whose rows must be other ones too, or --commitment with the text in that file for the same rows again, \
         for the same use"
    )]
    Complete {
        /// The output.
        output: PathBuf,
        /// The file with the commitment.
        file: PathBuf,
    },
}

impl KeptCommitment {
    /// Returns the commitment for the rows in `output`: the one in the file `OUTPUT.commitment`, or one that is drawn now
    /// and durably there.
    ///
    /// # Errors
    /// A file that cannot be read or written or holds something else, and an output that was whole before.
    pub fn beside(output: &Path) -> Result<Self, KeptCommitmentError> {
        let mut name = output.file_name().map_or_else(|| OsString::from("rows"), OsString::from);
        name.push(".commitment");
        let file = output.with_file_name(name);
        let failed = |source| KeptCommitmentError::File { file: file.clone(), source };
        let found = match std::fs::read_to_string(&file) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => draw(&file).map_err(failed)?,
            found => found.map_err(failed)?,
        };
        let mut lines = found.lines();
        let text = lines.next().unwrap_or_default();
        let is_drawn = text.len() == 2 * DRAWN_BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        match (is_drawn, lines.next()) {
            (true, None) => Ok(Self { text: text.to_owned(), file }),
            // Where it cannot be seen, it may be there.
            (true, Some(FINISHING)) if matches!(output.try_exists(), Ok(false)) => {
                Ok(Self { text: text.to_owned(), file })
            }
            (true, Some(FINISHING | COMPLETE)) => {
                Err(KeptCommitmentError::Complete { output: output.to_owned(), file })
            }
            _ => Err(KeptCommitmentError::Content { file }),
        }
    }

    /// Returns the text that rows are bound to.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Records that the output is about to get its name: from then on, one that is there may be whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finishing(&self) -> Result<(), KeptCommitmentError> {
        self.mark(FINISHING)
    }

    /// Records that the output is whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn complete(&self) -> Result<(), KeptCommitmentError> {
        self.mark(COMPLETE)
    }

    fn mark(&self, mark: &str) -> Result<(), KeptCommitmentError> {
        let text = format!("{}\n{mark}\n", self.text);
        let written = write_draft(&self.file, &text).and_then(|draft| {
            draft.persist(&self.file).map_err(|error| error.error)?;
            sync_folder(&self.file)
        });
        written.map_err(|source| KeptCommitmentError::File { file: self.file.clone(), source })
    }
}

/// Draws a commitment and writes it to `file`, or returns what another process has written there meanwhile.
fn draw(file: &Path) -> io::Result<String> {
    let mut drawn = [0; DRAWN_BYTES];
    getrandom::fill(&mut drawn).map_err(io::Error::other)?;
    match write_draft(file, &format!("{}\n", hex::encode(drawn)))?.persist_noclobber(file) {
        Err(refused) if refused.error.kind() != io::ErrorKind::AlreadyExists => Err(refused.error),
        _ => {
            sync_folder(file)?;
            std::fs::read_to_string(file)
        }
    }
}

/// Writes a text durably beside `file`, under a name of its own.
fn write_draft(file: &Path, text: &str) -> io::Result<NamedTempFile> {
    let mut draft = tempfile::Builder::new().prefix(".commitment-").tempfile_in(folder_of(file))?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

fn sync_folder(file: &Path) -> io::Result<()> {
    std::fs::File::open(folder_of(file))?.sync_all()
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_until_the_output_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("rows.npy");
        let first = KeptCommitment::beside(&output).unwrap();
        assert_eq!(KeptCommitment::beside(&output).unwrap(), first, "after a crash");
        let other = KeptCommitment::beside(&folder.path().join("other.npy")).unwrap();
        assert_ne!(other.text(), first.text());
        first.complete().unwrap();
        let refused = KeptCommitment::beside(&output).unwrap_err();
        assert!(matches!(refused, KeptCommitmentError::Complete { .. }), "{refused}");
        let names = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "drafts are gone");
    }

    #[test]
    fn an_output_that_was_named_when_the_command_ended_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("rows.npy");
        let first = KeptCommitment::beside(&output).unwrap();
        first.finishing().unwrap();
        assert_eq!(KeptCommitment::beside(&output).unwrap(), first, "ended before the output had its name");
        std::fs::write(&output, "rows").unwrap();
        let refused = KeptCommitment::beside(&output).unwrap_err();
        assert!(matches!(refused, KeptCommitmentError::Complete { .. }), "{refused}");
        first.complete().unwrap();
        std::fs::remove_file(&output).unwrap();
        let refused = KeptCommitment::beside(&output).unwrap_err();
        assert!(matches!(refused, KeptCommitmentError::Complete { .. }), "{refused}");
    }

    #[test]
    fn what_was_not_drawn_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("rows.npy");
        for bad in ["", "cli", &"g".repeat(64), &"a".repeat(63), &format!("{}\nhalf", "a".repeat(64))] {
            std::fs::write(folder.path().join("rows.npy.commitment"), bad).unwrap();
            let refused = KeptCommitment::beside(&output).unwrap_err();
            assert!(matches!(refused, KeptCommitmentError::Content { .. }), "{bad:?}: {refused}");
        }
        let nowhere = KeptCommitment::beside(&folder.path().join("missing/rows.npy")).unwrap_err();
        assert!(matches!(nowhere, KeptCommitmentError::File { .. }), "{nowhere}");
    }
}
