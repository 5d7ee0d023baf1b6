//! Unix sockets that only this user can connect to, and the identity of this host.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The reason why a Unix socket cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Others can enter the folder of the socket.
    #[error("folder {folder} has mode {mode:03o}; allowed for the folder of a socket: 700")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The folder's permission bits.
        mode: u32,
    },
    /// A process listens there.
    #[error("{path} is in use by another process; choose another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else than a socket is there.
    #[error("{path} exists and is no socket; choose another path")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses the path.
    #[error("socket {path}: {source}")]
    Other {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// The file of a listening socket, removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

/// A listening socket and its file.
#[derive(Debug)]
pub struct LocalSocket {
    file: SocketFile,
    /// The listening socket.
    pub listener: UnixListener,
}

impl LocalSocket {
    /// Binds `path`, mode 600, in a folder of mode 700, which is made where it is missing. A socket that a dead
    /// process left is replaced; one that answers is refused. Call inside a tokio runtime.
    pub fn bind(path: &Path) -> Result<LocalSocket, SocketError> {
        let failed = |source| SocketError::Other { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(failed)?;
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        remove_stale(&path)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(LocalSocket { file: SocketFile(path), listener })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.file.0
    }

    /// Returns the URL for gRPC clients.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.path().display())
    }

    /// Returns the listening socket and its file.
    pub fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Best effort: a file left behind is replaced by the next start.
        let _ = fs::remove_file(&self.0);
    }
}

fn private_folder(folder: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Other { path: folder.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let mode = fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(SocketError::Folder { folder: folder.to_owned(), mode }),
    }
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Other { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(failed)
        }
        _ => Err(SocketError::InUse { path: path.to_owned() }),
    }
}

/// Returns a text that is equal for processes under one running kernel; empty where the system has none.
pub fn host_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/w.sock");
        let socket = LocalSocket::bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(socket.endpoint(), format!("unix://{}", path.display()));
        UnixStream::connect(&path).unwrap();
        let error = LocalSocket::bind(&path).unwrap_err();
        assert!(matches!(error, SocketError::InUse { .. }), "{error}");
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_dead_process_left_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/w.sock");
        drop(LocalSocket::bind(&path).unwrap());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the file");
        drop(LocalSocket::bind(&path).unwrap());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(LocalSocket::bind(&path).unwrap_err(), SocketError::NoSocket { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn folders_that_others_can_enter_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let error = LocalSocket::bind(&folder.path().join("w.sock")).unwrap_err();
        assert!(error.to_string().contains("755"), "{error}");
    }
}
