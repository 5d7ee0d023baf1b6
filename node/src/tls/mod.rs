//! TLS on every link: version 1.3 alone, certificates on both sides, and the role in a certificate as the only proof of
//! who is at the other end. Host names prove nothing here; docs/security.md describes how certificates are made.

mod certificate;
mod connector;
mod credentials;
mod error;
mod expected;
mod files;
mod verify;

pub use certificate::CertificateFacts;
pub use connector::{Connector, HANDSHAKE_LIMIT};
pub use credentials::Credentials;
pub use error::TlsError;
pub use expected::ExpectedServer;
pub use files::TlsFiles;
pub use verify::identity_of;
