//! Certificates that `rustle certs` would not issue, signed by a cluster's own authority.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

/// The identity of an operator.
pub const OPERATOR: &str = "spiffe://local/rustle/operator";

/// The contents of a certificate.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub uris: Vec<&'static str>,
    pub usages: Vec<ExtendedKeyUsagePurpose>,
    pub from: SystemTime,
    pub until: SystemTime,
}

impl Leaf {
    /// Returns a certificate like our own: both usages, valid for an hour.
    pub fn of(uri: &'static str) -> Self {
        let now = SystemTime::now();
        let hour = Duration::from_secs(3600);
        Self {
            uris: vec![uri],
            usages: vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            from: now - hour,
            until: now + hour,
        }
    }

    /// Signs it by the authority of the folder `authority`, into the folder `dir`, as `--tls-dir` takes it.
    pub fn issue(&self, authority: &Path, dir: &Path) -> PathBuf {
        let read = |name: &str| fs::read_to_string(authority.join(name)).expect("a file of the authority");
        let mut of_issuer = CertificateParams::default();
        of_issuer.distinguished_name = rcgen::DistinguishedName::new();
        of_issuer.distinguished_name.push(DnType::CommonName, "Rustle authority");
        of_issuer.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let issuer = Issuer::new(of_issuer, KeyPair::from_pem(&read("ca.key")).expect("the authority's key"));
        let mut params = CertificateParams::default();
        let uris = self.uris.iter().map(|&uri| SanType::URI(uri.try_into().expect("a URI")));
        params.subject_alt_names = uris.collect();
        params.extended_key_usages.clone_from(&self.usages);
        (params.not_before, params.not_after) = (self.from.into(), self.until.into());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        fs::create_dir_all(dir).expect("a folder");
        for (name, text) in
            [("ca.pem", read("ca.pem")), ("key.pem", key.serialize_pem()), ("cert.pem", certificate)]
        {
            replace(&dir.join(name), &text);
        }
        dir.to_owned()
    }
}

/// A process that watches the file sees the old one or the new one.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o400)).expect("a mode");
    fs::rename(&new, path).expect("a file in its place");
}
