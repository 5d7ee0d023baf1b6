//! The sources of a 32-byte key: a private file, a systemd credential, an inherited descriptor, or a command's
//! output.
//!
//! A key never comes from a flag or a variable, where other processes could read it. It is raw bytes: no
//! newline, no hexadecimal. Errors name the place and the length, never the bytes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::Command;
use zeroize::Zeroizing;

use crate::process::secret::SecretBytes;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 32;
/// The least number of different bytes in a key.
const LEAST_DIFFERENT: usize = 12;
/// Enough to report the length of whatever was given by mistake; a longer input counts as this long.
const READ_LIMIT: usize = 4096;

/// Whether files of secrets may be readable by a group, for the whole process; off until [`allow_group_readable`].
static GROUP_READABLE: AtomicBool = AtomicBool::new(false);

/// Lets files of secrets, from now on, be readable by a group of this process's as well (0440): what Kubernetes makes of a
/// secret for a pod with an `fsGroup`.
pub fn allow_group_readable() {
    GROUP_READABLE.store(true, Ordering::Relaxed);
}

/// The reason why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The source cannot be read.
    #[error("key {origin} cannot be read: {source}")]
    Read {
        /// The source of the secret.
        origin: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The source does not hold exactly one key.
    #[error("key {origin} holds {length} bytes; allowed: exactly 32, raw, without a newline")]
    Length {
        /// The source of the secret.
        origin: String,
        /// The length of the source's contents, in bytes.
        length: usize,
    },
    /// The key is not random.
    #[error(
        "key {origin} has fewer than 12 different bytes, so that it was not drawn at random; allowed: 32 bytes of the \
         operating system's randomness, as `rustle key new` writes them"
    )]
    Weak {
        /// The source of the secret.
        origin: String,
    },
    /// Others can read the file.
    #[error(
        "key file {path} has mode {mode:04o}; allowed: 0400 or 0600, and with --group-readable-secrets 0440, of a group \
         of this process's"
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The file holds no password.
    #[error("password file {path} is not one line of 1 to 1024 bytes of text")]
    Password {
        /// The file.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error("key file {path} is not a regular file; give a pipe as an inherited descriptor instead")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The descriptor is standard output or standard error.
    #[error("descriptor {descriptor} is an output; allowed for a key: 0, or 3 and above")]
    OutputDescriptor {
        /// The descriptor.
        descriptor: u32,
    },
    /// systemd passed no such credential.
    #[error(
        "there is no credential {name}; allowed: the name of one that systemd passes ($CREDENTIALS_DIRECTORY is its \
         folder)"
    )]
    Credential {
        /// The credential's name.
        name: String,
    },
    /// The command failed.
    #[error("the key command ended with {status}; what it printed was discarded")]
    CommandFailed {
        /// The command's exit status.
        status: ExitStatus,
    },
    /// The command took too long.
    #[error("the key command had not ended after {limit:?} and was killed")]
    CommandTimeout {
        /// The time it had.
        limit: Duration,
    },
}

/// Reads a key from a file that only its owner can read. Links are followed (mounted secrets are links); the
/// mode is that of the file that was opened, so it cannot be swapped between the check and the read.
pub fn read_key_file(path: &Path) -> Result<SecretBytes, KeyError> {
    read_key(open_private(path)?, file_origin(path))
}

/// Reads a key from the credential that systemd passed to this service under that name (`LoadCredential=` or
/// `LoadCredentialEncrypted=`). Its folder is this service's alone, so the file's mode is not looked at: systemd may
/// give access by an ACL, which shows as a group's.
pub fn read_key_credential(name: &str) -> Result<SecretBytes, KeyError> {
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
    read_credential_in(folder.as_deref().map(Path::new), name)
}

fn read_credential_in(folder: Option<&Path>, name: &str) -> Result<SecretBytes, KeyError> {
    let is_plain = Path::new(name).file_name().is_some_and(|own| own == name);
    let (Some(folder), true) = (folder, is_plain) else {
        return Err(KeyError::Credential { name: name.to_owned() });
    };
    let origin = format!("credential {name}");
    match File::open(folder.join(name)) {
        Ok(file) => read_key(file, origin),
        Err(source) => Err(KeyError::Read { origin, source }),
    }
}

/// Opens a file that only its owner can read, as [`read_key_file`] does.
pub(crate) fn open_private(path: &Path) -> Result<File, KeyError> {
    let unreadable = |source| KeyError::Read { origin: file_origin(path), source };
    // Opening a named pipe would wait for its writer; look first, and look again at what was opened.
    let is_file = std::fs::metadata(path).map_err(unreadable)?.is_file();
    if !is_file {
        return Err(KeyError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(KeyError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    let is_ours = || mode == 0o440 && GROUP_READABLE.load(Ordering::Relaxed) && has_group(metadata.gid());
    if mode != 0o400 && mode != 0o600 && !is_ours() {
        return Err(KeyError::Mode { path: path.to_owned(), mode });
    }
    Ok(file)
}

fn has_group(group: u32) -> bool {
    let is_it = |own: &rustix::process::Gid| own.as_raw() == group;
    is_it(&rustix::process::getegid()) || rustix::process::getgroups().is_ok_and(|all| all.iter().any(is_it))
}

fn file_origin(path: &Path) -> String {
    format!("file {}", path.display())
}

/// Reads a password from a private file: one line of text of 1 to 1024 bytes.
pub fn read_password_file(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    const LONGEST: u64 = 1024;
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize + 2));
    let read = open_private(path)?.take(LONGEST + 2).read_to_string(&mut text);
    read.map_err(|source| KeyError::Read { origin: file_origin(path), source })?;
    let line = text.trim_end_matches(['\r', '\n']);
    if line.is_empty() || line.len() as u64 > LONGEST || line.contains('\n') {
        return Err(KeyError::Password { path: path.to_owned() });
    }
    Ok(Zeroizing::new(line.to_owned()))
}

/// Reads a key from a descriptor that the parent process opened: 0 is stdin. Reads to the end, so the writer
/// must close its side. The descriptor itself stays open, which for a pipe leaves nothing in it to read.
pub fn read_key_descriptor(descriptor: u32) -> Result<SecretBytes, KeyError> {
    let origin = format!("descriptor {descriptor}");
    let file = match descriptor {
        // Not through `io::stdin`, whose buffer would keep a copy of the key.
        0 => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        1 | 2 => return Err(KeyError::OutputDescriptor { descriptor }),
        _ => File::open(format!("/proc/self/fd/{descriptor}")),
    };
    match file {
        Ok(file) => read_key(file, origin),
        Err(source) => Err(KeyError::Read { origin, source }),
    }
}

/// Reads a key from the standard output of `command`, which `/bin/sh` runs; its standard error is this
/// process's.
pub async fn read_key_command(command: &str, limit: Duration) -> Result<SecretBytes, KeyError> {
    into_key(&run_for_output(command, limit).await?, "from the key command".to_owned())
}

/// Returns the output of a command, up to some kilobytes.
pub(crate) async fn run_for_output(command: &str, limit: Duration) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    match tokio::time::timeout(limit, run(command)).await {
        Ok(result) => result,
        Err(_) => Err(KeyError::CommandTimeout { limit }),
    }
}

async fn run(command: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    // The command's own text stays out of errors: it may name tokens.
    let unreadable = |source| KeyError::Read { origin: "from the key command".to_owned(), source };
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(unreadable)?;
    let mut buffer = Zeroizing::new(vec![0; READ_LIMIT]);
    let mut length = 0;
    if let Some(mut output) = child.stdout.take() {
        while length < READ_LIMIT {
            match output.read(&mut buffer[length..]).await.map_err(unreadable)? {
                0 => break,
                count => length += count,
            }
        }
    }
    let status = child.wait().await.map_err(unreadable)?;
    if !status.success() {
        return Err(KeyError::CommandFailed { status });
    }
    buffer.truncate(length);
    Ok(buffer)
}

fn read_key(mut reader: impl Read, origin: String) -> Result<SecretBytes, KeyError> {
    let mut buffer = Zeroizing::new([0; READ_LIMIT]);
    let mut length = 0;
    while length < READ_LIMIT {
        match reader.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(KeyError::Read { origin, source }),
        }
    }
    into_key(&buffer[..length], origin)
}

fn into_key(bytes: &[u8], origin: String) -> Result<SecretBytes, KeyError> {
    match bytes.try_into() {
        Ok(key) if is_plausible(key) => Ok(SecretBytes::copy(key)),
        Ok(_) => Err(KeyError::Weak { origin }),
        Err(_) => Err(KeyError::Length { origin, length: bytes.len() }),
    }
}

/// Returns whether 32 bytes may be a random key: zeros, one repeated byte or a short repeated pattern are not. Of random
/// keys fewer than one in 10²⁰ has so few different bytes.
pub fn is_plausible(key: &[u8; KEY_BYTES]) -> bool {
    let mut seen = [false; 256];
    key.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    seen.iter().filter(|is_seen| **is_seen).count() >= LEAST_DIFFERENT
}

#[cfg(test)]
mod tests;
