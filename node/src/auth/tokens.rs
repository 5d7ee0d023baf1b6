//! The coordinator's file of token digests: one JSON object a line, read anew when it changes.
//!
//! A token is 32 random bytes, so its plain SHA-256 reveals nothing and needs no salt.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use tracing::{info, warn};

use super::{Grant, token_entry};
use crate::process::file_stamp::FileStamp;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The reason why a tokens file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("tokens file {path} cannot be read: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Others can write the file.
    #[error(
        "tokens file {path} can be written by others (mode {mode:04o}); allowed: 0600, 0644 and stricter"
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// A line is not a token entry.
    #[error("tokens file {path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The reason, as text.
        reason: String,
    },
}

/// Returns the SHA-256 of a token in hexadecimal, as the tokens file holds it.
pub fn digest_of(token: &[u8]) -> String {
    hex::encode(Sha256::digest(token))
}

type Entries = HashMap<String, (Grant, Option<u64>)>;

/// The bearer tokens of a file, read anew when it changes. Clones share what was read last.
#[derive(Clone, Debug)]
pub struct Tokens(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    entries: RwLock<Arc<Entries>>,
    looked: Mutex<LastLook>,
}

#[derive(Debug)]
struct LastLook {
    at: Instant,
    stamp: Option<FileStamp>,
    is_taken: bool,
}

impl Tokens {
    /// Reads the file, which must be usable.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        let looked = LastLook { at: Instant::now(), stamp: FileStamp::of(path), is_taken: true };
        let looked = Mutex::new(looked);
        let entries = RwLock::new(Arc::new(read(path)?));
        Ok(Self(Arc::new(Shared { path: path.to_owned(), entries, looked })))
    }

    /// Returns the digest of the token in an `authorization` header and its grant now; `None` for a token that is not
    /// in the file, has expired, or is no bearer token at all.
    pub fn find(&self, header: &[u8]) -> Option<(String, Grant)> {
        self.look();
        let (scheme, token) = header.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return None;
        }
        let digest = digest_of(token.trim_ascii());
        let entries = self.0.entries.read().unwrap_or_else(PoisonError::into_inner).clone();
        let (grant, expires) = entries.get(&digest)?;
        let is_over = expires.is_some_and(|expires| now() >= expires);
        (!is_over).then(|| (digest, grant.clone()))
    }

    /// Reads the file again if it has changed, at most once per second. A file that can't be used leaves the old
    /// entries in force, and is tried again at the next look.
    fn look(&self) {
        let mut looked = self.0.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.at.elapsed() < LOOK_EVERY {
            return;
        }
        let stamp = FileStamp::of(&self.0.path);
        let is_new = looked.stamp != stamp;
        looked.at = Instant::now();
        if looked.is_taken && !is_new {
            return;
        }
        let entries = read(&self.0.path);
        *looked = LastLook { at: looked.at, stamp, is_taken: entries.is_ok() };
        match entries {
            Ok(entries) => {
                info!(tokens = entries.len(), "a new tokens file is in force");
                *self.0.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
            }
            Err(error) if is_new => {
                warn!(%error, "the new tokens file can't be used; the old one stays in force")
            }
            Err(_) => {}
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

fn read(path: &Path) -> Result<Entries, TokenError> {
    use std::os::unix::fs::PermissionsExt;
    let unreadable = |source| TokenError::Read { path: path.to_owned(), source };
    let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(TokenError::Mode { path: path.to_owned(), mode });
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            token_entry::parse(line).map_err(|reason| TokenError::Line {
                path: path.to_owned(),
                line: number + 1,
                reason,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proto::{PersonId, TenantId};

    use super::*;

    fn line(token: &str, more: &str) -> String {
        format!("{{\"sha256\":\"{}\",{more}}}\n", digest_of(token.as_bytes()))
    }

    #[test]
    fn a_token_is_good_for_what_its_line_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let lines = [
            line("good", "\"role\":\"trainer\",\"name\":\"j\",\"ranges\":[[0,512]]"),
            line("over", "\"role\":\"operator\",\"expires\":1000"),
            line("ads", "\"role\":\"trainer\",\"tenant\":\"ads\""),
            line("second", "\"role\":\"approver\",\"person\":\"ben\""),
        ];
        fs::write(&path, lines.concat()).unwrap();
        let tokens = Tokens::load(&path).unwrap();
        let (_, grant) = tokens.find(b"Bearer good").unwrap();
        assert!(grant.is_for("j") && !grant.is_for("k"));
        let (_, of_tenant) = tokens.find(b"Bearer ads").unwrap();
        assert_eq!((grant.tenant, of_tenant.tenant), (None, TenantId::new("ads").ok()));
        assert_eq!(grant.ranges, Some(vec![std::ops::Range { start: 0, end: 512 }]));
        let (_, of_person) = tokens.find(b"Bearer second").unwrap();
        assert_eq!(of_person.person, PersonId::new("ben").ok());
        for bad in ["Bearer over", "Bearer goo", "Bearer ", "Basic good", "good", "", "bearer  other"] {
            assert!(tokens.find(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn bad_lines_are_named_and_tokens_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        for bad in [
            "{}".to_owned(),
            line("x", "\"role\":\"king\""),
            line("x", "\"role\":\"coordinator\""),
            line("x", "\"role\":\"auditor\",\"ranges\":[[0,1]]"),
            line("x", "\"role\":\"trainer\",\"ranges\":[[1,1]]"),
            line("x", "\"role\":\"auditor\",\"tenant\":\"ads\""),
            line("x", "\"role\":\"operator\",\"tenant\":\"a/b\""),
            line("x", "\"role\":\"approver\""),
            line("x", "\"role\":\"auditor\",\"person\":\"ben\""),
            "{\"sha256\":\"00\",\"role\":\"trainer\"}".to_owned(),
        ] {
            fs::write(&path, &bad).unwrap();
            let error = Tokens::load(&path).unwrap_err().to_string();
            assert!(error.contains("line 1"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(Tokens::load(&path), Err(TokenError::Mode { mode: 0o666, .. })));
    }

    #[test]
    fn a_new_file_is_taken_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, line("first", "\"role\":\"operator\"")).unwrap();
        let tokens = Tokens::load(&path).unwrap();
        let look_now = || {
            tokens.0.looked.lock().unwrap().at = Instant::now() - LOOK_EVERY * 2;
            tokens.look();
        };
        fs::write(&path, "broken, and of another length").unwrap();
        look_now();
        assert!(tokens.find(b"Bearer first").is_some());
        fs::write(&path, line("second one", "\"role\":\"auditor\"")).unwrap();
        look_now();
        assert!(tokens.find(b"Bearer first").is_none() && tokens.find(b"Bearer second one").is_some());

        // What is wrong with it need not be its content.
        use std::os::unix::fs::PermissionsExt;
        let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o666);
        fs::write(&path, line("the third", "\"role\":\"auditor\"")).unwrap();
        look_now();
        assert!(tokens.find(b"Bearer second one").is_some());
        set_mode(0o600);
        look_now();
        assert!(tokens.find(b"Bearer second one").is_none() && tokens.find(b"Bearer the third").is_some());
    }
}
