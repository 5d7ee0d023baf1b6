//! Small plans of every mechanism.

use plan::{Grid, Layout, Mechanism, Participation, Plan, PlanSpec, Rounding};

/// Rows in every small plan.
const ITERATIONS: u64 = 40;

pub fn small_plan(mechanism: Mechanism, iterations: u64) -> Plan {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier: 1.5,
        clip_norm: 0.5,
        participation: Participation { min_sep: 10, max_participations: 4 },
        mechanism,
        layout: None,
        grid: None,
    })
    .expect("a valid plan")
}

/// Returns the same plan on a grid, for a vector of `dimension` coordinates.
pub fn on_grid(plan: &Plan, dimension: u64) -> Plan {
    let grid = Grid { step: -20, rounding: Rounding::Nearest, summing_error: 0.0 };
    let layout = Layout::dimension_only(dimension).ok();
    Plan::new(PlanSpec { layout, grid: Some(grid), ..plan.spec().clone() }).expect("a valid plan")
}

/// One plan for each mechanism, 40 rows.
pub fn plans() -> Vec<Plan> {
    let n = ITERATIONS as usize;
    let decaying = |p: usize| (0..p).map(|i| 1.0 / (1.0 + i as f64)).collect::<Vec<_>>();
    let mechanisms = [
        Mechanism::Identity,
        Mechanism::Tree { restarts: vec![13, 30], completion: true },
        Mechanism::Tree { restarts: vec![], completion: false },
        Mechanism::Blt { theta: vec![0.9999999999921251, 0.9, 0.3], omega: vec![0.01, 0.2, 0.3] },
        Mechanism::BandToeplitz { coefficients: decaying(7), column_normalised: false },
        Mechanism::BandToeplitz { coefficients: decaying(35), column_normalised: true },
        Mechanism::BandMf {
            columns: (0..n)
                .map(|j| (0..5).map(|i| if i + j < n { 1.0 / (1 + i + j % 3) as f64 } else { 0.0 }).collect())
                .collect(),
        },
        Mechanism::BandSqrt { bands: 9 },
        Mechanism::BandInverse { coefficients: vec![1.0, -0.4, -0.1] },
        Mechanism::BandInverseSqrt { bands: 6 },
        Mechanism::LambdaCgd { lambda: 0.7 },
        Mechanism::Dense {
            matrix: (0..n).map(|t| (0..=t).map(|j| 1.0 / (1 + t - j) as f64).collect()).collect(),
        },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz { coefficients: decaying(7), column_normalised: false }),
            column_scales: vec![1.0, 0.9, 0.7],
            rounds_per_scale: 15,
        },
    ];
    mechanisms.into_iter().map(|mechanism| small_plan(mechanism, ITERATIONS)).collect()
}
