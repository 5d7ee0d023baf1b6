//! The data set that buyers race for, and the jobs that they want in it.

use dice::Dice;
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{JobId, pb};

use crate::cases;
use crate::charges::data_set;
use crate::mishaps::Mishap;

/// Rows of each job.
pub const ROWS: u64 = 4;
const DIMENSION: u64 = 64;
pub const TENANTS: [&str; 2] = ["ads", "web"];
/// Names, first days, and the days after the last.
pub const BLOCKS: [(&str, &str, &str); 2] =
    [("nov", "2026-11-01", "2026-12-01"), ("dec", "2026-12-01", "2027-01-01")];

/// The data set of a seed.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pub epsilon: f64,
    pub has_shares: bool,
    pub has_blocks: bool,
    pub is_per_block: bool,
}

impl Pool {
    /// Draws the seed's. A ledger that an old copy takes the place of has none: that knows nothing of what was bought since, and
    /// says so by stopping.
    pub fn of(seed: u64) -> Option<Self> {
        let mut dice = Dice::named(seed, "budget");
        let has_buyers = dice.one_in(2) && !Mishap::of(seed).is_some_and(Mishap::stops_original);
        let epsilon = *dice.pick(&[0.5, 1.0, 2.0, 4.0]);
        let has_shares = dice.one_in(3);
        let has_blocks = dice.one_in(3);
        let is_per_block = has_blocks && dice.one_in(2);
        has_buyers.then_some(Self { epsilon, has_shares, has_blocks, is_per_block })
    }
}

/// Returns the request for a job, which is the same from all buyers.
pub fn request(job: &JobId, pool: Pool, mut dice: Dice) -> pb::CreateJobRequest {
    let noise_multiplier = *dice.pick(&[2.0, 4.0, 8.0, 16.0]);
    let tenant = if pool.has_shares { *dice.pick(&TENANTS) } else { "" };
    let read = if pool.has_blocks { dice.within(1, 3) } else { 0 };
    let blocks = BLOCKS.iter().enumerate().filter(|(at, _)| (read >> at) & 1 == 1);
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: ROWS,
        noise_multiplier,
        clip_norm: 1.0,
        participation: Participation { min_sep: 2, max_participations: 2 },
        mechanism: Mechanism::Identity,
        layout: None,
        grid: None,
    })
    .expect("a valid plan");
    pb::CreateJobRequest {
        job: job.to_string(),
        plan_toml: plan.to_toml_string().expect("a plan has a text"),
        dimension: DIMENSION,
        shards: 1,
        key_commitment: cases::key().commitment().to_vec(),
        plan_digest: plan.digest().to_vec(),
        account: Some(pb::BudgetedAccount {
            data_set: data_set().to_string(),
            unit: "user".to_owned(),
            neighbouring: "zero-out".to_owned(),
            sampling: String::new(),
            tenant: tenant.to_owned(),
            blocks: blocks.map(|(_, (name, ..))| (*name).to_owned()).collect(),
        }),
    }
}
