//! The three files that a process shows and trusts.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::{TlsError, identity_of};
use crate::auth::Identity;
use crate::process::file_stamp::FileStamp;
use crate::config::secrets::open_private;

/// No certificate chain and no key comes near this.
const LARGEST: u64 = 1 << 20;

/// PEM files: whom to trust, who we are, and the key of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What was in them.
pub(super) struct Material {
    pub roots: RootCertStore,
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    pub identity: Identity,
}

/// Changes whenever one of the files does.
pub(super) type Stamp = [Option<FileStamp>; 3];

impl TlsFiles {
    pub fn in_dir(dir: &Path) -> Self {
        Self { ca: dir.join("ca.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") }
    }

    /// From flags: a folder, or all three files, or nothing at all.
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
            (Some(_), ..) => Err(TlsError::Incomplete { given: "--tls-dir and single files are" }),
            (None, ..) => Err(TlsError::Incomplete { given: "one of --tls-ca, --tls-cert and --tls-key is" }),
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable =
        |error: &dyn ToString| TlsError::Read { path: path.to_owned(), reason: error.to_string() };
    let mut text = Vec::new();
    let file = fs::File::open(path).map_err(|error| unreadable(&error))?;
    file.take(LARGEST).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
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
    let mut text = Zeroizing::new(Vec::with_capacity(LARGEST as usize));
    let file = open_private(path).map_err(|error| unreadable(&error))?;
    file.take(LARGEST).read_to_end(&mut text).map_err(|error| unreadable(&error))?;
    // The parser's own message could quote the file.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| TlsError::Empty { path: path.to_owned(), wanted: "private key" })
}
