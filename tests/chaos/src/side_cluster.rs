//! A cluster beside the one under test, in a folder of its own, on what was copied from it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::ensure;
use client::{Client, Connections};
use durable_io::create_private_folder;
use node::net::dial::DialOptions;
use rustix::process::{Pid, Signal, kill_process};
use rustle::cluster::{ClusterOptions, LocalCluster, Process};

use crate::{KEY, Session, cases::Cases, cluster::Cluster, history::History};

/// Workers of the cluster beside.
const WORKERS: usize = 2;

/// The folder of a cluster beside the one under test. Removed on drop.
pub struct SideFolder {
    pub options: ClusterOptions,
}

impl SideFolder {
    pub fn new(cluster: &Cluster) -> anyhow::Result<Self> {
        let dir = cluster.options.dir.join("copy");
        let options = ClusterOptions { dir, workers: WORKERS, ..cluster.options.clone() };
        create_private_folder(&options.dir)?;
        create_private_folder(&options.dir.join("coordinator"))?;
        Ok(Self { options })
    }

    pub fn data_dir(&self) -> PathBuf {
        self.options.dir.join("coordinator")
    }

    /// Copies the folders in which workers keep their records.
    pub fn copy_records(&self, cluster: &Cluster) -> anyhow::Result<()> {
        copy_folder(&cluster.options.dir.join("workers"), &self.options.dir.join("workers"))
    }

    /// Starts a coordinator alone, on this address.
    pub fn coordinator(&self, listen: &str) -> anyhow::Result<Process> {
        let data = self.data_dir().display().to_string();
        let flags = ["coordinator", "--listen", listen, "--data-dir", &data].map(str::to_owned).into_iter();
        let flags = flags.chain(self.options.coordinator_flags.clone()).collect();
        Process::start(&self.options, "coordinator", flags, None)
    }

    /// Starts a whole cluster. Ends with what is returned.
    pub fn cluster(&self) -> anyhow::Result<LocalCluster> {
        LocalCluster::start(self.options.clone(), KEY)
    }
}

impl Drop for SideFolder {
    fn drop(&mut self) {
        // What is left goes with the folder of the run.
        let _ = fs::remove_dir_all(&self.options.dir);
    }
}

/// Returns a client's session with a coordinator, with a history of its own. Call it within a runtime.
pub fn session_with(url: &str) -> anyhow::Result<Session> {
    // Namespaces have addresses of their own, and these are not loopback.
    let dialing = DialOptions { insecure: true, ..DialOptions::default() };
    let client = Client::with_connections(url, Connections::dialing(dialing))?;
    Ok(Session { client, cases: Cases::default(), history: History::default(), is_over: false.into() })
}

/// Returns whether a command of the program succeeds.
pub fn succeeds(program: &Path, words: &[&str], folder: &Path) -> anyhow::Result<bool> {
    let mut command = Command::new(program);
    command.args(words).arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.success())
}

/// Stops or continues a process.
pub fn signal(process: &Process, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(process.pid() as i32);
    ensure!(pid.is_some(), "no process has the id 0");
    Ok(pid.map_or(Ok(()), |pid| kill_process(pid, signal))?)
}

/// Copies the files and folders in `from`, as `cp -r` does: into new files.
pub fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    create_private_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
