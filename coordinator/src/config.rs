//! Settings of a coordinator: flags, before `RUSTLE_…` variables, before a file, before defaults.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use ledger::PlainHttp;
use node::config::settings::{Layers, Setting, SettingError};
use node::config::units::parse_duration;
use node::net::listen::bind_loopback_checked;
use node::net::listener::{ListenAddress, Listener};
use node::security::{SecurityArgs, SecuritySettings, ServerSecurity};
use tokio::net::TcpListener;
use url::Url;

use crate::pace::{Expectations, Schedule};
use crate::store::{Store, StoreArgs};

/// The flags; whatever is not given comes from the environment, the file or the default.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct CoordinatorArgs {
    /// Address of the gRPC services: ip:port, port 0 lets the system choose, or unix:/path [default: 127.0.0.1:7300]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address of the status page, /metrics, /livez, /readyz and /status [default: 127.0.0.1:0]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,
    /// Folder of the ledger, and of checkpoints unless --checkpoint-url says otherwise
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Where checkpoints go; "none" for nowhere [default: the folder `checkpoints` in the data folder]
    #[arg(long, value_name = "URL")]
    pub checkpoint_url: Option<String>,
    /// Time between checkpoints of a job; 0 for none but those asked for; auto weighs what writing costs against what
    /// replaying would, and never spends more than 3.5 % on it [default: auto]
    #[arg(long, value_name = "DURATION")]
    pub checkpoint_interval: Option<String>,
    /// How often a worker is expected to fail, for --checkpoint-interval auto [default: 3h]
    #[arg(long, value_name = "DURATION")]
    pub between_failures: Option<String>,
    /// Replay after a failure to stay under, for --checkpoint-interval auto [default: 60s]
    #[arg(long, value_name = "DURATION")]
    pub longest_replay: Option<String>,
    /// Reach an s3:// checkpoint store without TLS: for tests on one host
    #[arg(long, hide_short_help = true)]
    pub s3_plain_http: bool,
    /// Checkpoints of a job to keep [default: 2]
    #[arg(long, value_name = "COUNT")]
    pub keep_checkpoints: Option<String>,
    /// Time between heartbeats of a worker [default: 200ms]
    #[arg(long, value_name = "DURATION")]
    pub heartbeat: Option<String>,
    /// A worker not heard of for this long loses its shards [default: 2s]
    #[arg(long, value_name = "DURATION")]
    pub lease_ttl: Option<String>,
    /// A worker that is slow beside the others, or makes no rows at all, for this long has shards taken off it; 0 for
    /// never [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub relieve_after: Option<String>,
    /// How long a release token is good; binding the same rows again gives new ones [default: 1h]
    #[arg(long, value_name = "DURATION")]
    pub token_ttl: Option<String>,
    /// How long a proxied fetch waits for a range without an owner, unless it says so itself [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub fetch_deadline: Option<String>,
    /// The δ for which the status page and the metrics state ε [default: 1e-6]
    #[arg(long, value_name = "DELTA")]
    pub report_delta: Option<String>,
    /// File to write once ready, with the addresses
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<String>,
    /// File of token digests, one JSON object a line: callers then show a token or a certificate
    #[arg(long, value_name = "FILE")]
    pub tokens_file: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub security: SecurityArgs,
    /// TOML file of settings
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What the coordinator runs by.
#[derive(Clone, Debug)]
pub struct Settings {
    pub data_dir: PathBuf,
    pub checkpoint_url: Option<String>,
    pub checkpoint_schedule: Schedule,
    pub expectations: Expectations,
    pub s3_plain_http: PlainHttp,
    pub keep_checkpoints: usize,
    pub heartbeat: Duration,
    pub lease_ttl: Duration,
    /// Zero for never.
    pub relieve_after: Duration,
    pub token_ttl: Duration,
    pub fetch_deadline: Duration,
    /// Strictly between 0 and 1.
    pub report_delta: f64,
}

/// Settings, and where to listen.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: ListenAddress,
    pub metrics_listen: SocketAddr,
    pub security: SecuritySettings,
    pub tokens_file: Option<PathBuf>,
    pub ready_file: Option<PathBuf>,
    pub store: Store,
    /// URL by which others reach this coordinator, where that is not the listening address.
    pub advertise: Option<String>,
    pub settings: Settings,
}

/// Ready to [run](crate::run): the addresses are taken.
#[derive(Debug)]
pub struct CoordinatorConfig {
    pub settings: Settings,
    pub listener: Listener,
    pub metrics_listener: TcpListener,
    pub security: ServerSecurity,
    pub ready_file: Option<PathBuf>,
    pub store: Store,
    /// As in [`Options`].
    pub advertise: Option<String>,
}

impl Settings {
    /// The defaults over a folder.
    pub fn in_folder(data_dir: &Path) -> anyhow::Result<Self> {
        let data_dir = data_dir.to_str().context("the data folder's name is not UTF-8")?;
        let args = CoordinatorArgs { data_dir: Some(data_dir.to_owned()), ..CoordinatorArgs::default() };
        Ok(args.resolve_in(Layers::from_parts([], None)?)?.0.settings)
    }
}

impl CoordinatorArgs {
    /// All settings, and for each where it came from.
    pub fn resolve(self) -> anyhow::Result<(Options, Vec<Setting>)> {
        let layers = Layers::load(self.config.as_deref())?;
        self.resolve_in(layers)
    }

    fn resolve_in(self, mut layers: Layers) -> anyhow::Result<(Options, Vec<Setting>)> {
        let layer = &mut layers;
        let listen = layer.with_default("listen", self.listen, "127.0.0.1:7300", ListenAddress::from_str)?;
        let metrics_listen =
            layer.with_default("metrics_listen", self.metrics_listen, "127.0.0.1:0", SocketAddr::from_str)?;
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
        let checkpoint_schedule = layer.with_default(
            "checkpoint_interval",
            self.checkpoint_interval,
            "auto",
            Schedule::from_str,
        )?;
        let expectations = Expectations {
            between_failures: duration(layer, "between_failures", self.between_failures, "3h")?,
            longest_replay: duration(layer, "longest_replay", self.longest_replay, "60s")?,
        };
        let plain_http = self.s3_plain_http.then(|| "true".to_owned());
        let plain_http = layer.with_default("s3_plain_http", plain_http, false, bool::from_str)?;
        let s3_plain_http = if plain_http { PlainHttp::Allowed } else { PlainHttp::Refused };
        let keep_checkpoints =
            layer.with_default("keep_checkpoints", self.keep_checkpoints, 2, at_least_one)?;
        let heartbeat = duration(layer, "heartbeat", self.heartbeat, "200ms")?;
        let lease_ttl = duration(layer, "lease_ttl", self.lease_ttl, "2s")?;
        let relieve_after = duration(layer, "relieve_after", self.relieve_after, "10s")?;
        let token_ttl = duration(layer, "token_ttl", self.token_ttl, "1h")?;
        let fetch_deadline = duration(layer, "fetch_deadline", self.fetch_deadline, "30s")?;
        let report_delta = layer.with_default("report_delta", self.report_delta, 1e-6, probability)?;
        let ready_file = layer.optional("ready_file", self.ready_file, PathBuf::from_str)?;
        let tokens_file = layer.optional("tokens_file", self.tokens_file, PathBuf::from_str)?;
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
            relieve_after,
            token_ttl,
            fetch_deadline,
            report_delta,
        };
        let options =
            Options { listen, metrics_listen, security, tokens_file, ready_file, store, advertise, settings };
        Ok((options, layers.finish()?))
    }
}

fn check_times(heartbeat: Duration, lease_ttl: Duration, token_ttl: Duration) -> anyhow::Result<()> {
    ensure!(heartbeat >= Duration::from_millis(10), "heartbeat is {heartbeat:?}; allowed: 10ms or longer");
    ensure!(
        lease_ttl >= heartbeat * 3,
        "lease_ttl is {lease_ttl:?}; allowed: at least three heartbeats of {heartbeat:?}"
    );
    ensure!(token_ttl >= Duration::from_millis(100), "token_ttl is {token_ttl:?}; allowed: 100ms or longer");
    Ok(())
}

impl Options {
    /// Takes both addresses. Others than loopback only with TLS or `insecure_listen`; metrics are never over TLS.
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
    name: &'static str,
    flag: Option<String>,
    default: &str,
) -> Result<Duration, SettingError> {
    let parse = |text: &str| if text == "0" { Ok(Duration::ZERO) } else { parse_duration(text) };
    layers.with_default(name, flag, default, parse)
}

fn store_url(text: &str) -> Result<Option<String>, Infallible> {
    Ok(Some(text.to_owned()).filter(|url| !url.is_empty() && url != "none"))
}

fn probability(text: &str) -> Result<f64, String> {
    let allowed = || "allowed: strictly between 0 and 1".to_owned();
    text.parse().ok().filter(|&delta: &f64| delta > 0.0 && delta < 1.0).ok_or_else(allowed)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&count| count >= 1).ok_or_else(|| "allowed: 1 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(args: CoordinatorArgs, environment: &[(&str, &str)]) -> anyhow::Result<Options> {
        let environment = environment.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let data_dir = args.data_dir.or(Some("/data".into()));
        let args = CoordinatorArgs { data_dir, ..args };
        Ok(args.resolve_in(Layers::from_parts(environment, None)?)?.0)
    }

    #[test]
    fn the_defaults_are_as_documented() {
        let options = resolve(CoordinatorArgs::default(), &[]).unwrap();
        assert_eq!(options.listen, "127.0.0.1:7300".parse().unwrap());
        assert_eq!(options.settings.checkpoint_url.as_deref(), Some("file:///data/checkpoints"));
        assert_eq!(options.settings.lease_ttl, Duration::from_secs(2));
        assert_eq!(options.settings.checkpoint_schedule, Schedule::ByCost);
        assert!(!options.security.insecure_listen && options.ready_file.is_none());
        assert_eq!(options.security.limits, node::admission::Limits::default());
    }

    #[test]
    fn flags_come_before_the_environment() {
        let environment =
            [("RUSTLE_HEARTBEAT", "50ms"), ("RUSTLE_LEASE_TTL", "1s"), ("RUSTLE_CHECKPOINT_URL", "none")];
        let args = CoordinatorArgs { heartbeat: Some("100ms".into()), ..CoordinatorArgs::default() };
        let settings = resolve(args, &environment).unwrap().settings;
        assert_eq!((settings.heartbeat.as_millis(), settings.lease_ttl.as_millis()), (100, 1000));
        assert_eq!(settings.checkpoint_url, None);
    }

    #[test]
    fn bad_settings_are_refused_by_name() {
        for (name, value) in [
            ("RUSTLE_LEASE_TTL", "300ms"),
            ("RUSTLE_HEARTBEAT", "0"),
            ("RUSTLE_KEEP_CHECKPOINTS", "0"),
            ("RUSTLE_REPORT_DELTA", "1"),
            ("RUSTLE_CHECKPOINT_INTERVAL", "often"),
            ("RUSTLE_LISTEN", "here"),
        ] {
            let error = format!("{:#}", resolve(CoordinatorArgs::default(), &[(name, value)]).unwrap_err());
            let field = name.trim_start_matches("RUSTLE_").to_lowercase();
            assert!(error.contains(&field), "{error}");
        }
    }

    #[tokio::test]
    async fn public_addresses_need_the_flag() {
        let options = |insecure_listen| {
            let security = SecurityArgs { insecure_listen, ..Default::default() };
            let args = CoordinatorArgs { listen: Some("0.0.0.0:0".into()), security, ..Default::default() };
            resolve(args, &[]).unwrap()
        };
        let error = format!("{:#}", options(false).bind().await.unwrap_err());
        assert!(error.contains("--insecure-listen"), "{error}");
        options(true).bind().await.unwrap();
    }
}
