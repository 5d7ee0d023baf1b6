//! Simulated workers: each registers, takes whatever leases it is given, says at once that they are ready, and keeps
//! saying so.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::CoordinatorChannel;
use futures::{StreamExt, TryStreamExt, stream};
use noise_kernel::JobKey;
use proto::pb::{self, workers_client::WorkersClient};
use proto::{Incarnation, JobId, Nonce, PossessionChallenge, WorkerId};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};
use tonic::Status;

use super::Setting;
use super::latency::{Times, phase};

const REGISTERING_AT_ONCE: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(300);

pub struct Fleet {
    tasks: JoinSet<Times>,
    leases: Arc<AtomicU64>,
}

struct Worker {
    setting: Setting,
    client: WorkersClient<CoordinatorChannel>,
    name: String,
    incarnation: Vec<u8>,
    held: Vec<pb::LeaseStatus>,
    challenge: [u8; 32],
    /// Of the jobs that it holds shards of.
    proofs: HashMap<String, pb::KeyProof>,
    /// Leases that all workers have said are ready.
    leases: Arc<AtomicU64>,
}

impl Fleet {
    /// Comes back when all have registered.
    pub async fn start(setting: &Setting, workers: usize, heartbeat: Duration) -> anyhow::Result<Self> {
        let leases = Arc::new(AtomicU64::new(0));
        let registering = (0..workers).map(|index| Worker::register(setting, index, leases.clone()));
        let workers: Vec<Worker> =
            stream::iter(registering).buffered(REGISTERING_AT_ONCE).try_collect().await?;
        let mut tasks = JoinSet::new();
        for (index, worker) in workers.into_iter().enumerate() {
            tasks.spawn(worker.live(phase(index, heartbeat), heartbeat));
        }
        Ok(Self { tasks, leases })
    }

    pub async fn wait_until_ready(&self, shards: u64) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let ready = self.leases.load(Ordering::Relaxed);
            if ready >= shards {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "after {TIMEOUT:?} {ready} of {shards} shards are held");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub async fn stop(mut self) -> anyhow::Result<Times> {
        let mut all = Times::default();
        while let Some(times) = self.tasks.join_next().await {
            all.add(times.context("a simulated worker")?);
        }
        Ok(all)
    }
}

impl Worker {
    async fn register(setting: &Setting, index: usize, leases: Arc<AtomicU64>) -> anyhow::Result<Self> {
        let client = setting.connection(index).workers(&setting.coordinator)?;
        let name = format!("worker-{index}");
        let mut incarnation = vec![7; 16];
        incarnation[..8].copy_from_slice(&(index as u64).to_le_bytes());
        let mut worker = Self {
            setting: setting.clone(),
            client,
            name,
            incarnation,
            held: Vec::new(),
            challenge: [0; 32],
            proofs: HashMap::new(),
            leases,
        };
        worker.join(index).await.with_context(|| format!("register worker {index}"))?;
        Ok(worker)
    }

    async fn join(&mut self, index: usize) -> Result<(), Status> {
        let request = pb::RegisterRequest {
            worker: self.name.clone(),
            // No process calls a simulated worker: the discard port.
            endpoint: format!("http://127.0.0.1:9/{index}"),
            protocol_version: proto::PROTOCOL_VERSION,
            stream_version: plan::STREAM_VERSION,
            incarnation: self.incarnation.clone(),
            ..pb::RegisterRequest::default()
        };
        let terms = self.client.register(request).await?.into_inner();
        self.challenge =
            terms.challenge.try_into().map_err(|_| Status::internal("no challenge of 32 bytes"))?;
        Ok(())
    }

    async fn live(mut self, first: Duration, heartbeat: Duration) -> Times {
        let mut times = Times::default();
        let mut ticks = interval_at(tokio::time::Instant::now() + first, heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            let due = tokio::select! {
                biased;
                () = self.setting.stop.cancelled() => return times,
                due = ticks.tick() => due.into_std(),
            };
            let called = Instant::now();
            let counts = self.setting.counts();
            let request = pb::HeartbeatRequest {
                worker: self.name.clone(),
                incarnation: self.incarnation.clone(),
                leases: self.held.clone(),
                proofs: self.proofs.values().cloned().collect(),
                ..pb::HeartbeatRequest::default()
            };
            match self.client.heartbeat(request).await {
                Ok(answer) => {
                    if counts {
                        times.answered(due, called);
                    }
                    self.take(answer.into_inner().grants);
                }
                Err(status) => times.refused(status),
            }
        }
    }

    /// Proves once for each job, as a worker does after it has registered.
    fn prove(&mut self, grant: &pb::LeaseGrant) {
        if self.proofs.contains_key(&grant.job) {
            return;
        }
        let names = (WorkerId::new(&*self.name), JobId::new(&*grant.job));
        let nonce = Nonce::from_slice("job_nonce", &grant.job_nonce);
        let incarnation = Incarnation::try_from(self.incarnation.as_slice());
        if let ((Ok(worker), Ok(job)), Ok(nonce), Ok(incarnation)) = (names, nonce, incarnation) {
            let asked = PossessionChallenge {
                challenge: &self.challenge,
                worker: &worker,
                incarnation: &incarnation,
                job: &job,
                job_nonce: &nonce,
            };
            let signature = key_of(&grant.job).prove_possession(asked.signed_text().as_bytes()).to_vec();
            self.proofs.insert(grant.job.clone(), pb::KeyProof { job: grant.job.clone(), signature });
        }
    }

    fn take(&mut self, grants: Vec<pb::LeaseGrant>) {
        let before = self.held.len() as u64;
        grants.iter().for_each(|grant| self.prove(grant));
        self.held = grants.into_iter().map(ready).collect();
        self.leases.fetch_add(self.held.len() as u64, Ordering::Relaxed);
        self.leases.fetch_sub(before, Ordering::Relaxed);
    }
}

/// Returns the key of a simulated job.
pub fn key_of(job: &str) -> JobKey {
    let mut bytes = [0x5a; 32];
    bytes.iter_mut().zip(job.bytes()).for_each(|(byte, of_name)| *byte ^= of_name);
    JobKey::from_bytes(&bytes).expect("32 bytes")
}

/// As a worker reports a shard that it serves.
fn ready(grant: pb::LeaseGrant) -> pb::LeaseStatus {
    pb::LeaseStatus {
        job: grant.job,
        shard: grant.shard,
        epoch: grant.epoch,
        state: pb::LeaseState::Ready.into(),
        next_row: grant.next_row + 8,
        state_bytes: 1 << 30,
        ahead_bytes: 1 << 28,
        key_commitment: grant.key_commitment,
        released: grant.next_row,
        ..pb::LeaseStatus::default()
    }
}
