//! The settings of a coordinator: from flags, else `RUSTLE_…` variables, else a file, else the defaults.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use checkpoint_store::PlainHttp;
use node::config::settings::{Layers, Setting, SettingError};
use node::config::units::parse_duration;
use node::net::listen::bind_loopback_checked;
use node::net::listener::{ListenAddress, Listener};
use node::security::{SecurityArgs, SecuritySettings, ServerSecurity};
use tokio::net::TcpListener;
use url::Url;

use crate::checkpointing::interval::{Expectations, Schedule};
use crate::defaults::{self, SettingDefault, show_default};
use crate::ledger_store::{LedgerStore, LedgerStoreArgs};
use crate::quotas::{QuotaArgs, QuotaSettings};
use crate::renamed_settings;

/// The flags of a coordinator. A setting without its flag comes from the environment, the file or the default.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(mut_args = show_default)]
pub struct CoordinatorArgs {
    /// Address of the gRPC services: ip:port, where port 0 lets the system choose, or unix:/path
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address of the status page, /metrics, /livez, /readyz and /status
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,
    /// Folder of the ledger, and of checkpoints unless --checkpoint-url names another place
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Where checkpoints are stored; "none" turns them off [default: the folder `checkpoints` in the data folder]
    #[arg(long, value_name = "URL")]
    pub checkpoint_url: Option<String>,
    /// Time between checkpoints of a job; 0 for those requested only; auto weighs the cost of writing against that of
    /// replaying, and spends at most 3.5 % of the time on writing
    #[arg(long, value_name = "DURATION")]
    pub checkpoint_interval: Option<String>,
    /// Expected mean time between failures of a worker, for --checkpoint-interval auto
    #[arg(long, value_name = "DURATION", alias = "between-failures")]
    pub mtbf: Option<String>,
    /// Longest replay after a failure, for --checkpoint-interval auto
    #[arg(long, value_name = "DURATION", alias = "longest-replay")]
    pub max_replay: Option<String>,
    /// Reach an s3:// checkpoint store without TLS, for tests on one host
    #[arg(long, hide_short_help = true)]
    pub s3_plain_http: bool,
    /// Number of checkpoints to keep of each job
    #[arg(long, value_name = "COUNT")]
    pub keep_checkpoints: Option<String>,
    /// Time between heartbeats of a worker
    #[arg(long, value_name = "DURATION")]
    pub heartbeat: Option<String>,
    /// Time without a heartbeat after which a worker loses its shards
    #[arg(long, value_name = "DURATION")]
    pub lease_ttl: Option<String>,
    /// Time after which a worker that is much slower than the others, or makes no rows at all, loses shards; 0 for
    /// never
    #[arg(long, value_name = "DURATION", alias = "relieve-after")]
    pub straggler_timeout: Option<String>,
    /// Lifetime of a release token; binding the same rows again issues new ones
    #[arg(long, value_name = "DURATION")]
    pub token_ttl: Option<String>,
    /// How long a proxied fetch waits for a range that no worker serves, unless the request names a deadline
    #[arg(long, value_name = "DURATION")]
    pub fetch_deadline: Option<String>,
    /// The δ at which the status page and the metrics state ε
    #[arg(long, value_name = "DELTA")]
    pub report_delta: Option<String>,
    /// Refuse jobs that name no data set, whose privacy budget pays for them
    #[arg(long)]
    pub require_data_set: bool,
    /// File to append every entry of the ledger's chains to, as JSON lines; - for standard output
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<String>,
    /// Send every entry of the ledger's chains to this OpenTelemetry collector (OTLP over gRPC), such as http://127.0.0.1:4317
    #[arg(long, value_name = "URL")]
    pub audit_otlp: Option<String>,
    /// File to write once ready, with the addresses
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<String>,
    /// File of token digests, one JSON object per line: callers must then present a token or a certificate
    #[arg(long, value_name = "FILE")]
    pub tokens_file: Option<String>,
    /// The flags of the ledger's store.
    #[command(flatten)]
    pub store: LedgerStoreArgs,
    /// The flags of quotas.
    #[command(flatten)]
    pub quotas: QuotaArgs,
    /// The flags of TLS, authentication and limits.
    #[command(flatten)]
    pub security: SecurityArgs,
    /// TOML file of settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The settings of a running coordinator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the ledger.
    pub data_dir: PathBuf,
    /// The URL of the checkpoint store; `None` turns checkpoints off.
    pub checkpoint_url: Option<String>,
    /// The schedule of checkpoints that are written without a request.
    pub checkpoint_schedule: Schedule,
    /// The operator's expectations of failures, for [`Schedule::Auto`].
    pub expectations: Expectations,
    /// Whether an S3 store may be reached without TLS.
    pub s3_plain_http: PlainHttp,
    /// The number of checkpoints kept of each job; at least 1.
    pub keep_checkpoints: usize,
    /// The time between heartbeats of a worker.
    pub heartbeat: Duration,
    /// The time without a heartbeat after which a worker loses its shards.
    pub lease_ttl: Duration,
    /// The time after which a worker counts as a straggler; zero for never.
    pub straggler_timeout: Duration,
    /// The lifetime of a release token.
    pub token_ttl: Duration,
    /// The time that a proxied fetch waits for a range that no worker serves.
    pub fetch_deadline: Duration,
    /// The δ at which ε is stated, strictly between 0 and 1.
    pub report_delta: f64,
    /// Whether every job must name a data set.
    pub require_data_set: bool,
    /// What one job and one caller may add.
    pub quotas: QuotaSettings,
    /// The file that gets every entry of the ledger's chains; `-` for standard output.
    pub audit_log: Option<PathBuf>,
    /// The URL of the OpenTelemetry collector that gets every entry of the ledger's chains.
    pub audit_otlp: Option<String>,
}

/// The settings of a coordinator process: those of the coordinator, and where to listen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of the gRPC services.
    pub listen: ListenAddress,
    /// The address of the status page and the metrics.
    pub metrics_listen: SocketAddr,
    /// TLS, authentication and limits.
    pub security: SecuritySettings,
    /// The file of token digests.
    pub tokens_file: Option<PathBuf>,
    /// The file to write once ready.
    pub ready_file: Option<PathBuf>,
    /// The store of the ledger.
    pub store: LedgerStore,
    /// The URL at which others reach this coordinator, if that is not the listening address.
    pub advertise: Option<String>,
    /// The settings of the coordinator itself.
    pub settings: Settings,
}

/// A coordinator that is ready to [run](crate::run()): its addresses are bound.
#[derive(Debug)]
pub struct CoordinatorConfig {
    /// The settings of the coordinator itself.
    pub settings: Settings,
    /// The listener of the gRPC services.
    pub listener: Listener,
    /// The listener of the status page and the metrics.
    pub metrics_listener: TcpListener,
    /// TLS, authentication and limits, with their files read.
    pub security: ServerSecurity,
    /// The file to write once ready.
    pub ready_file: Option<PathBuf>,
    /// The store of the ledger.
    pub store: LedgerStore,
    /// The URL at which others reach this coordinator, if that is not the listening address.
    pub advertise: Option<String>,
}

impl Settings {
    /// Returns the default settings for a data folder. Fails if its name is not UTF-8.
    pub fn in_folder(data_dir: &Path) -> anyhow::Result<Self> {
        let data_dir = data_dir.to_str().context("the data folder's name is not UTF-8")?;
        let args = CoordinatorArgs { data_dir: Some(data_dir.to_owned()), ..CoordinatorArgs::default() };
        Ok(args.resolve_in(Layers::from_parts([], None)?)?.0.settings)
    }
}

impl CoordinatorArgs {
    /// Returns all settings, and for each where it came from. Fails if a setting is invalid or missing.
    pub fn resolve(self) -> anyhow::Result<(Options, Vec<Setting>)> {
        let layers = Layers::load(self.config.as_deref())?;
        self.resolve_in(layers)
    }

    fn resolve_in(self, mut layers: Layers) -> anyhow::Result<(Options, Vec<Setting>)> {
        let layer = &mut layers;
        let listen = defaults::LISTEN.resolve(layer, self.listen, ListenAddress::from_str)?;
        let metrics_listen =
            defaults::METRICS_LISTEN.resolve(layer, self.metrics_listen, SocketAddr::from_str)?;
        let data_dir = layer.required("data_dir", self.data_dir, |dir| std::path::absolute(dir))?;
        let (store, advertise) = self.store.resolve(layer)?;
        let default_url = Url::from_file_path(data_dir.join("checkpoints"));
        let default_url = default_url.map_err(|()| anyhow!("data_dir {} has no URL", data_dir.display()))?;
        let checkpoint_url = if store.is_shared() {
            // The other coordinators can't read a folder of this one.
            layer.required("checkpoint_url", self.checkpoint_url, store_url)?
        } else {
            layer.with_default("checkpoint_url", self.checkpoint_url, default_url, store_url)?
        };
        let checkpoint_schedule =
            defaults::CHECKPOINT_INTERVAL.resolve(layer, self.checkpoint_interval, Schedule::from_str)?;
        let expectations = Expectations {
            mtbf: duration(layer, defaults::MTBF, self.mtbf)?,
            max_replay: duration(layer, defaults::MAX_REPLAY, self.max_replay)?,
        };
        let plain_http = self.s3_plain_http.then(|| "true".to_owned());
        let plain_http = layer.with_default("s3_plain_http", plain_http, false, bool::from_str)?;
        let s3_plain_http = if plain_http { PlainHttp::Allowed } else { PlainHttp::Refused };
        let keep_checkpoints =
            defaults::KEEP_CHECKPOINTS.resolve(layer, self.keep_checkpoints, at_least_one)?;
        let heartbeat = duration(layer, defaults::HEARTBEAT, self.heartbeat)?;
        let lease_ttl = duration(layer, defaults::LEASE_TTL, self.lease_ttl)?;
        let straggler_timeout = duration(layer, defaults::STRAGGLER_TIMEOUT, self.straggler_timeout)?;
        let token_ttl = duration(layer, defaults::TOKEN_TTL, self.token_ttl)?;
        let fetch_deadline = duration(layer, defaults::FETCH_DEADLINE, self.fetch_deadline)?;
        let report_delta = defaults::REPORT_DELTA.resolve(layer, self.report_delta, probability)?;
        let require = self.require_data_set.then(|| "true".to_owned());
        let require_data_set = layer.with_default("require_data_set", require, false, bool::from_str)?;
        let audit_log = layer.optional("audit_log", self.audit_log, PathBuf::from_str)?;
        let audit_otlp = layer.optional("audit_otlp", self.audit_otlp, String::from_str)?;
        let ready_file = layer.optional("ready_file", self.ready_file, PathBuf::from_str)?;
        let tokens_file = layer.optional("tokens_file", self.tokens_file, PathBuf::from_str)?;
        let quotas = self.quotas.resolve(layer)?;
        let security = self.security.resolve(layer)?;
        check_times(heartbeat, lease_ttl, token_ttl)?;
        let settings = Settings {
            data_dir,
            checkpoint_url,
            checkpoint_schedule,
            expectations,
            s3_plain_http,
            keep_checkpoints,
            heartbeat,
            lease_ttl,
            straggler_timeout,
            token_ttl,
            fetch_deadline,
            report_delta,
            require_data_set,
            quotas,
            audit_log,
            audit_otlp,
        };
        let options =
            Options { listen, metrics_listen, security, tokens_file, ready_file, store, advertise, settings };
        Ok((options, renamed_settings::restore_names(layers.finish()?)))
    }
}

impl Options {
    /// Binds both addresses. Fails for an address other than loopback without TLS or `insecure_listen`; metrics never
    /// use TLS.
    pub async fn bind(self) -> anyhow::Result<CoordinatorConfig> {
        let Options { listen, metrics_listen, security, tokens_file, ready_file, store, advertise, settings } =
            self;
        let security = security.enforce(tokens_file.as_deref())?;
        let listener = listen.bind(security.may_leave_host()).await.context("listen")?;
        let metrics_listener =
            bind_loopback_checked(metrics_listen, security.insecure).await.context("metrics_listen")?;
        Ok(CoordinatorConfig { settings, listener, metrics_listener, security, ready_file, store, advertise })
    }
}

fn duration(
    layers: &mut Layers,
    setting: SettingDefault,
    flag: Option<String>,
) -> Result<Duration, SettingError> {
    let parse = |text: &str| if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text) };
    renamed_settings::resolve(layers, setting, flag, parse)
}

mod parsers;
#[cfg(test)]
mod tests;

use parsers::{at_least_one, check_times, probability, store_url};
