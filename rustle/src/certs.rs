//! A certificate authority for local clusters, tests, and clusters without another one.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use node::auth::{Identity, Role};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// Time by which certificates are backdated: more than the clocks of hosts differ.
const BACKDATED: Duration = Duration::from_secs(300);
/// Lifetime of the authority, far beyond that of its certificates.
const AUTHORITY_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A certificate authority: `ca.pem` and `ca.key` in a private folder. No process of a cluster needs its key.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    trust_domain: String,
}

impl Authority {
    /// Creates an authority. Error: the folder has one already.
    pub fn create(dir: &Path, trust_domain: &str) -> anyhow::Result<Self> {
        private_dir(dir)?;
        let key = KeyPair::generate()?;
        let params = authority_params();
        let certificate = params.self_signed(&key)?.pem();
        let named = || format!("a certificate authority in {}", dir.display());
        write_new(&dir.join("ca.key"), &Zeroizing::new(key.serialize_pem()), 0o400).with_context(named)?;
        write_new(&dir.join("ca.pem"), &certificate, 0o444).with_context(named)?;
        Ok(Self { issuer: Issuer::new(params, key), certificate, trust_domain: trust_domain.to_owned() })
    }

    /// Opens the authority of a folder.
    pub fn open(dir: &Path, trust_domain: &str) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = dir.join(name);
            fs::read_to_string(&path).with_context(|| format!("certificate authority: {}", path.display()))
        };
        let key =
            KeyPair::from_pem(&Zeroizing::new(read("ca.key")?)).context("the authority's key, ca.key")?;
        let issuer = Issuer::new(authority_params(), key);
        Ok(Self { issuer, certificate: read("ca.pem")?, trust_domain: trust_domain.to_owned() })
    }

    /// Writes a new key and its certificate to `dir`, as `--tls-dir` takes it. Existing files are replaced one by one; a
    /// process that watches the folder loads the new pair once it is complete.
    pub fn issue(&self, dir: &Path, role: &Role, life: Duration) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        let certificate = self.leaf(role, life)?.signed_by(&key, &self.issuer)?.pem();
        private_dir(dir)?;
        replace(&dir.join("ca.pem"), &self.certificate, 0o444)?;
        replace(&dir.join("key.pem"), &Zeroizing::new(key.serialize_pem()), 0o400)?;
        replace(&dir.join("cert.pem"), &certificate, 0o444)
    }

    fn leaf(&self, role: &Role, life: Duration) -> anyhow::Result<CertificateParams> {
        let identity = Identity { trust_domain: self.trust_domain.clone(), role: role.clone() }.to_string();
        anyhow::ensure!(
            Identity::parse(&identity).is_some(),
            "{identity} is not an identity; allowed: names of letters, digits, - _ and ."
        );
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&role.to_string());
        params.subject_alt_names = vec![SanType::URI(identity.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match role {
            Role::Coordinator | Role::Worker(_) => {
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
            }
            _ => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, life);
        Ok(params)
    }
}

/// Returns parameters that are the same for every authority, so that opening one need not parse its certificate.
fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("Rustle authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut params, AUTHORITY_LIFE);
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn valid_for(params: &mut CertificateParams, life: Duration) {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - BACKDATED;
    params.not_after = now + life;
}

fn private_dir(dir: &Path) -> anyhow::Result<()> {
    let named = || format!("folder {}", dir.display());
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(named)
}

fn write_new(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let named = || format!("write {}", path.display());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path).with_context(named)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(named)
}

fn replace(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let new: PathBuf = path.with_extension("new");
    // A process that died half-way may have left the file.
    let _ = fs::remove_file(&new);
    write_new(&new, text, mode)?;
    fs::rename(&new, path).with_context(|| format!("write {}", path.display()))
}
