//! The worker without a network: what it serves, under which lease, and to whom.

mod full_disk;
mod granted;
mod keys;
mod restoring;
mod serving;
mod slow_readers;
mod wrong_rows;

use std::{sync::Arc, time::Duration};

use clap::Parser;
use node::process::cpu_pool::CpuPool;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{
    Commitment, CoordinateRange, CoordinatorKey, ElementType, GrantedBranch, JobId, Lineage, Nonce,
    ReleaseToken, Result, RowRange, ServiceError, Validity, WorkerId,
    model::{CheckpointPiece, FetchSlice, GrantedLeases, LeaseGrant},
    pb,
};
use tokio::time::Instant;

use crate::{
    config::WorkerArgs,
    generation_spec::GenerationSpec,
    keyring::Keyring,
    leases::{Leases, PlanSource},
    limits::Limits,
    regions::Regions,
    release_log::ReleaseLog,
    restore::restore,
    service::NoiseService,
    snapshot::Snapshot,
    throughput::idle_benchmark,
    token_verifier::TokenVerifier,
};

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
name = "blt"
theta = [0.9, 0.5]
omega = [0.1, 0.2]
"#;

const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";
const EPOCH: u64 = 5;
pub const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1_324 };
const TTL: Duration = Duration::from_secs(120);
const VALIDITY: Validity = Validity { epoch: 1, until_ms: 3_600_000, extent: None };

struct ThePlan;

#[async_trait::async_trait]
impl PlanSource for ThePlan {
    async fn plan(&self, _: &JobId) -> Result<String> {
        Ok(PLAN.to_owned())
    }
}

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    args: WorkerArgs,
}

/// The nonce of the tests' job.
pub const NONCE: Nonce = Nonce::from_bytes([5; 32]);

pub fn job() -> JobId {
    JobId::new("job").unwrap()
}

pub fn plan() -> Plan {
    Plan::from_toml_str(PLAN).unwrap()
}

pub fn key() -> JobKey {
    JobKey::from_bytes(&KEY).unwrap()
}

fn limits() -> Limits {
    limits_by(&["worker"])
}

fn limits_by(flags: &[&str]) -> Limits {
    Limits::new(CpuPool::new(1).unwrap(), &Flags::parse_from(flags).args).unwrap()
}

pub fn grant() -> LeaseGrant {
    LeaseGrant {
        job: job(),
        job_nonce: NONCE,
        ledger: NONCE,
        lineage: Lineage::of_job(NONCE),
        shard: 1,
        range: RANGE,
        epoch: EPOCH,
        dimension: RANGE.end,
        plan_digest: plan().digest(),
        layout_digest: plan::Layout::dimension_only(RANGE.end).unwrap().digest(),
        key_commitment: key().commitment(),
        next_row: 0,
        store_url: String::new(),
        pieces: vec![],
    }
}

fn worker_id() -> WorkerId {
    WorkerId::new("w").unwrap()
}

fn coordinator_key() -> CoordinatorKey {
    CoordinatorKey::new(&[3; 32])
}

fn verifier() -> TokenVerifier {
    TokenVerifier {
        key: coordinator_key().public(),
        epoch: VALIDITY.epoch,
        coordinator_ms: 0,
        requested_at: Instant::now(),
        known: Arc::default(),
    }
}

fn signed_by(key: &CoordinatorKey, rows: RowRange) -> ReleaseToken {
    let job = job();
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let commitments = rows.as_range().map(|row| Commitment::of_text(&format!("step {row}"))).collect();
    key.release(of, rows, commitments, VALIDITY).token(rows).unwrap()
}

fn token(row: u64) -> ReleaseToken {
    signed_by(&coordinator_key(), RowRange { start: row, end: row + 1 })
}

pub fn request(row: u64) -> FetchSlice {
    FetchSlice {
        job: job(),
        branch: 0,
        shard: 1,
        lease_epoch: EPOCH,
        rows: RowRange { start: row, end: row + 1 },
        range: RANGE,
        token: token(row),
        deadline_ms: Some(20_000),
        element: ElementType::F32,
        target: None,
    }
}

pub struct Worker {
    pub leases: Arc<Leases>,
    pub service: Arc<NoiseService>,
}

impl Worker {
    /// Returns a worker whose lease was requested `asked` ago.
    pub fn with(grant: LeaseGrant, asked: Duration) -> Self {
        Self::with_release_log(ReleaseLog::open(None).unwrap(), grant, asked)
    }

    fn with_release_log(release_log: ReleaseLog, grant: LeaseGrant, asked: Duration) -> Self {
        Self::with_limits(limits(), release_log, grant, asked)
    }

    fn with_limits(limits: Limits, release_log: ReleaseLog, grant: LeaseGrant, asked: Duration) -> Self {
        let leases = Leases::new(Keyring::new(Some(key()), None), Arc::new(release_log), limits);
        let worker = Self {
            service: NoiseService::new(
                worker_id(),
                leases.clone(),
                Regions::new(CpuPool::new(1).unwrap(), 0),
                proto::MIN_CHUNK_BYTES,
            ),
            leases,
        };
        worker.lease(grant, asked);
        worker
    }

    fn lease(&self, grant: LeaseGrant, asked: Duration) {
        let asked = Instant::now().checked_sub(asked).expect("a host that runs for longer");
        let plans: Arc<dyn PlanSource> = Arc::new(ThePlan);
        let granted = GrantedLeases { leases: vec![grant], ..GrantedLeases::default() };
        self.leases.apply(granted, verifier(), TTL, asked, &plans);
    }

    fn refused(&self, request: FetchSlice) -> &'static str {
        self.service.fetch_slice(request).map(|_| ()).expect_err("it is served").kind()
    }

    /// Little-endian values in the order they came.
    pub async fn fetch(&self, request: FetchSlice) -> Result<Vec<f32>> {
        let mut chunks = self.service.fetch_slice(request)?;
        let mut values = vec![];
        while let Some(chunk) = chunks.recv().await {
            let data = chunk?.data;
            values.extend(data.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
        }
        Ok(values)
    }
}

fn expected(row: u64, range: CoordinateRange) -> Vec<f32> {
    let spec = GenerationSpec::for_grant(&plan(), &key(), &grant()).unwrap();
    spec.oracle().unwrap().rows(row..row + 1, range.as_range()).unwrap().remove(0)
}
