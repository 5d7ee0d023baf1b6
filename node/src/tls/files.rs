//! The three files of a process's TLS: whom it trusts, its certificate, and its key.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::error::TlsError;
use super::verify::identity_of;
use crate::auth::Identity;
use crate::config::secrets::open_private;
use crate::process::file_stamp::FileStamp;

/// Bytes read of a file at most; no certificate chain and no key comes near this.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The PEM files of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities to trust.
    pub ca: PathBuf,
    /// This process's certificate chain, its own certificate first.
    pub cert: PathBuf,
    /// The private key of that certificate.
    pub key: PathBuf,
}

/// The content of the files.
pub(super) struct Material {
    pub roots: RootCertStore,
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    pub identity: Identity,
}

/// A value that changes whenever one of the files does.
pub(super) type Stamp = [Option<FileStamp>; 3];

impl TlsFiles {
    /// Returns the files of a folder: `ca.pem`, `cert.pem` and `key.pem`.
    pub fn in_dir(dir: &Path) -> Self {
        Self { ca: dir.join("ca.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") }
    }

    /// Returns the files that flags name: a folder, or all three files, or none at all.
    pub fn choose(
        dir: Option<PathBuf>,
        ca: Option<PathBuf>,
        cert: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Option<Self>, TlsError> {
        match (dir, ca, cert, key) {
            (None, None, None, None) => Ok(None),
            (Some(dir), None, None, None) => Ok(Some(Self::in_dir(&dir))),
            (None, Some(ca), Some(cert), Some(key)) => Ok(Some(Self { ca, cert, key })),
            (Some(_), ..) => {
                Err(TlsError::Incomplete { given: "--tls-dir is given, and single files besides" })
            }
            (None, ..) => Err(TlsError::Incomplete {
                given: "one of --tls-ca, --tls-cert and --tls-key is given without the others",
            }),
        }
    }

    pub(super) fn read(&self) -> Result<Material, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.ca)? {
            roots.add(certificate).map_err(|error| self.unusable(&self.ca, error))?;
        }
        let chain = certificates(&self.cert)?;
        let identity = chain.first().and_then(identity_of);
        let identity = identity.ok_or_else(|| TlsError::NoIdentity { path: self.cert.clone() })?;
        Ok(Material { roots, chain, key: private_key(&self.key)?, identity })
    }

    pub(super) fn stamp(&self) -> Stamp {
        [&self.ca, &self.cert, &self.key].map(|path| FileStamp::of(path))
    }

    pub(super) fn unusable(&self, path: &Path, error: impl ToString) -> TlsError {
        TlsError::Unusable { path: path.to_owned(), reason: error.to_string() }
    }
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable =
        |error: &dyn ToString| TlsError::Read { path: path.to_owned(), reason: error.to_string() };
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = read.map_err(|error| unreadable(&error))?;
    if certificates.is_empty() {
        Err(TlsError::Empty { path: path.to_owned(), wanted: "certificate" })
    } else {
        Ok(certificates)
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let unreadable =
        |error: &dyn ToString| TlsError::Read { path: path.to_owned(), reason: error.to_string() };
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE_BYTES as usize));
    let file = open_private(path).map_err(|error| unreadable(&error))?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    // The parser's own message could quote the file.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| TlsError::Empty { path: path.to_owned(), wanted: "private key" })
}
