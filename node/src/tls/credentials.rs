//! What a process shows to others and asks of them, read anew when its files change.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tracing::{info, warn};

use super::files::{Material, Stamp};
use super::verify::RoleVerifier;
use super::{TlsError, TlsFiles};
use crate::auth::{Identity, Role};
use crate::process::runtime::spawn;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const HTTP2: &[u8] = b"h2";

/// Whose server is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expected {
    Coordinator,
    /// The worker of this name and no other: what it sends is taken for noise.
    Worker(Cow<'static, str>),
}

impl Expected {
    pub fn worker(name: impl Into<String>) -> Self {
        Self::Worker(Cow::Owned(name.into()))
    }

    pub fn matches(&self, role: &Role) -> bool {
        match (self, role) {
            (Self::Coordinator, Role::Coordinator) => true,
            (Self::Worker(expected), Role::Worker(name)) => expected == name,
            _ => false,
        }
    }
}

/// Clones share what was read last. Connections that are open keep what they began with.
#[derive(Clone)]
pub struct Credentials(Arc<Shared>);

struct Shared {
    files: TlsFiles,
    current: RwLock<Arc<Configs>>,
    tried: Mutex<Tried>,
}

struct Configs {
    identity: Identity,
    server: Arc<ServerConfig>,
    /// Whom it may call is said for each connection.
    client: ClientConfig,
    /// Takes nobody for whom it may call.
    nobody: RoleVerifier,
}

/// The files as they were at the last look.
struct Tried {
    stamp: Stamp,
    is_taken: bool,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({})", self.identity())
    }
}

impl Credentials {
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let stamp = files.stamp();
        let current = RwLock::new(Arc::new(Configs::new(&files)?));
        Ok(Self(Arc::new(Shared { files, current, tried: Mutex::new(Tried { stamp, is_taken: true }) })))
    }

    /// Looks at the files every second from now on. Call inside a tokio runtime.
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

    /// Takes new files where there are any. Files that can't be used leave the old ones in force, and are tried again at
    /// the next look: what was in the way (a file not written whole yet, no descriptor left) may be gone by then.
    pub fn look(&self) {
        let stamp = self.0.files.stamp();
        let mut tried = self.0.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = tried.stamp != stamp;
        if tried.is_taken && !is_new {
            return;
        }
        let configs = Configs::new(&self.0.files);
        *tried = Tried { stamp, is_taken: configs.is_ok() };
        match configs {
            Ok(configs) => {
                info!(identity = %configs.identity, "new TLS files are in force");
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(configs);
            }
            Err(error) if is_new => warn!(%error, "new TLS files can't be used; the old ones stay in force"),
            Err(_) => {}
        }
    }

    pub fn identity(&self) -> Identity {
        self.current().identity.clone()
    }

    pub fn server(&self) -> Arc<ServerConfig> {
        self.current().server.clone()
    }

    /// For a connection to whom is expected and nobody else.
    pub fn client(&self, expected: Expected) -> Arc<ClientConfig> {
        let current = self.current();
        let mut config = current.client.clone();
        let verifier = RoleVerifier { expected: Some(expected), ..current.nobody.clone() };
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
        let nobody = RoleVerifier {
            roots: Arc::new(material.roots.clone()),
            provider: provider.clone(),
            trust_domain: material.identity.trust_domain.clone(),
            expected: None,
        };
        Ok(Self {
            identity: material.identity.clone(),
            server: Arc::new(server(&material, &provider).map_err(|error| unusable(&error))?),
            client: client(&material, &provider, nobody.clone()).map_err(|error| unusable(&error))?,
            nobody,
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
    // A resumed session would stand on a certificate that was checked long ago.
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
