//! The certificates that a process shows and requires, read anew when its files change.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tracing::{info, warn};

use super::certificate::CertificateFacts;
use super::error::TlsError;
use super::expected::ExpectedServer;
use super::files::{Material, Stamp, TlsFiles};
use super::verify::RoleVerifier;
use crate::auth::Identity;
use crate::process::runtime::spawn;

/// Interval between looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The protocol in ALPN.
const HTTP2: &[u8] = b"h2";

/// The certificates and keys of a process, read anew when their files change. Clones share what was read last. Open
/// connections keep the credentials they began with.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    current: RwLock<Arc<Configs>>,
    last_look: Mutex<LastLook>,
}

struct Configs {
    identity: Identity,
    ends: Option<SystemTime>,
    server: Arc<ServerConfig>,
    /// The expected server is added for each connection.
    client: ClientConfig,
    /// A verifier that accepts no server.
    reject_all: RoleVerifier,
}

/// The files at the last look.
struct LastLook {
    stamp: Stamp,
    is_in_force: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.identity())
    }
}

impl Credentials {
    /// Reads the files, which must be usable.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let stamp = files.stamp();
        let current = RwLock::new(Arc::new(Configs::new(&files)?));
        Ok(Self(Arc::new(Shared {
            files,
            current,
            last_look: Mutex::new(LastLook { stamp, is_in_force: true }),
        })))
    }

    /// Looks at the files every second from now on. Call it inside a tokio runtime.
    pub fn watch(&self) {
        let shared = Arc::downgrade(&self.0);
        spawn(async move {
            let mut ticks = tokio::time::interval(LOOK_EVERY);
            loop {
                ticks.tick().await;
                let Some(credentials) = Weak::upgrade(&shared).map(Self) else { return };
                credentials.look();
            }
        });
    }

    /// Puts new files in force where there are any. Files that can't be used leave the old ones in force, and are tried
    /// again at the next look: the obstacle (a file half written, no descriptor left) may be gone by then.
    pub fn look(&self) {
        let stamp = self.0.files.stamp();
        let mut last_look = self.0.last_look.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last_look.stamp != stamp;
        if last_look.is_in_force && !is_new {
            return;
        }
        let configs = Configs::new(&self.0.files);
        *last_look = LastLook { stamp, is_in_force: configs.is_ok() };
        match configs {
            Ok(configs) => {
                info!(identity = %configs.identity, "new TLS files are in force");
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(configs);
            }
            Err(error) if is_new => warn!(%error, "new TLS files can't be used; the old ones stay in force"),
            Err(_) => {}
        }
    }

    /// Returns this process's identity.
    pub fn identity(&self) -> Identity {
        self.current().identity.clone()
    }

    /// Returns the last moment at which this process's certificate is valid; `None` where it can't be read.
    pub fn ends(&self) -> Option<SystemTime> {
        self.current().ends
    }

    /// Returns the configuration to accept connections with.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.current().server.clone()
    }

    /// Returns the configuration to connect with to the expected server and no other.
    pub fn client(&self, expected: ExpectedServer) -> Arc<ClientConfig> {
        let current = self.current();
        let mut config = current.client.clone();
        let verifier = RoleVerifier { expected: Some(expected), ..current.reject_all.clone() };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        Arc::new(config)
    }

    fn current(&self) -> Arc<Configs> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Configs {
    fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        let material = files.read()?;
        let unusable = |error: &dyn ToString| files.unusable(&files.cert, error.to_string());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let reject_all = RoleVerifier {
            roots: Arc::new(material.roots.clone()),
            provider: provider.clone(),
            trust_domain: material.identity.trust_domain.clone(),
            expected: None,
        };
        Ok(Self {
            identity: material.identity.clone(),
            ends: material.chain.first().and_then(CertificateFacts::of).map(|facts| facts.ends),
            server: Arc::new(server(&material, &provider).map_err(|error| unusable(&error))?),
            client: client(&material, &provider, reject_all.clone()).map_err(|error| unusable(&error))?,
            reject_all,
        })
    }
}

fn server(
    material: &Material,
    provider: &Arc<CryptoProvider>,
) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let roots = Arc::new(material.roots.clone());
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(material.chain.clone(), material.key.clone_key())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    // No session is resumed: its certificate may have been checked long ago.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn client(
    material: &Material,
    provider: &Arc<CryptoProvider>,
    verifier: RoleVerifier,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(material.chain.clone(), material.key.clone_key())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
