//! A cluster whose coordinators share a ledger in etcd.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use client::Client;
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{Commitment, JobId, ServiceError, pb};
use rustix::process::{Pid, Signal, kill_process};
use rustle::cluster::{ClusterOptions, Process};
use tempfile::TempDir;
use tests::{KEY, flags, program};

use crate::{DIMENSION, TIMEOUT};

/// Two coordinators or more over etcd, and two workers.
pub struct Cluster {
    pub coordinators: Vec<Option<Process>>,
    pub urls: Vec<String>,
    /// The processes live as long as the cluster.
    workers: Vec<Process>,
    pub runtime: Arc<Runtime>,
    options: ClusterOptions,
    _dir: TempDir,
}

impl Cluster {
    /// Starts one coordinator for each store, the first of which leads, and two workers.
    pub fn start(stores: &[String]) -> Self {
        let dir = TempDir::new().unwrap();
        let options = ClusterOptions::new(program(), dir.path().to_owned(), 2);
        let runtime = Arc::new(Runtime::new().unwrap());
        let mut cluster =
            Self { coordinators: vec![], urls: vec![], workers: vec![], runtime, options, _dir: dir };
        for store in stores {
            let started = cluster.start_coordinator(cluster.urls.len(), "127.0.0.1:0", store);
            cluster.urls.push(started.grpc().to_owned());
            cluster.coordinators.push(Some(started));
            cluster.wait_until("the first coordinator leads", |cluster| cluster.leads(0));
        }
        for index in 0..2 {
            let name = format!("worker-{index}");
            let mut of_worker = flags(&["worker", "--threads", "1", "--key-fd", "0", "--name", &name]);
            of_worker.extend(["--coordinator".to_owned(), cluster.urls.join(",")]);
            let state = cluster.options.dir.join(&name);
            of_worker.extend(["--state-dir".to_owned(), state.display().to_string()]);
            let worker = Process::start(&cluster.options, &name, of_worker, Some(&KEY)).unwrap();
            cluster.workers.push(worker);
        }
        cluster
    }

    pub fn start_coordinator(&self, index: usize, listen: &str, store: &str) -> Process {
        let name = format!("coordinator-{index}");
        let mut of_coordinator = flags(&["coordinator", "--listen", listen, "--store", store]);
        let data = self.options.dir.join(&name);
        of_coordinator.extend(["--data-dir".to_owned(), data.display().to_string()]);
        of_coordinator.extend(flags(&["--leader-lease-ttl", "3s", "--checkpoint-url", "none"]));
        of_coordinator.extend(flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms"]));
        Process::start(&self.options, &name, of_coordinator, None).unwrap()
    }

    pub fn status(&self, index: usize) -> serde_json::Value {
        let process = self.coordinators[index].as_ref().unwrap();
        serde_json::from_str(&tests::get(process.metrics(), "/status")).unwrap()
    }

    /// Returns whether `/status` of a coordinator that stands by lists this problem and no other.
    pub fn lists(&self, index: usize, problem: &str) -> bool {
        let status = self.status(index);
        let problems = status["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
        status["standing_by"] == true && problems.len() == 1 && problems[0]["kind"] == problem
    }

    pub fn leads(&self, index: usize) -> bool {
        self.status(index)["coordinator_epoch"].is_u64()
    }

    pub fn wait_until(&self, what: &str, mut happened: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !happened(self) {
            assert!(Instant::now() < deadline, "after {TIMEOUT:?} not yet: {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn signal(&self, index: usize, signal: Signal) {
        let pid = self.coordinators[index].as_ref().unwrap().pid();
        kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
    }

    pub fn client(&self) -> Client {
        let _inside = self.runtime.enter();
        Client::connect(&self.urls.join(",")).unwrap()
    }

    pub fn create(&self, job: &JobId, plan: &Plan) {
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string().unwrap(),
            dimension: DIMENSION,
            shards: 2,
            key_commitment: JobKey::from_bytes(&KEY).unwrap().commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        self.runtime.block_on(self.client().jobs().create(request)).unwrap();
    }

    /// Binds a row at this coordinator and no other, as a client does that does not follow the leader. Returns the
    /// number of rows that the grant is for.
    pub fn bind_at(&self, index: usize, job: &JobId, row: u64, text: &str) -> Result<usize, ServiceError> {
        let request = pb::BindRequest {
            job: job.to_string(),
            branch: 0,
            rows: Some(pb::RowRange { start: row, end: row + 1 }),
            commitments: vec![Commitment::of_text(text).to_bytes().to_vec()],
            range: None,
        };
        let url = self.urls[index].clone();
        self.runtime.block_on(async {
            let unreachable =
                |error: tonic::transport::Error| ServiceError::Unavailable { what: error.to_string() };
            let mut noise = pb::noise_client::NoiseClient::connect(url).await.map_err(unreachable)?;
            let answer = noise.bind(request).await.map_err(client::from_status)?;
            let grant = proto::ReleaseGrant::try_from(answer.into_inner().grant.as_slice())?;
            Ok(grant.rows.len() as usize)
        })
    }
}
