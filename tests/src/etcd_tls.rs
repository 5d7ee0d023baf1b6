//! Certificates for etcd and its clients, signed by an authority of the test.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub fn generate() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "etcd's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// `ca.pem`, and `cert.pem` and `key.pem` of `name`, good for either end of a connection to 127.0.0.1.
    pub fn issue(&self, dir: &Path, name: &str) -> PathBuf {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        let dir = dir.join(name);
        fs::create_dir_all(&dir).expect("a folder");
        for (file, text) in
            [("ca.pem", &self.certificate), ("cert.pem", &certificate), ("key.pem", &key.serialize_pem())]
        {
            fs::write(dir.join(file), text).expect("a file");
        }
        dir
    }
}
