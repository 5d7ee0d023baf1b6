//! Key files: 32 raw bytes that only their owner can access.

use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, ensure};
use node::config::secrets::is_plausible;
use noise_kernel::JobKey;
use zeroize::Zeroizing;

/// Bytes of a key.
const LENGTH: usize = 32;

/// Reads a job's key. Errors: not a regular file of 32 bytes, or one that group or others can access.
pub fn read(path: &Path) -> anyhow::Result<JobKey> {
    let named = || format!("key file {}", path.display());
    let file = File::open(path).with_context(named)?;
    let metadata = file.metadata().with_context(named)?;
    ensure!(metadata.is_file(), "{}: not a regular file; allowed: a file of {LENGTH} bytes", named());
    let mode = metadata.mode() & 0o7777;
    ensure!(mode & 0o077 == 0, "{}: mode is {mode:04o}; allowed: 0400 or 0600 (its owner alone)", named());
    // Room for one byte more than a key, to detect a longer file.
    let mut bytes = Zeroizing::new([0; LENGTH + 1]);
    let length = read_up_to(&file, bytes.as_mut()).with_context(named)?;
    ensure!(length <= LENGTH, "{}: more than {LENGTH} bytes; allowed: exactly {LENGTH} raw bytes", named());
    ensure!(length == LENGTH, "{}: {length} bytes; allowed: exactly {LENGTH} raw bytes", named());
    let is_plausible = bytes.first_chunk().is_some_and(is_plausible);
    ensure!(
        is_plausible,
        "{}: fewer than 12 different bytes, so that it was not drawn at random; allowed: 32 random bytes, as `rustle key \
         new` writes them",
        named()
    );
    JobKey::from_bytes(&bytes[..LENGTH]).with_context(named)
}

/// Creates a key from the operating system's randomness, mode 0400, whole or not at all, and durable under its name. Error: the
/// file exists already.
pub fn create(path: &Path) -> anyhow::Result<JobKey> {
    let named = || format!("key file {}", path.display());
    let mut bytes = Zeroizing::new([0; LENGTH]);
    getrandom::fill(bytes.as_mut())
        .map_err(|error| anyhow::anyhow!("the operating system's randomness: {error}"))?;
    write_new(path, bytes.as_ref()).with_context(named)?;
    JobKey::from_bytes(bytes.as_ref()).with_context(named)
}

/// Writes the file under another name first: a partial key under this one would be refused later, far from the cause.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".rustle-key-").tempfile_in(folder)?;
    draft.write_all(bytes)?;
    draft.as_file().set_permissions(Permissions::from_mode(0o400))?;
    draft.as_file().sync_all()?;
    draft.persist_noclobber(path).map_err(|refused| refused.error)?;
    File::open(folder)?.sync_all()
}

fn read_up_to(mut file: &File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_whole_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.key");
        let key = create(&path).unwrap();
        assert_eq!(read(&path).unwrap().commitment(), key.commitment());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o400);
        let again = format!("{:#}", create(&path).unwrap_err());
        assert!(again.contains("job.key") && again.contains("exists"), "{again}");
        assert_eq!(read(&path).unwrap().commitment(), key.commitment(), "the first one stays");
        assert!(create(&folder.path().join("missing/job.key")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "drafts are gone");
    }
}
