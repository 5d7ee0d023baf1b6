//! Tests of the services without a network: a coordinator on a folder, and workers that exist in name only.

use std::time::Duration;

use client::Connections;
use ed25519_dalek::{Signer, SigningKey};
use ledger::{Ledger, ShardRecord};
use proto::model::{Bind, CreateJob, LeaseGrant, Register, WorkerPlace, WorkerRecord};
use proto::{
    Commitment, CoordinateRange, GrantedBranch, Incarnation, JobId, KeyProof, Nonce, PROTOCOL_VERSION,
    PossessionChallenge, ReleasedRows, Result, RowRange, ServiceError, WorkerId,
};
use tempfile::TempDir;
use tokio::time::advance;
use tokio_util::sync::CancellationToken;

use crate::Settings;
use crate::blocking::FatalStop;
use crate::cluster::{LeaseReport, ReportedState};
use crate::coordinator::Coordinator;
use crate::quotas::Requester;
use crate::service::{Heartbeat, HeartbeatReply};

mod approvals;
mod audit_log;
mod budgets;
mod caller_disconnects;
mod checkpoints;
mod ending;
mod handover;
mod health;
mod jobs;
mod leases;
mod long_waits;
mod old_copies;
mod placing;
mod possession;
mod privacy_meter;
mod processes;
mod quotas;
mod release;
mod tenants;
mod watermarks;

const PLAN: &str = r#"
format = 1
stream_version = 3
iterations = 8
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
min_sep = 4
max_participations = 2
[mechanism]
name = "identity"
"#;

/// The commitment to a key, and what signs under it.
const KEY: [u8; 32] = [
    234, 74, 108, 99, 226, 156, 82, 10, 190, 245, 80, 123, 19, 46, 197, 249, 149, 71, 118, 174, 190, 190,
    123, 146, 66, 30, 234, 105, 20, 70, 210, 44,
];
const KEY_SEED: [u8; 32] = [7; 32];
const LEDGER: Nonce = Nonce::from_bytes([1; 32]);
const TTL: Duration = Duration::from_secs(2);

fn open(folder: &TempDir) -> Coordinator {
    let settings = Settings { checkpoint_url: None, ..Settings::in_folder(folder.path()).unwrap() };
    let stop = FatalStop::new(CancellationToken::new());
    Coordinator::open(ledger_in(folder), settings, Connections::new(), stop).unwrap()
}

/// The folder's ledger, begun where there is none.
fn ledger_in(folder: &TempDir) -> Ledger {
    let path = folder.path().join("ledger.redb");
    if !path.exists() {
        Ledger::init(&path, LEDGER).unwrap();
    }
    Ledger::open(&path).unwrap()
}

fn job() -> JobId {
    JobId::new("job").unwrap()
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn create(dimension: u64, shards: u32) -> CreateJob {
    CreateJob {
        job: job(),
        plan_toml: PLAN.to_owned(),
        dimension: (dimension > 0).then_some(dimension),
        shards: (shards > 0).then_some(shards),
        key_commitment: KEY,
        plan_digest: None,
        account: None,
    }
}

fn registration(name: &str, process: u8) -> Register {
    Register {
        worker: worker(name),
        endpoint: format!("http://{name}:1"),
        local: None,
        protocol_version: PROTOCOL_VERSION,
        stream_version: plan::STREAM_VERSION,
        incarnation: Incarnation([process; 16]),
        record: WorkerRecord { ledger: Some(LEDGER), ..WorkerRecord::default() },
        draining: false,
        place: WorkerPlace::default(),
    }
}

fn report(grant: &LeaseGrant, state: ReportedState) -> LeaseReport {
    LeaseReport {
        job: grant.job.clone(),
        shard: grant.shard,
        epoch: grant.epoch,
        state,
        next_row: 0,
        state_bytes: 0,
        ahead_bytes: 0,
        released: 0,
        key_commitment: KEY.to_vec(),
        message: String::new(),
        row_time: Duration::ZERO,
        stalled: Duration::ZERO,
    }
}

impl Coordinator {
    /// Binds without a caller that quotas would count.
    async fn bind_now(&self, bind: Bind) -> Result<ReleasedRows> {
        self.bind(bind, &Requester::default(), tokio::time::Instant::now()).await
    }

    /// Sends a heartbeat with these reports, and returns the leases granted.
    fn send_reports(&self, name: &str, process: u8, reports: &[LeaseReport]) -> Vec<LeaseGrant> {
        self.send_heartbeat(name, process, reports, &[]).leases
    }

    /// Sends a heartbeat, and returns the reply.
    fn send_heartbeat(
        &self,
        name: &str,
        process: u8,
        leases: &[LeaseReport],
        standbys: &[LeaseReport],
    ) -> HeartbeatReply {
        let heartbeat = Heartbeat {
            leases: leases.to_vec(),
            standbys: standbys.to_vec(),
            proofs: self.proofs(name, process),
            ..Heartbeat::default()
        };
        self.heartbeat(&worker(name), Incarnation([process; 16]), &heartbeat).unwrap()
    }

    /// Returns the proof that a process has the job's key, for its present challenge.
    fn proofs(&self, name: &str, process: u8) -> Vec<KeyProof> {
        let cluster = self.cluster();
        let worker = worker(name);
        let (Ok(view), Some(member)) = (cluster.job(&job()), cluster.members.member(&worker)) else {
            return Vec::new();
        };
        let asked = PossessionChallenge {
            challenge: &member.challenge,
            worker: &worker,
            incarnation: &Incarnation([process; 16]),
            job: &job(),
            job_nonce: &view.record.nonce,
        };
        let signature = SigningKey::from_bytes(&KEY_SEED).sign(asked.signed_text().as_bytes()).to_bytes();
        vec![KeyProof { job: job(), signature }]
    }

    /// Reports everything granted to the worker as ready.
    fn make_ready(&self, name: &str, process: u8) -> Vec<LeaseGrant> {
        let grants = self.send_reports(name, process, &[]);
        let reports: Vec<_> = grants.iter().map(|grant| report(grant, ReportedState::Ready)).collect();
        self.send_reports(name, process, &reports)
    }

    /// Returns where the routes lead. What is shown as served must be what routes lead to.
    fn endpoints(&self) -> Vec<Option<String>> {
        let routes = self.routing(&job()).unwrap().routes;
        let shown = self.job_message(&job()).unwrap();
        let unserved: std::collections::BTreeSet<_> =
            routes.iter().filter(|route| route.endpoint.is_none()).map(|route| route.range.start).collect();
        let is_served = |shard: &ShardRecord| {
            !unserved.iter().any(|start| (shard.range.start..shard.range.end).contains(start))
        };
        let served = self.shard_records().iter().filter(|shard| is_served(shard)).count();
        assert_eq!(shown.shards_ready as usize, served, "{routes:?}");
        routes.into_iter().map(|route| route.endpoint).collect()
    }

    fn shard_records(&self) -> Vec<ShardRecord> {
        self.ledger().shards(&job()).unwrap()
    }
}

fn bind(rows: std::ops::Range<u64>, commitment: &str) -> Bind {
    let rows = RowRange::new(rows.start, rows.end).unwrap();
    let commitments = vec![Commitment::of_text(commitment); rows.len() as usize];
    Bind { job: job(), branch: 0, rows, commitments, extent: None }
}
