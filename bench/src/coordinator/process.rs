//! A real coordinator, alone on one core where this machine has others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustle::cluster::{ClusterOptions, Process};

use crate::serve::usage;

pub struct Pinned {
    process: Process,
    ledger: PathBuf,
    pub core: usize,
    /// Whether this process has cores of its own to ask from.
    pub is_alone: bool,
}

impl Pinned {
    /// Starts it on the first core that this process may use, and leaves that core to it.
    pub fn start(folder: &Path, heartbeat: Duration) -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("which cores may be used")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        let core = cores.next().context("no core may be used")?;
        let others: Vec<usize> = cores.collect();
        let is_alone = !others.is_empty();
        let data = folder.join("coordinator");
        let milliseconds = heartbeat.as_millis().max(10);
        let flags = [
            ("--listen", "127.0.0.1:0".to_owned()),
            ("--data-dir", data.display().to_string()),
            ("--heartbeat", format!("{milliseconds}ms")),
            ("--lease-ttl", format!("{}ms", 4 * milliseconds)),
            // Simulated workers have no state to write.
            ("--checkpoint-url", "none".to_owned()),
        ];
        let flags = flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
        let flags = std::iter::once("coordinator".to_owned()).chain(flags).collect();
        let options = ClusterOptions::new(crate::serve::program()?, folder.to_owned(), 0);
        // A child begins with the cores of the thread that starts it.
        stay_on(&[core])?;
        let process = Process::start(&options, "coordinator", flags, None);
        stay_on(if is_alone { &others } else { std::slice::from_ref(&core) })?;
        Ok(Self { process: process?, ledger: data.join("ledger.redb"), core, is_alone })
    }

    pub fn url(&self) -> &str {
        self.process.grpc()
    }

    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        usage::cpu_seconds(self.process.pid())
    }

    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.status("VmRSS:")
    }

    pub fn peak_bytes(&self) -> anyhow::Result<u64> {
        self.status("VmHWM:")
    }

    pub fn ledger_bytes(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(&self.ledger).with_context(|| self.ledger.display().to_string())?.len())
    }

    fn status(&self, field: &str) -> anyhow::Result<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.pid()))
            .context("the coordinator's memory: has it ended?")?;
        kibibytes(&text, field).with_context(|| format!("no {field} in {text}"))
    }
}

fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(number << 10)
}

fn stay_on(cores: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    ensure!(set.count() > 0, "no core to stay on");
    sched_setaffinity(None, &set).with_context(|| format!("stay on cores {cores:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t   20 kB\nVmRSS:\t    7 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(7 << 10));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }
}
