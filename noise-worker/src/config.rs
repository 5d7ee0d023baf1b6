//! The settings of a worker: flags before environment before defaults.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use node::config::secrets::{read_key_command, read_key_credential, read_key_descriptor, read_key_file};
use node::config::settings::Layers;
use node::net::listener::ListenAddress;
use node::security::{SecurityArgs, SecurityError, SecuritySettings};
use noise_kernel::{Backend, JobKey};
use proto::{DEFAULT_CHUNK_BYTES, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, WorkerId};
use tracing::warn;

use crate::keyring::Keyring;

/// The time that the key command may take: a key management service answers within seconds.
const KEY_COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Serve shards of noise to training jobs
#[derive(Args, Clone, Debug)]
pub struct WorkerArgs {
    /// URL of the coordinator; where there are several, all of them, separated by commas
    #[arg(long, env = "RUSTLE_COORDINATOR", default_value = "http://127.0.0.1:7300")]
    pub coordinator: String,
    /// This worker's name, unique in its cluster [default: made of the process id]
    #[arg(long, env = "RUSTLE_WORKER_NAME")]
    pub name: Option<WorkerId>,
    /// Where to serve shards: ip:port, port 0 lets the system choose; or unix:/path for this host only
    #[arg(long, env = "RUSTLE_WORKER_LISTEN", default_value = "127.0.0.1:0")]
    pub listen: ListenAddress,
    /// Serve on this Unix socket too; jobs on this host prefer it
    #[arg(long, env = "RUSTLE_WORKER_UNIX_SOCKET")]
    pub unix_socket: Option<PathBuf>,
    /// Take regions of shared memory from this user's processes over this Unix socket, and write rows there
    #[arg(long, env = "RUSTLE_WORKER_SHM_SOCKET")]
    pub shm_socket: Option<PathBuf>,
    /// Bytes of row data in one gRPC message
    #[arg(long, env = "RUSTLE_WORKER_CHUNK_BYTES", default_value_t = DEFAULT_CHUNK_BYTES, value_parser = parse_chunk, hide_short_help = true)]
    pub chunk_bytes: usize,
    /// Maximum bytes of shared memory that may be lent to this worker
    #[arg(long, env = "RUSTLE_WORKER_SHM_BYTES", default_value = "4GiB", value_parser = parse_bytes)]
    pub shm_bytes: u64,
    /// Address at which others reach this worker, where that is not the listening address
    #[arg(long, env = "RUSTLE_WORKER_ADVERTISE")]
    pub advertise: Option<String>,
    /// Where to serve /metrics, /livez and /readyz
    #[arg(long, env = "RUSTLE_WORKER_METRICS_LISTEN", default_value = "127.0.0.1:0")]
    pub metrics_listen: SocketAddr,
    /// File of the key, 32 raw bytes, mode 0400
    #[arg(long, env = "RUSTLE_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// Number of an inherited descriptor to read the key from (0 is standard input)
    #[arg(long, conflicts_with = "key_file")]
    pub key_fd: Option<u32>,
    /// Name of a systemd credential that holds the key
    #[arg(long, env = "RUSTLE_KEY_CREDENTIAL", conflicts_with_all = ["key_file", "key_fd"])]
    pub key_credential: Option<String>,
    /// Command that prints the key, for a key management service
    #[arg(long, env = "RUSTLE_KEY_COMMAND", conflicts_with_all = ["key_file", "key_fd", "key_credential"])]
    pub key_command: Option<String>,
    /// Folder of further keys, one per job: JOB.key
    #[arg(long, env = "RUSTLE_KEY_DIR")]
    pub key_dir: Option<PathBuf>,
    /// Folder of this worker's release log, which no other worker may use; or `none`: after a restart, this worker then does
    /// not notice a ledger that was rolled back
    #[arg(long, env = "RUSTLE_WORKER_STATE_DIR", value_name = "DIR|none")]
    pub state_dir: Option<PathBuf>,
    /// Threads that generate noise; 0 for one per core
    #[arg(long, env = "RUSTLE_WORKER_THREADS", default_value_t = 0)]
    pub threads: usize,
    /// Pin each of these threads to a core of its own
    #[arg(long, env = "RUSTLE_WORKER_PIN_THREADS")]
    pub pin_threads: bool,
    /// Instruction set that generates noise: auto, portable, avx2, avx512, neon; the bits are the same on all
    #[arg(long, env = "RUSTLE_WORKER_BACKEND", default_value = "auto")]
    pub backend: Backend,
    /// Make one noise block in so many of all rows again, on another instruction set, and stop releasing at the first
    /// other bit; 0 for none
    #[arg(long, env = "RUSTLE_WORKER_RECHECK_ONE_IN", default_value_t = 1024, value_name = "N")]
    pub recheck_one_in: u64,
    /// Bytes of past normals that one shard may keep so as not to draw them again (mechanisms banded in C⁻¹)
    #[arg(long, env = "RUSTLE_WORKER_HISTORY_BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    pub history_bytes: u64,
    /// Bytes for copies of state that are written as checkpoints, of all shards together; a larger state is written
    /// while its rows wait
    #[arg(long, env = "RUSTLE_WORKER_SNAPSHOT_BYTES", default_value = "4GiB", value_parser = parse_bytes)]
    pub snapshot_bytes: u64,
    /// Reach an s3:// checkpoint store without TLS: for tests on one host
    #[arg(long, env = "RUSTLE_S3_PLAIN_HTTP", hide_short_help = true)]
    pub s3_plain_http: bool,
    /// Maximum number of rows generated ahead of demand
    #[arg(long, env = "RUSTLE_WORKER_AHEAD_ROWS", default_value_t = 8)]
    pub ahead_rows: u64,
    /// Maximum bytes of rows generated ahead, of all shards together (at least one row per shard)
    #[arg(long, env = "RUSTLE_WORKER_AHEAD_BYTES", default_value = "1GiB", value_parser = parse_bytes)]
    pub ahead_bytes: u64,
    /// Time after which an answer ends whose reader takes nothing of it; what is missing may be fetched again
    #[arg(long, env = "RUSTLE_WORKER_READER_TIMEOUT", default_value = "2m", value_parser = parse_limit)]
    pub reader_timeout: Duration,
    /// Time for others to take this worker's shards over when it shuts down
    #[arg(long, env = "RUSTLE_WORKER_DRAIN_DEADLINE", default_value = "15s", value_parser = parse_time)]
    pub drain_deadline: Duration,
    /// key=value, which a job's placement may ask for; may be given several times
    #[arg(long = "label", env = "RUSTLE_WORKER_LABELS", value_delimiter = ',', value_parser = parse_label, value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Bytes for the state and four rows of each shard, of all shards together: a shard larger than what is left is
    /// not placed here; 0 for three quarters of the memory that this process may use, less --ahead-bytes
    #[arg(long, env = "RUSTLE_WORKER_MEMORY_BYTES", default_value = "0", value_parser = parse_bytes)]
    pub memory_bytes: u64,
    /// File to write the chosen addresses to, once listening
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// File of a token with the role `worker`, mode 0400, where the coordinator asks for tokens and there is no TLS
    #[arg(long, env = "RUSTLE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// TLS, limits and hardening
    #[command(flatten)]
    pub security: SecurityArgs,
}

fn parse_chunk(text: &str) -> Result<usize, String> {
    let bytes = parse_bytes(text)? as usize;
    if (MIN_CHUNK_BYTES..=MAX_CHUNK_BYTES).contains(&bytes) && bytes.is_multiple_of(4) {
        Ok(bytes)
    } else {
        Err(format!("allowed: {MIN_CHUNK_BYTES} to {MAX_CHUNK_BYTES}, a multiple of 4"))
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => node::config::units::parse_duration(text).map_err(|error| error.to_string()),
    }
}

fn parse_limit(text: &str) -> Result<Duration, String> {
    node::config::units::parse_duration(text).map_err(|error| error.to_string())
}

fn parse_label(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() && text.len() <= 128 => {
            Ok(text.to_owned())
        }
        _ => Err("allowed: key=value, up to 128 bytes".to_owned()),
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    node::config::units::parse_bytes(text).map_err(|error| error.to_string())
}

impl WorkerArgs {
    /// Returns the number of threads that generate noise.
    pub fn pool_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Returns the bytes that placement may use; `None` where neither a flag nor the system sets them.
    pub fn memory_bytes(&self) -> Option<u64> {
        match self.memory_bytes {
            0 => {
                let usable = node::process::memory::usable_bytes()?;
                Some((usable / 4 * 3).saturating_sub(self.ahead_bytes).max(usable / 4))
            }
            bytes => Some(bytes),
        }
    }

    /// Returns the folder of the release log; `None` where `none` is set. Fails where the flag is missing: the log is half of
    /// what keeps a row from being released twice, so that doing without must be explicit.
    pub fn record(&self) -> anyhow::Result<Option<&Path>> {
        match self.state_dir.as_deref() {
            Some(none) if none == "none" => {
                warn!(
                    "--state-dir is none: a ledger that is rolled back is not found by this worker once it has \
                     started anew"
                );
                Ok(None)
            }
            Some(folder) => Ok(Some(folder)),
            None => bail!(
                "--state-dir is missing; allowed: a folder of this worker's own, where it records which rows it has \
                 released, or `none`"
            ),
        }
    }

    /// Reads the keys. Fails where there is none or it can't be read; messages name sources, never bytes.
    pub async fn keyring(&self) -> anyhow::Result<Keyring> {
        let secret = match (&self.key_file, self.key_fd, &self.key_credential, &self.key_command) {
            (Some(path), ..) => Some(read_key_file(path)?),
            (_, Some(descriptor), ..) => Some(read_key_descriptor(descriptor)?),
            (_, _, Some(name), _) => Some(read_key_credential(name)?),
            (_, _, _, Some(command)) => Some(read_key_command(command, KEY_COMMAND_LIMIT).await?),
            _ => None,
        };
        if secret.is_none() && self.key_dir.is_none() {
            bail!(
                "no key given; allowed: --key-file, --key-fd, --key-credential, --key-command or --key-dir"
            );
        }
        let default = secret
            .map(|secret| JobKey::from_bytes(secret.expose_secret()))
            .transpose()
            .context("read the key")?;
        Ok(Keyring::new(default, self.key_dir.clone()))
    }

    /// Resolves TLS, limits and hardening. Fails where they contradict each other.
    pub fn security(&self) -> Result<SecuritySettings, SecurityError> {
        self.security.clone().resolve(&mut Layers::load(None)?)
    }

    /// Returns the worker's name, or one made of the process id where none is set.
    pub fn worker_id(&self) -> anyhow::Result<WorkerId> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => Ok(WorkerId::new(format!("worker-{}", std::process::id()))?),
        }
    }
}
