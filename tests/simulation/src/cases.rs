//! The jobs that simulations train, and every row they may ever be given, by the oracle: known once the ledger has
//! drawn a job's nonce.
//!
//! A row is named by the branch whose Z it has and its number: branches that share it share all rows before it, so
//! that its bytes are the same on each of them.

use std::sync::OnceLock;

use ledger::{JobRecord, JobState, ShardRecord};
use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{Commitment, CoordinateRange, JobId, Lineage, NoiseId, Nonce, pb};

pub const ROWS: u64 = 14;
/// Three shards at most, the last one not whole.
pub const DIMENSION: u64 = 1300;
const KEY: [u8; 32] = [42; 32];
/// Of a job that is in no simulated cluster.
const NONCE: Nonce = Nonce::from_bytes([1; 32]);

/// One job: its name and its plan.
pub struct Case {
    pub job: JobId,
    pub plan: Plan,
}

pub fn key() -> JobKey {
    JobKey::from_bytes(&KEY).expect("32 bytes")
}

fn mechanisms() -> Vec<Mechanism> {
    vec![
        Mechanism::Identity,
        Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.2, 0.3] },
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5, 0.25], column_normalised: false },
        Mechanism::Tree { restarts: vec![5], completion: true },
    ]
}

/// The seed's job number `at`, 0 or 1.
pub fn case(seed: u64, at: usize) -> &'static Case {
    static CASES: OnceLock<Vec<[Case; 2]>> = OnceLock::new();
    let cases = CASES.get_or_init(|| {
        let both = |mechanism: Mechanism| [named("left", mechanism.clone()), named("right", mechanism)];
        mechanisms().into_iter().map(both).collect()
    });
    &cases[(seed as usize + at) % cases.len()][at]
}

fn named(name: &str, mechanism: Mechanism) -> Case {
    let job = JobId::new(name).expect("a name");
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: ROWS,
        noise_multiplier: 1.5,
        clip_norm: 0.5,
        participation: Participation { min_sep: 7, max_participations: 2 },
        mechanism,
        layout: None,
        grid: None,
    })
    .expect("a valid plan");
    Case { job, plan }
}

impl Case {
    /// The rows that are a branch's own.
    pub fn own_rows(&self, noise_id: &NoiseId) -> Vec<Vec<f32>> {
        let spec = GenerationSpec::new(&self.plan, &key(), DIMENSION, noise_id).expect("a recipe");
        let first = noise_id.lineage.from_row();
        spec.oracle().expect("an oracle").rows(first..ROWS, 0..DIMENSION).expect("rows")
    }

    pub fn create(&self, shards: u32) -> pb::CreateJobRequest {
        pb::CreateJobRequest {
            job: self.job.to_string(),
            plan_toml: self.plan.to_toml_string().expect("a plan has a text"),
            dimension: DIMENSION,
            shards,
            key_commitment: key().commitment().to_vec(),
            plan_digest: self.plan.digest().to_vec(),
            account: None,
        }
    }

    /// Returns the job as a ledger has it, in one shard.
    pub fn records(&self) -> (JobRecord, Vec<ShardRecord>) {
        let record = JobRecord {
            job: self.job.clone(),
            nonce: NONCE,
            plan_toml: self.plan.to_toml_string().expect("a plan has a text"),
            plan_digest: self.plan.digest(),
            dimension: DIMENSION,
            layout_digest: plan::Layout::dimension_only(DIMENSION).expect("a dimension").digest(),
            iterations: ROWS,
            mechanism: self.plan.mechanism().name().to_owned(),
            key_commitment: key().commitment(),
            branch: 0,
            lineage: Lineage::of_job(NONCE),
            shards: 1,
            layout_epoch: 0,
            state: JobState::Running,
        };
        let range = CoordinateRange { start: 0, end: DIMENSION };
        (record, vec![ShardRecord { shard: 0, range, epoch: 0, owner: None }])
    }

    /// Of each row of a branch's own there are two gradients, of which one may ever be released. A job that goes back
    /// comes to the row with others: it draws other batches.
    pub fn commitment(&self, branch: u64, row: u64, rival: bool) -> Commitment {
        Commitment::of_text(&format!("{} {branch} {row} {rival}", self.job))
    }
}
