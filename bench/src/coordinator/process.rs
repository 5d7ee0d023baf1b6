//! A real coordinator, alone on one core where this machine has others.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustle::cluster::{ClusterOptions, Process};

use crate::http;
use crate::program::program;
use crate::serve::usage;

const TIMEOUT: Duration = Duration::from_secs(30);

/// One core for a coordinator, the others for its callers.
pub struct Cores {
    pub own: usize,
    others: Vec<usize>,
}

impl Cores {
    /// The first core that this process may use is left to the coordinators that it starts.
    pub fn split() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("which cores may be used")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let own = cores.next().context("no core may be used")?;
        let cores = Self { own, others: cores.collect() };
        cores.leave()?;
        Ok(cores)
    }

    /// Whether this process has cores of its own to ask from.
    pub fn are_apart(&self) -> bool {
        !self.others.is_empty()
    }

    fn leave(&self) -> anyhow::Result<()> {
        stay_on(if self.are_apart() { &self.others } else { std::slice::from_ref(&self.own) })
    }
}

pub struct Pinned {
    process: Process,
    ledger: PathBuf,
}

impl Pinned {
    /// `store`: as `rustle coordinator` takes it.
    pub fn start(cores: &Cores, folder: &Path, store: &str, heartbeat: Duration) -> anyhow::Result<Self> {
        let data = folder.join("coordinator");
        let milliseconds = heartbeat.as_millis().max(10);
        let flags = [
            ("--listen", "127.0.0.1:0".to_owned()),
            ("--data-dir", data.display().to_string()),
            ("--store", store.to_owned()),
            ("--heartbeat", format!("{milliseconds}ms")),
            ("--lease-ttl", format!("{}ms", 4 * milliseconds)),
            // Simulated workers have no state to write.
            ("--checkpoint-url", "none".to_owned()),
            // It measures the ledger, not the quotas.
            ("--max-job-rows", "1000000000000".to_owned()),
            ("--max-job-bytes", "1024TiB".to_owned()),
            ("--max-caller-bytes-per-day", "1024TiB".to_owned()),
        ];
        let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        let flags = std::iter::once("coordinator".to_owned()).chain(flags).collect();
        if !store.starts_with("etcd://") && !::coordinator::ledger_file(&data).exists() {
            ::coordinator::init_ledger(&data)?;
        }
        let options = ClusterOptions::new(program()?, folder.to_owned(), 0);
        // A child begins with the cores of the thread that starts it.
        stay_on(&[cores.own])?;
        let process = Process::start(&options, "coordinator", flags, None);
        cores.leave()?;
        let pinned = Self { process: process?, ledger: data.join("ledger.redb") };
        pinned.wait_until_it_leads()?;
        Ok(pinned)
    }

    /// At once, but with etcd.
    fn wait_until_it_leads(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status: serde_json::Value =
                serde_json::from_str(&http::get(self.process.metrics(), "/status")?)?;
            if status["coordinator_epoch"].is_u64() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the coordinator does not lead after {TIMEOUT:?}: {status}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn url(&self) -> &str {
        self.process.grpc()
    }

    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        usage::cpu_seconds(self.process.pid())
    }

    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        usage::memory(self.process.pid(), "VmRSS:")
    }

    pub fn peak_bytes(&self) -> anyhow::Result<u64> {
        usage::memory(self.process.pid(), "VmHWM:")
    }

    /// Of the file, where it has one.
    pub fn ledger_bytes(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(&self.ledger).with_context(|| self.ledger.display().to_string())?.len())
    }
}

fn stay_on(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    ensure!(set.count() > 0, "no core to stay on");
    sched_setaffinity(None, &set).with_context(|| format!("stay on cores {cores:?}"))
}
