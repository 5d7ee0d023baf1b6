//! A cluster on this machine: one coordinator process and worker processes, children of this one.
//!
//! Used by `up`, `demo` and the end-to-end tests alike.

mod new_ledger;
mod options;
mod process;
mod watch;

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use node::auth::Role;
use node::net::dial::DialOptions;
use node::process::secret::SecretBytes;
use node::tls::{Credentials, TlsFiles};

use crate::certs::Authority;
use crate::commands::certs::folder;

pub use new_ledger::begin_ledger;
pub use options::ClusterOptions;
pub use process::Process;
pub use watch::{EndedProcess, Member};

/// Maximum time for a worker to hand over its shards and then end its streams.
const WORKER_STOP: Duration = Duration::from_secs(30);
const TRUST_DOMAIN: &str = "local";
/// Certificates of a local cluster may be short-lived, because every start issues new ones.
const CERTIFICATE_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// The processes of a local cluster, all killed on drop.
pub struct LocalCluster {
    options: ClusterOptions,
    key: SecretBytes,
    coordinator: Option<Process>,
    /// The address the coordinator listens on, once it has chosen a port.
    coordinator_address: String,
    url: String,
    workers: Vec<Option<Process>>,
    authority: Option<Authority>,
}

impl fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalCluster({}, {} workers, [secret key])", self.url, self.workers.len())
    }
}

impl LocalCluster {
    /// Starts the processes and waits until they listen. Call from the program's first thread: the children end with
    /// the thread that started them.
    pub fn start(options: ClusterOptions, mut key: [u8; 32]) -> anyhow::Result<Self> {
        let key = SecretBytes::take(&mut key);
        std::fs::create_dir_all(&options.dir).with_context(|| format!("create {}", options.dir.display()))?;
        begin_ledger(&options)?;
        let workers = options.workers;
        let coordinator_address = if options.unix {
            format!("unix:{}", socket(&options.dir, "coordinator")?)
        } else {
            options.listen.clone()
        };
        let authority = if options.tls { Some(authority(&options.dir.join("tls"))?) } else { None };
        let url = String::new();
        let workers_running = Vec::new();
        let mut cluster = Self {
            options,
            key,
            coordinator: None,
            coordinator_address,
            url,
            workers: workers_running,
            authority,
        };
        cluster.start_coordinator()?;
        for _ in 0..workers {
            cluster.add_worker()?;
        }
        Ok(cluster)
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// Issues a certificate of this cluster and returns its folder. Error: the cluster runs without TLS.
    pub fn certificate(&self, role: &Role) -> anyhow::Result<PathBuf> {
        let authority = self.authority.as_ref().context("this cluster has no TLS")?;
        let dir = self.options.dir.join("tls").join(folder(role));
        authority.issue(&dir, role, CERTIFICATE_LIFE)?;
        Ok(dir)
    }

    /// Returns the options for calling this cluster in a role: with a certificate, or without TLS.
    pub fn dialing(&self, role: &Role) -> anyhow::Result<DialOptions> {
        let credentials = if self.options.tls {
            Some(Credentials::load(TlsFiles::in_dir(&self.certificate(role)?))?)
        } else {
            None
        };
        Ok(DialOptions { credentials, ..DialOptions::default() })
    }

    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    fn tls_flags(&self, role: &Role) -> anyhow::Result<Vec<String>> {
        Ok(if self.options.tls {
            vec!["--tls-dir".into(), self.certificate(role)?.display().to_string()]
        } else {
            vec![]
        })
    }

    pub fn coordinator(&self) -> Option<&Process> {
        self.coordinator.as_ref()
    }

    pub fn worker(&self, index: usize) -> Option<&Process> {
        self.workers.get(index)?.as_ref()
    }

    /// Starts the coordinator, on the address of the previous one if there was one.
    pub fn start_coordinator(&mut self) -> anyhow::Result<()> {
        let mut flags = vec!["coordinator".to_owned(), "--listen".into(), self.coordinator_address.clone()];
        flags.extend(["--data-dir".into(), self.options.dir.join("coordinator").display().to_string()]);
        flags.extend(self.tls_flags(&Role::Coordinator)?);
        flags.extend(self.options.coordinator_flags.clone());
        let process = Process::start(&self.options, "coordinator", flags, None)?;
        self.url = process.grpc().to_owned();
        let address = self.url.trim_start_matches("http://").trim_start_matches("https://");
        self.coordinator_address = address.to_owned();
        self.coordinator = Some(process);
        Ok(())
    }

    /// Starts another worker and returns its index.
    pub fn add_worker(&mut self) -> anyhow::Result<usize> {
        self.workers.push(None);
        let index = self.workers.len() - 1;
        self.start_worker(index)?;
        Ok(index)
    }

    /// Starts the worker again under its name.
    pub fn start_worker(&mut self, index: usize) -> anyhow::Result<()> {
        let name = format!("worker-{index}");
        let mut flags =
            vec!["worker".to_owned(), "--coordinator".into(), self.url(), "--name".into(), name.clone()];
        flags.extend(["--threads".into(), self.options.threads_per_worker.to_string()]);
        flags.extend(["--key-fd".into(), "0".into()]);
        let state_dir = self.options.dir.join("workers").join(&name);
        flags.extend(["--state-dir".into(), state_dir.display().to_string()]);
        if self.options.unix {
            flags.extend(["--listen".into(), format!("unix:{}", socket(&self.options.dir, &name)?)]);
        }
        if self.options.shared_memory {
            flags.extend(["--shm-socket".into(), socket(&self.options.dir, &format!("{name}.shm"))?]);
        }
        flags.extend(self.tls_flags(&Role::Worker(name.clone()))?);
        flags.extend(self.options.worker_flags.clone());
        let process = Process::start(&self.options, &name, flags, Some(self.key.expose_secret()))?;
        self.workers[index] = Some(process);
        Ok(())
    }

    /// Kills the worker with SIGKILL: it neither hands shards over nor writes anything.
    pub fn kill_worker(&mut self, index: usize) -> anyhow::Result<()> {
        let process = self.workers.get_mut(index).and_then(Option::take);
        process.with_context(|| format!("worker {index} is not running"))?.kill()
    }

    /// Kills the coordinator with SIGKILL.
    pub fn kill_coordinator(&mut self) -> anyhow::Result<()> {
        self.coordinator.take().context("the coordinator is not running")?.kill()
    }

    /// Sends SIGTERM, then waits for the worker to drain.
    pub fn stop_worker(&mut self, index: usize) -> anyhow::Result<()> {
        let process = self.workers.get_mut(index).and_then(Option::take);
        process.with_context(|| format!("worker {index} is not running"))?.stop(WORKER_STOP)
    }

    /// Stops the workers, then the coordinator.
    pub fn stop(mut self) -> anyhow::Result<()> {
        for worker in self.workers.drain(..).flatten() {
            worker.stop(WORKER_STOP)?;
        }
        match self.coordinator.take() {
            Some(coordinator) => coordinator.stop(Duration::from_secs(20)),
            None => Ok(()),
        }
    }
}

/// Opens the authority that an earlier run left in the folder, or creates one.
fn authority(dir: &Path) -> anyhow::Result<Authority> {
    if dir.join("ca.key").exists() {
        Authority::open(dir, TRUST_DOMAIN)
    } else {
        Authority::create(dir, TRUST_DOMAIN)
    }
}

/// Returns the path of a socket of this cluster. The process that binds it creates the folder, for its user alone.
fn socket(dir: &Path, name: &str) -> anyhow::Result<String> {
    let path = std::path::absolute(dir)?.join("sockets").join(format!("{name}.sock"));
    Ok(path.display().to_string())
}
