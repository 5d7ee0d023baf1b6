//! The processes, and a supervisor as any real one: what has ended is started again.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use ledger::Ledger;
use node::process::rng;
use rustix::process::{Pid, Signal, kill_process};
use rustle::cluster::{ClusterOptions, LocalCluster, Process};

use crate::{KEY, environment::Environment, points::Role};

pub const HEARTBEAT: Duration = Duration::from_millis(100);
pub const LEASE_TTL: Duration = Duration::from_millis(1_500);

pub struct Cluster {
    pub processes: LocalCluster,
    pub workers: usize,
    /// With which the processes were started.
    pub options: ClusterOptions,
    /// The program that they run.
    pub program: PathBuf,
}

impl Cluster {
    /// Starts a cluster. Call it from the program's first thread: processes end with the thread that started them.
    pub fn start(
        program: &Path,
        dir: &Path,
        environment: &Environment,
        workers: usize,
    ) -> anyhow::Result<Self> {
        let mut options = ClusterOptions::new(environment.launcher(program)?, dir.to_owned(), workers);
        options.listen = environment.listen();
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        options.coordinator_flags = ["--heartbeat", &millis(HEARTBEAT), "--lease-ttl", &millis(LEASE_TTL)]
            .into_iter()
            .chain(["--checkpoint-interval", "2s"])
            .map(str::to_owned)
            .collect();
        if environment.disks.is_none() {
            let url = format!("file://{}", environment.store().display());
            options.coordinator_flags.extend(["--checkpoint-url".to_owned(), url]);
        }
        let ledger = environment.data_dir().join("ledger.redb");
        // A disk's own folder (lost+found) among those of the workers looks like the trace of an earlier ledger.
        if environment.disks.is_some() && !ledger.try_exists()? {
            Ledger::init(&ledger, rng::nonce()?)?;
        }
        let processes = LocalCluster::start(options.clone(), KEY)?;
        Ok(Self { processes, workers, options, program: program.to_owned() })
    }

    pub fn signal(&self, worker: usize, signal: Signal) -> anyhow::Result<()> {
        let process = self.processes.worker(worker).context("the worker runs")?;
        let pid = Pid::from_raw(process.pid() as i32).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    pub fn runs(&self, role: Role, worker: usize) -> bool {
        let process = match role {
            Role::Coordinator => self.processes.coordinator(),
            Role::Worker => self.processes.worker(worker),
        };
        process.is_some_and(Process::is_alive)
    }

    /// Starts the coordinator, then the workers, where they have ended.
    pub fn mend(&mut self) -> anyhow::Result<()> {
        if !self.processes.coordinator().is_some_and(Process::is_alive) {
            self.kill_coordinator();
            self.processes.start_coordinator()?;
        }
        for worker in 0..self.workers {
            if !self.processes.worker(worker).is_some_and(Process::is_alive) {
                self.kill_worker(worker);
                self.processes.start_worker(worker)?;
            }
        }
        Ok(())
    }

    /// Also one that has ended by itself, or was killed before.
    pub fn kill_worker(&mut self, worker: usize) {
        let _ = self.processes.kill_worker(worker);
    }

    pub fn kill_coordinator(&mut self) {
        let _ = self.processes.kill_coordinator();
    }

    pub fn kill_all(&mut self) {
        self.kill_coordinator();
        (0..self.workers).for_each(|worker| self.kill_worker(worker));
    }
}
