//! The settings of a local cluster.

use std::path::PathBuf;

/// The settings with which a local cluster starts.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The `rustle` binary.
    pub program: PathBuf,
    /// Ledger, checkpoints and logs of the cluster.
    pub dir: PathBuf,
    /// Address the coordinator listens on; port 0 lets the system choose.
    pub listen: String,
    pub workers: usize,
    pub threads_per_worker: usize,
    /// Further flags for the coordinator and for every worker.
    pub coordinator_flags: Vec<String>,
    pub worker_flags: Vec<String>,
    /// Uses Unix sockets in a folder of `dir` instead of TCP, for coordinator and workers.
    pub unix: bool,
    /// Lets workers accept regions of shared memory.
    pub shared_memory: bool,
    /// Uses TLS with certificates from the cluster's own authority, in the folder `tls` of `dir`.
    pub tls: bool,
    /// Environment variables of the processes, in addition to this process's own.
    pub environment: Vec<(String, String)>,
}

impl ClusterOptions {
    pub fn new(program: PathBuf, dir: PathBuf, workers: usize) -> Self {
        Self {
            program,
            dir,
            listen: "127.0.0.1:0".into(),
            workers,
            threads_per_worker: 1,
            coordinator_flags: vec![],
            worker_flags: vec![],
            unix: false,
            shared_memory: false,
            tls: false,
            environment: vec![],
        }
    }
}
