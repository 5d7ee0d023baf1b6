//! A caller's token, as it is kept and sent.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::metadata::AsciiMetadataValue;
use zeroize::Zeroizing;

use crate::config::secrets::{KeyError, open_private, run_for_output};

/// Longest token, in bytes: ample for `rustle_` and 32 bytes in base64.
const MAX_TOKEN_BYTES: usize = 256;

/// The reason why a caller has no usable token.
#[derive(Debug, thiserror::Error)]
pub enum BearerError {
    /// The source of the token cannot be used.
    #[error("{}", of_token(.0))]
    Source(#[from] KeyError),
    /// The source holds no token.
    #[error(
        "token {origin} holds {length} bytes; allowed: one line of 20 to {MAX_TOKEN_BYTES} visible characters"
    )]
    Form {
        /// The place that the token was to come from.
        origin: String,
        /// The token's length, in bytes.
        length: usize,
    },
    /// The token file cannot be read.
    #[error("token file {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// Files and commands are read as a key's are; the message is about a token.
fn of_token(error: &KeyError) -> String {
    let text =
        error.to_string().replace("key file", "token file").replace("the key command", "the token command");
    text.replace("; give a pipe as an inherited descriptor instead", "; allowed: a file of mode 0400 or 0600")
}

/// A caller's token as the value of the header `authorization`. Secret.
#[derive(Clone)]
pub struct Bearer(AsciiMetadataValue);

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer([secret])")
    }
}

impl Bearer {
    /// Reads a token from a file that only its owner can read.
    pub fn from_file(path: &Path) -> Result<Self, BearerError> {
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_TOKEN_BYTES + 2));
        let unreadable = |source| BearerError::Read { path: path.to_owned(), source };
        open_private(path)?.take(MAX_TOKEN_BYTES as u64 + 2).read_to_end(&mut text).map_err(unreadable)?;
        Self::new(&text, || format!("file {}", path.display()))
    }

    /// Reads a token from the output of a command, such as a secret store's own tool.
    pub async fn from_command(command: &str, limit: Duration) -> Result<Self, BearerError> {
        let text = run_for_output(command, limit).await?;
        Self::new(&text, || "from the command".into())
    }

    fn new(text: &[u8], origin: impl Fn() -> String) -> Result<Self, BearerError> {
        let token = text.trim_ascii();
        let form = || BearerError::Form { origin: origin(), length: token.len() };
        if !(20..=MAX_TOKEN_BYTES).contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            return Err(form());
        }
        let line = Zeroizing::new([b"Bearer ", token].concat());
        let mut value = AsciiMetadataValue::try_from(line.as_slice()).map_err(|_| form())?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// Returns the header's value, marked as sensitive: HTTP/2 keeps it out of its tables, and `Debug` out of logs.
    pub fn metadata(&self) -> AsciiMetadataValue {
        self.0.clone()
    }
}
