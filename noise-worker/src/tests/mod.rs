//! The worker without a network: what it serves, under which lease, and to whom.

mod full_disk;
mod granted;
mod keys;

use std::{sync::Arc, time::Duration};

use clap::Parser;
use node::process::cpu_pool::CpuPool;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{
    Commitment, CoordinateRange, ElementType, JobId, Lineage, ReleaseKey, ReleaseToken, Result, RowRange,
    Validity,
    model::{CheckpointPiece, FetchSlice, LeaseGrant},
};
use tokio::time::Instant;

use crate::{
    config::WorkerArgs,
    generation_spec::GenerationSpec,
    keyring::Keyring,
    leases::{Grants, Leases, PlanSource},
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
stream_version = 2
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

const KEY: [u8; 32] = [7; 32];
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
    Limits::new(CpuPool::new(1).unwrap(), &Flags::parse_from(["worker"]).args)
}

pub fn grant() -> LeaseGrant {
    LeaseGrant {
        job: job(),
        lineage: Lineage::of_branch(0),
        shard: 1,
        range: RANGE,
        epoch: EPOCH,
        dimension: RANGE.end,
        plan_digest: plan().digest(),
        key_commitment: key().commitment(),
        next_row: 0,
        store_url: String::new(),
        pieces: vec![],
    }
}

fn release_key() -> ReleaseKey {
    ReleaseKey::new([3; 32])
}

fn verifier() -> TokenVerifier {
    TokenVerifier {
        key: release_key(),
        epoch: VALIDITY.epoch,
        coordinator_ms: 0,
        requested_at: Instant::now(),
    }
}

fn token(row: u64) -> ReleaseToken {
    release_key().sign(&job(), 0, row, Commitment::of_text("step"), VALIDITY)
}

pub fn request(row: u64) -> FetchSlice {
    FetchSlice {
        job: job(),
        branch: 0,
        shard: 1,
        lease_epoch: EPOCH,
        rows: RowRange { start: row, end: row + 1 },
        range: RANGE,
        tokens: vec![token(row)],
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
    /// With a lease that was asked for so long ago.
    pub fn with(grant: LeaseGrant, asked: Duration) -> Self {
        Self::with_release_log(ReleaseLog::open(None).unwrap(), grant, asked)
    }

    fn with_release_log(release_log: ReleaseLog, grant: LeaseGrant, asked: Duration) -> Self {
        let leases = Leases::new(Keyring::new(Some(key()), None), Arc::new(release_log), limits());
        let worker = Self {
            service: NoiseService::new(
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
        let granted = Grants { leases: vec![grant], ..Grants::default() };
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
    let spec = GenerationSpec::new(&plan(), &key(), &job(), 0).unwrap();
    spec.oracle().unwrap().rows(row..row + 1, range.as_range()).unwrap().remove(0)
}

#[tokio::test]
async fn rows_of_a_good_lease_are_the_oracles() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for row in [0, 7, 3] {
        assert_eq!(worker.fetch(request(row)).await.unwrap(), expected(row, RANGE), "row {row}");
    }
    let within = CoordinateRange { start: 700, end: 1_300 };
    let part = worker.fetch(FetchSlice { range: within, ..request(2) }).await.unwrap();
    assert_eq!(part, expected(2, within));
}

/// Relieved because it was slow, or thought slow when it started, it would else never be known to be well again.
#[tokio::test]
async fn a_worker_measures_itself_anew_only_while_it_holds_nothing() {
    let worker = Worker::with(grant(), Duration::ZERO);
    let throughput = &worker.leases.limits.throughput;
    worker.fetch(request(0)).await.unwrap();
    // Rows that it makes ahead say something of its speed, too.
    tokio::time::sleep(Duration::from_millis(300)).await;
    throughput.set(1.0);
    idle_benchmark::measure(&worker.leases).await;
    assert!(throughput.rate() < 1e5, "{} while it holds a shard", throughput.rate());
    worker.leases.clear();
    idle_benchmark::measure(&worker.leases).await;
    assert!(throughput.rate() > 1e5, "{}", throughput.rate());
}

#[tokio::test]
async fn another_epoch_is_fenced() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for epoch in [EPOCH - 1, EPOCH + 1] {
        assert_eq!(worker.refused(FetchSlice { lease_epoch: epoch, ..request(0) }), "fenced");
    }
    worker.lease(LeaseGrant { epoch: EPOCH + 1, ..grant() }, Duration::ZERO);
    assert_eq!(worker.refused(request(0)), "fenced");
}

#[tokio::test]
async fn nothing_is_served_after_the_lease() {
    let worker = Worker::with(grant(), TTL);
    assert_eq!(worker.refused(request(0)), "unavailable");
    assert!(!worker.leases.valid());
    worker.lease(grant(), Duration::ZERO);
    assert_eq!(worker.fetch(request(0)).await.unwrap(), expected(0, RANGE));
    worker.leases.clear();
    assert_eq!(worker.refused(request(0)), "not_owner");
}

#[tokio::test]
async fn every_row_needs_its_own_token() {
    let worker = Worker::with(grant(), Duration::ZERO);
    let other = ReleaseKey::new([4; 32]).sign(&job(), 0, 1, Commitment::of_text("step"), VALIDITY);
    assert_eq!(worker.refused(FetchSlice { tokens: vec![other], ..request(1) }), "not_bound");
    assert_eq!(worker.refused(FetchSlice { tokens: vec![token(0)], ..request(1) }), "not_bound");
    let rows = RowRange { start: 1, end: 3 };
    let last = FetchSlice { rows, tokens: vec![token(1), token(1)], ..request(1) };
    assert_eq!(worker.refused(last), "not_bound");
}

#[tokio::test]
async fn what_lies_outside_of_the_shard_is_refused() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for (start, end) in [(511, 600), (512, RANGE.end + 1)] {
        let range = CoordinateRange { start, end };
        assert_eq!(worker.refused(FetchSlice { range, ..request(0) }), "invalid_argument", "{range}");
    }
    assert_eq!(worker.refused(FetchSlice { branch: 1, ..request(0) }), "invalid_argument");
    assert_eq!(worker.refused(FetchSlice { shard: 2, ..request(0) }), "not_owner");
}

#[test]
fn another_key_or_plan_than_the_jobs_makes_no_noise() {
    let spec = |grant: LeaseGrant| GenerationSpec::for_grant(&plan(), &key(), &grant).unwrap_err().kind();
    assert_eq!(spec(LeaseGrant { key_commitment: [9; 32], ..grant() }), "key_mismatch");
    assert_eq!(spec(LeaseGrant { plan_digest: [9; 32], ..grant() }), "plan_digest_mismatch");
}

/// A checkpoint of the shard after three rows, and the grant that names it.
async fn checkpointed(folder: &tempfile::TempDir) -> LeaseGrant {
    let store_url = format!("file://{}", folder.path().display());
    let grant = LeaseGrant { store_url: store_url.clone(), ..grant() };
    let worker = Worker::with(grant.clone(), Duration::ZERO);
    worker.fetch(request(2)).await.unwrap();
    let object = proto::piece_object(&job(), 1, RANGE);
    let Snapshot { next_row, written, .. } =
        worker.service.snapshot(&job(), 1, EPOCH, &object).await.unwrap();
    assert!(next_row > 2);
    let piece = CheckpointPiece { object, range: RANGE, next_row, sha256: written.sha256 };
    LeaseGrant { pieces: vec![piece], ..grant }
}

#[tokio::test]
async fn a_checkpoint_is_taken_only_where_it_is_whole_and_of_this_very_noise() {
    let folder = tempfile::tempdir().unwrap();
    let good = checkpointed(&folder).await;
    let spec = GenerationSpec::for_grant(&plan(), &key(), &good).unwrap();
    let starts_at = async |grant: &LeaseGrant| restore(grant, &spec, &limits()).await.unwrap().0.next_row();
    assert_eq!(starts_at(&good).await, good.pieces[0].next_row);

    let of_branch = LeaseGrant { lineage: Lineage::of_branch(1), ..good.clone() };
    let of_key = LeaseGrant { key_commitment: [9; 32], ..good.clone() };
    let of_plan = LeaseGrant { plan_digest: [9; 32], ..good.clone() };
    let mut of_bytes = good.clone();
    of_bytes.pieces[0].sha256 = [9; 32];
    let beyond = LeaseGrant { range: CoordinateRange { start: 512, end: 2_048 }, ..good.clone() };
    for (what, other) in
        [("branch", of_branch), ("key", of_key), ("plan", of_plan), ("bytes", of_bytes), ("range", beyond)]
    {
        assert_eq!(starts_at(&other).await, 0, "the checkpoint of another {what} was taken");
    }
}

#[tokio::test]
async fn a_restored_shard_goes_on_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let grant = checkpointed(&folder).await;
    let worker = Worker::with(LeaseGrant { next_row: 3, ..grant }, Duration::ZERO);
    for row in [7, 1, 3] {
        assert_eq!(worker.fetch(request(row)).await.unwrap(), expected(row, RANGE), "row {row}");
    }
}
