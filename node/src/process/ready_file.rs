//! A small file that says where this process listens, for harnesses that let the system choose the ports.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The addresses of a process that listens, as JSON in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyFile {
    /// The id of the process that wrote the file: a file of a dead process is stale.
    pub pid: u32,
    /// The URL of its gRPC server, as clients name it.
    pub grpc: String,
    /// The URL of its metrics endpoint.
    pub metrics: String,
}

/// The error of a ready file that cannot be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("ready file {path} cannot be {action}: {source}")]
pub struct ReadyFileError {
    path: PathBuf,
    action: &'static str,
    source: io::Error,
}

impl ReadyFile {
    /// Returns the contents for this process. `grpc` is an endpoint as clients name it.
    pub fn new(grpc: String, metrics: SocketAddr) -> ReadyFile {
        ReadyFile { pid: std::process::id(), grpc, metrics: format!("http://{metrics}") }
    }

    /// Writes the file; call this once listening. The file appears whole or not at all: a reader may poll for it.
    pub fn write(&self, path: &Path) -> Result<(), ReadyFileError> {
        let failed = |source| ReadyFileError { path: path.to_owned(), action: "written", source };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", self.pid));
        let text = serde_json::to_vec(self).map_err(|error| failed(error.into()))?;
        let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|source| {
            // Best effort: the error that matters is the one being returned.
            let _ = fs::remove_file(&temporary);
            failed(source)
        })
    }

    /// Removes what an earlier process left: call before listening. A missing file is fine.
    pub fn clear(path: &Path) -> Result<(), ReadyFileError> {
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ReadyFileError { path: path.to_owned(), action: "removed", source })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ReadyFile {
        ReadyFile::new("http://127.0.0.1:7001".into(), "[::1]:7002".parse().unwrap())
    }

    #[test]
    fn holds_urls_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready.json");
        fs::write(&path, "left by a dead process").unwrap();
        example().write(&path).unwrap();
        let read: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read["pid"], std::process::id());
        assert_eq!(read["grpc"], "http://127.0.0.1:7001");
        assert_eq!(read["metrics"], "http://[::1]:7002");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file was left behind");
    }

    #[test]
    fn clear_forgives_a_missing_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        ReadyFile::clear(&folder.path().join("none")).unwrap();
        assert!(ReadyFile::clear(folder.path()).is_err());
    }

    #[test]
    fn an_unwritable_place_is_named() {
        let error = example().write(Path::new("/nonexistent/ready.json")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/ready.json"), "{error}");
    }
}
