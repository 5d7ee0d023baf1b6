//! TLS on every link: version 1.3 alone, certificates on both sides, and who may be on the other side by the role in
//! its certificate. Host names prove nothing here; docs/security.md says how certificates are made.

mod connector;
mod credentials;
mod files;
mod verify;

pub use connector::Connector;
pub use credentials::{Credentials, Expected};
pub use files::TlsFiles;
pub use verify::identity_of;

use std::path::PathBuf;
use std::time::Duration;

/// Both sides: a peer that is slower than this is not a peer.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "{given} given without the others; allowed: --tls-dir, or --tls-ca, --tls-cert and --tls-key together"
    )]
    Incomplete { given: &'static str },
    #[error("TLS file {path} cannot be read: {reason}")]
    Read { path: PathBuf, reason: String },
    #[error("TLS file {path} holds no {wanted} in PEM form")]
    Empty { path: PathBuf, wanted: &'static str },
    #[error(
        "certificate {path} names no role; allowed: one URI spiffe://TRUST-DOMAIN/rustle/ followed by coordinator, \
         worker/NAME, job/JOB, operator, auditor or scraper"
    )]
    NoIdentity { path: PathBuf },
    #[error("TLS files of {path} can't be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
}
