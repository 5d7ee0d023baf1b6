//! Tests of the whole plan, as a file and as coefficients.

mod adversary;
mod coefficients;
mod digest;
mod extension;
mod grid;
mod noise;
mod refused;
mod rounded;
mod stability;

use crate::{Mechanism, Participation, Plan, PlanSpec};

/// The papers' BLT setting with two buffers, written the way a person would.
const BLT: &str = "\
format = 1
stream_version = 3
chacha_rounds = 20
iterations = 2000
noise_multiplier = 7.379
clip_norm = 1.0

[participation]
min_sep = 400
max_participations = 5

[mechanism]
name = \"blt\"
theta = [0.99, 0.5]
omega = [0.125, 0.25]
";

/// A plan of `n` rows with the mechanism, everything else plain.
fn spec(n: u64, mechanism: Mechanism) -> PlanSpec {
    PlanSpec {
        chacha_rounds: 20,
        iterations: n,
        noise_multiplier: 1.5,
        clip_norm: 2.0,
        participation: Participation { min_sep: 3, max_participations: 2 },
        mechanism,
        layout: None,
        grid: None,
    }
}

fn plan(n: u64, mechanism: Mechanism) -> Plan {
    Plan::new(spec(n, mechanism)).unwrap()
}
