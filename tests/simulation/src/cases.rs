//! The jobs that simulations train, and every row they may ever be given, by the oracle.

use std::sync::OnceLock;

use ledger::{JobRecord, JobState, ShardRecord};
use noise_kernel::JobKey;
use noise_worker::recipe::Recipe;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{Commitment, CoordinateRange, JobId, pb};

pub const ROWS: u64 = 14;
/// Three shards at most, the last one not whole.
pub const DIMENSION: u64 = 1300;
const KEY: [u8; 32] = [42; 32];

/// One job: its plan and its rows.
pub struct Case {
    pub job: JobId,
    pub plan: Plan,
    pub rows: Vec<Vec<f32>>,
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
        let named = |mechanism: &Mechanism, name| computed(name, mechanism.clone());
        mechanisms().iter().map(|mechanism| [named(mechanism, "left"), named(mechanism, "right")]).collect()
    });
    &cases[(seed as usize + at) % cases.len()][at]
}

fn computed(name: &str, mechanism: Mechanism) -> Case {
    let job = JobId::new(name).expect("a name");
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: ROWS,
        noise_multiplier: 1.5,
        clip_norm: 0.5,
        participation: Participation { min_sep: 7, max_participations: 2 },
        mechanism,
        layout: None,
    })
    .expect("a valid plan");
    let oracle = Recipe::new(&plan, &key(), &job, 0).expect("a recipe").oracle().expect("an oracle");
    let rows = oracle.rows(0..ROWS, 0..DIMENSION).expect("rows");
    Case { job, plan, rows }
}

impl Case {
    pub fn create(&self, shards: u32) -> pb::CreateJobRequest {
        pb::CreateJobRequest {
            job: self.job.to_string(),
            plan_toml: self.plan.to_toml_string().expect("a plan has a text"),
            dimension: DIMENSION,
            shards,
            key_commitment: key().commitment().to_vec(),
            plan_digest: self.plan.digest().to_vec(),
        }
    }

    /// As a ledger has the job, in one shard.
    pub fn records(&self) -> (JobRecord, Vec<ShardRecord>) {
        let record = JobRecord {
            job: self.job.clone(),
            plan_toml: self.plan.to_toml_string().expect("a plan has a text"),
            plan_digest: self.plan.digest(),
            dimension: DIMENSION,
            iterations: ROWS,
            mechanism: self.plan.mechanism().name().to_owned(),
            key_commitment: key().commitment(),
            branch: 0,
            lineage: proto::Lineage::default(),
            shards: 1,
            layout_epoch: 0,
            state: JobState::Running,
        };
        let range = CoordinateRange { start: 0, end: DIMENSION };
        (record, vec![ShardRecord { shard: 0, range, epoch: 0, owner: None }])
    }

    /// Of each row there are two gradients, of which one may ever be released.
    pub fn commitment(&self, row: u64, rival: bool) -> Commitment {
        Commitment::of_text(&format!("{} {row} {rival}", self.job))
    }
}
