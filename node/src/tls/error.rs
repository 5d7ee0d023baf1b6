//! The errors of TLS files.

use std::path::PathBuf;

/// The reason why a process has no usable TLS files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Some of the files are not named.
    #[error("{given}; allowed: --tls-dir, or --tls-ca, --tls-cert and --tls-key together")]
    Incomplete {
        /// The flags that were given.
        given: &'static str,
    },
    /// A file cannot be read.
    #[error("TLS file {path} cannot be read: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason, as text.
        reason: String,
    },
    /// A file lacks what it is for.
    #[error("TLS file {path} holds no {wanted} in PEM form")]
    Empty {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        wanted: &'static str,
    },
    /// The certificate names no role.
    #[error(
        "certificate {path} names no role; allowed: one URI spiffe://TRUST-DOMAIN/rustle/ followed by coordinator, \
         worker/NAME, job/JOB, operator, operator/TENANT, auditor or scraper"
    )]
    NoIdentity {
        /// The file.
        path: PathBuf,
    },
    /// The files do not fit together.
    #[error("TLS files of {path} can't be used: {reason}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason, as text.
        reason: String,
    },
}
