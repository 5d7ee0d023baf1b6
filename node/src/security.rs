//! Settings of TLS, limits and hardening, the same for every process that listens.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use proto::rpc::Rpc;
use tonic::transport::Server;
use tracing::warn;

use crate::admission::{CLOSING_GRACE, ErrorMapping, FRAME_BYTES, GuardLayer, HEADER_BYTES, Limits};
use crate::auth::{Authenticator, TokenError, Tokens};
use crate::config::secrets::allow_group_readable;
use crate::config::settings::{Layers, SettingError};
use crate::config::units::{parse_bytes, parse_duration};
use crate::net::acceptor::Incoming;
use crate::net::listener::Listener;
use crate::process::hardening::Hardening;
use crate::tls::{Credentials, TlsError, TlsFiles};

const KEEPALIVE_EVERY: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The flags of security. A setting without a flag comes from the environment, the file or the default.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SecurityArgs {
    /// Folder of ca.pem, cert.pem and key.pem: TLS on every link, both ways. Read anew when they change
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<String>,
    /// Whom to trust, where that is not in --tls-dir
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub tls_ca: Option<String>,
    /// Who this process is
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub tls_cert: Option<String>,
    /// The key of that, mode 0400
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub tls_key: Option<String>,
    /// Listen and connect beyond loopback without TLS: anyone on the way can read and alter everything
    #[arg(long)]
    pub insecure_listen: bool,
    /// Open connections, of all callers [default: 4096]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_connections: Option<String>,
    /// Open connections of one IP address [default: 1024]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_connections_per_address: Option<String>,
    /// TLS handshakes a second of one IP address, four seconds' worth at once; more wait for up to 1 s [default: 50]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_handshakes_per_second: Option<String>,
    /// Calls under way on one connection [default: 128]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_streams: Option<String>,
    /// Calls under way, of all callers [default: 4096]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_calls: Option<String>,
    /// Calls a second of one caller, with ten seconds' worth at once; its connections are read no faster [default: 20000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_calls_per_second: Option<String>,
    /// Calls a second of one connection, which is read no faster [default: 4000]
    #[arg(long, value_name = "COUNT", hide_short_help = true)]
    pub max_connection_calls_per_second: Option<String>,
    /// Bytes of rows on their way to one caller [default: 16GiB]
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    pub max_slice_bytes: Option<String>,
    /// A connection is asked to close after this long [default: 1h]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub max_connection_age: Option<String>,
    /// For debugging: let this process be traced and dumped, with all it holds
    #[arg(long, hide_short_help = true)]
    pub allow_core_dumps: bool,
    /// Take files of secrets that a group of this process's can read too (0440): Kubernetes' secrets with an fsGroup
    #[arg(long, hide_short_help = true)]
    pub group_readable_secrets: bool,
    /// Keep all memory of this process out of swap
    #[arg(long, hide_short_help = true)]
    pub lock_memory: bool,
}

/// The resolved settings of TLS, limits and hardening.
#[derive(Clone, Debug, Default)]
pub struct SecuritySettings {
    /// The files of TLS; `None` for a server without.
    pub tls: Option<TlsFiles>,
    /// Whether to listen and connect beyond this host without TLS.
    pub insecure_listen: bool,
    /// The limits of the server.
    pub limits: Limits,
    /// The protection of the process.
    pub hardening: Hardening,
}

/// The reason why a server cannot be secured.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A setting is missing or invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The TLS files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The tokens file cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// The system refuses a protection.
    #[error(
        "this process can't be hardened ({0}); --allow-core-dumps does without, and --lock-memory needs a large \
         enough RLIMIT_MEMLOCK"
    )]
    Hardening(std::io::Error),
}

impl SecurityArgs {
    /// Resolves each setting from flags, environment, file and defaults.
    pub fn resolve(self, layers: &mut Layers) -> Result<SecuritySettings, SecurityError> {
        let mut path = |name, flag| layers.optional(name, flag, PathBuf::from_str);
        let dir = path("tls_dir", self.tls_dir)?;
        let ca = path("tls_ca", self.tls_ca)?;
        let cert = path("tls_cert", self.tls_cert)?;
        let tls = TlsFiles::choose(dir, ca, cert, path("tls_key", self.tls_key)?)?;
        let mut switch = |name, is_given: bool| {
            layers.with_default(name, is_given.then(|| "true".to_owned()), false, bool::from_str)
        };
        let insecure_listen = switch("insecure_listen", self.insecure_listen)?;
        if switch("group_readable_secrets", self.group_readable_secrets)? {
            allow_group_readable();
        }
        let allow_core_dumps = switch("allow_core_dumps", self.allow_core_dumps)?;
        let lock_memory = switch("lock_memory", self.lock_memory)?;
        let of = Limits::default();
        let mut count = |name, flag, default| layers.with_default(name, flag, default, at_least_one);
        let limits = Limits {
            connections: count("max_connections", self.max_connections, of.connections)?,
            connections_per_address: count(
                "max_connections_per_address",
                self.max_connections_per_address,
                of.connections_per_address,
            )?,
            handshakes_per_second: count(
                "max_handshakes_per_second",
                self.max_handshakes_per_second,
                of.handshakes_per_second as usize,
            )? as u32,
            streams: count("max_streams", self.max_streams, of.streams as usize)? as u32,
            calls: count("max_calls", self.max_calls, of.calls)?,
            calls_per_second: count(
                "max_calls_per_second",
                self.max_calls_per_second,
                of.calls_per_second as usize,
            )? as u32,
            connection_calls_per_second: count(
                "max_connection_calls_per_second",
                self.max_connection_calls_per_second,
                of.connection_calls_per_second as usize,
            )? as u32,
            slice_bytes: layers.with_default(
                "max_slice_bytes",
                self.max_slice_bytes,
                "16GiB",
                parse_bytes,
            )?,
            connection_age: layers.with_default("max_connection_age", self.max_connection_age, "1h", age)?,
        };
        Ok(SecuritySettings {
            tls,
            insecure_listen,
            limits,
            hardening: Hardening { allow_core_dumps, lock_memory },
        })
    }
}

impl SecuritySettings {
    /// Hardens this process; reads the files, and again when they change; says so loudly where the operator does
    /// without. Call before any key is read, inside a tokio runtime.
    pub fn enforce(self, tokens_file: Option<&Path>) -> Result<ServerSecurity, SecurityError> {
        self.hardening.apply().map_err(SecurityError::Hardening)?;
        let credentials = self.tls.map(Credentials::load).transpose()?;
        credentials.iter().for_each(Credentials::watch);
        if self.insecure_listen && credentials.is_none() {
            warn!(
                "--insecure-listen without TLS: anyone who reaches these ports can read rows, and so take the noise off \
                 what was trained with it"
            );
        }
        let tokens = tokens_file.map(Tokens::load).transpose()?;
        Ok(ServerSecurity { credentials, tokens, limits: self.limits, insecure: self.insecure_listen })
    }
}

/// The security of a server, in force. The default is that of a cluster on loopback: no TLS and no authentication.
#[derive(Clone, Debug, Default)]
pub struct ServerSecurity {
    /// The certificates in force; `None` without TLS.
    pub credentials: Option<Credentials>,
    /// The bearer tokens; `None` where none are used.
    pub tokens: Option<Tokens>,
    /// The limits of the server.
    pub limits: Limits,
    /// Whether to listen and connect beyond this host without TLS.
    pub insecure: bool,
}

impl ServerSecurity {
    /// Returns whether gRPC may be served beyond loopback.
    pub fn may_leave_host(&self) -> bool {
        self.credentials.is_some() || self.insecure
    }

    /// Returns the layer that goes in front of every handler of the server. `rpcs` is the table of calls, `errors` words
    /// refusals.
    pub fn guard(&self, rpcs: &'static [Rpc], errors: impl ErrorMapping) -> GuardLayer {
        let own = self.credentials.as_ref().map(Credentials::identity);
        GuardLayer::new(Authenticator::new(own, self.tokens.clone()), self.limits.clone(), rpcs, errors)
    }

    /// Starts accepting from `listener`. Call it inside a tokio runtime.
    pub fn incoming(&self, listener: Listener) -> Incoming {
        Incoming::new(listener, self.credentials.clone(), &self.limits)
    }

    /// Returns a gRPC server with the HTTP/2 settings of all our servers.
    pub fn server(&self) -> Server {
        Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .http2_max_header_list_size(HEADER_BYTES)
            .max_concurrent_streams(self.limits.streams)
            .max_connection_age(self.limits.connection_age)
            .max_connection_age_grace(CLOSING_GRACE)
            .max_frame_size(FRAME_BYTES)
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let allowed = 1..=u32::MAX as usize;
    text.parse()
        .ok()
        .filter(|count| allowed.contains(count))
        .ok_or_else(|| "allowed: 1 to 4294967295".to_owned())
}

fn age(text: &str) -> Result<Duration, String> {
    let age = parse_duration(text).map_err(|error| error.to_string())?;
    (age >= Duration::from_secs(1)).then_some(age).ok_or_else(|| "allowed: 1s or longer".to_owned())
}
