//! A real etcd (Debian's `etcd-server`) of one member, on the cores of the process that starts it.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use serde::Serialize;

use crate::http;
use crate::serve::usage;

/// What an etcd of its own used, while calls counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EtcdUsage {
    /// Of one core.
    pub cpu_share: f64,
    pub resident_bytes: u64,
    /// Of its log, and what one took on average.
    pub syncs_per_second: f64,
    pub seconds_a_sync: f64,
}

const START: Duration = Duration::from_secs(30);
const SYNCS: &str = "etcd_disk_wal_fsync_duration_seconds";

/// Killed when dropped.
pub struct Etcd {
    process: Child,
    address: String,
    data: PathBuf,
}

/// Its counters at one moment.
pub struct Counted {
    at: Instant,
    cpu_seconds: f64,
    syncs: f64,
    sync_seconds: f64,
}

impl Etcd {
    /// Comes back when it answers.
    pub fn start(folder: &Path) -> anyhow::Result<Self> {
        let client = free_address()?;
        let peer = free_address()?;
        let data = folder.join("etcd");
        let log = folder.join("etcd.log");
        let [client_url, peer_url] = [&client, &peer].map(|address| format!("http://{address}"));
        // Ends with this process, however that ends.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "etcd", "--name", "bench", "--data-dir"])
            .arg(&data)
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("bench={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| log.display().to_string())?)
            .spawn()
            .context("start etcd by setpriv: is etcd-server installed?")?;
        let mut etcd = Self { process, address: client, data };
        etcd.wait_healthy(&log)?;
        Ok(etcd)
    }

    pub fn url(&self) -> String {
        format!("etcd://{}/bench", self.address)
    }

    pub fn counted(&self) -> anyhow::Result<Counted> {
        let metrics = http::get(&self.address, "/metrics")?;
        let number = |name: String| {
            let line = metrics.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix(' '));
            line.and_then(|number| number.trim().parse().ok()).with_context(|| format!("etcd has no {name}"))
        };
        Ok(Counted {
            at: Instant::now(),
            cpu_seconds: usage::cpu_seconds(self.process.id())?,
            syncs: number(format!("{SYNCS}_count"))?,
            sync_seconds: number(format!("{SYNCS}_sum"))?,
        })
    }

    pub fn since(&self, before: &Counted) -> anyhow::Result<EtcdUsage> {
        let now = self.counted()?;
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let syncs = now.syncs - before.syncs;
        Ok(EtcdUsage {
            cpu_share: (now.cpu_seconds - before.cpu_seconds) / seconds,
            resident_bytes: usage::memory(self.process.id(), "VmRSS:")?,
            syncs_per_second: syncs / seconds,
            seconds_a_sync: (now.sync_seconds - before.sync_seconds) / syncs.max(1.0),
        })
    }

    /// On disk, its log included.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        folder_bytes(&self.data)
    }

    fn wait_healthy(&mut self, log: &Path) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        loop {
            if http::get(&self.address, "/health").is_ok_and(|answer| answer.contains("\"health\":\"true\""))
            {
                return Ok(());
            }
            let said = || fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.process.try_wait()? {
                bail!("etcd ended with {status}:\n{}", said());
            }
            ensure!(Instant::now() < deadline, "etcd is not healthy after {START:?}:\n{}", said());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0").context("a free port")?.local_addr()?.to_string())
}

fn folder_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
