//! Strategies with scaled columns among the suggestions, against dense matrices.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::ops::ControlFlow;

use plan::{Layout, Mechanism, Participation as PlanParticipation, Plan, PlanSpec};
use planner::{Entry, Request, Watch, on_grid, suggest};
use strategy::{Objective, Participation, Strategy, Workload};

const N: u64 = 128;
const RULE: Participation = Participation { min_sep: 16, max_participations: 8 };

fn request() -> Request {
    Request {
        iterations: N,
        participation: RULE,
        sampling_probability: None,
        epsilon: 2.0,
        delta: 1e-6,
        objective: Objective::Rms,
        workload: Workload::Prefix,
        dimension: 10_000,
        workers: 1,
        memory_per_worker: None,
        on_grid: false,
    }
}

fn entries(request: &Request) -> Vec<Entry> {
    let watch = Watch { progress: &|_| (), flow: &|| ControlFlow::Continue(()) };
    let found = suggest(request, watch).unwrap();
    assert!(!found.stopped);
    found.entries
}

fn is_scaled(entry: &Entry) -> bool {
    matches!(entry.strategy, Strategy::Scaled(_))
}

/// The rms error of prefix sums by forward substitution, times the norm of the sum of columns 0, b, 2b, …
fn dense_loss(strategy: &Strategy) -> f64 {
    let n = N as usize;
    let c: Vec<Vec<f64>> = (0..N).map(|t| strategy.c_row(N, t).unwrap()).collect();
    let mut inverse: Vec<Vec<f64>> = Vec::new();
    for t in 0..n {
        let mut row = vec![0.0; n];
        row[t] = 1.0;
        for (weight, known) in c[t][..t].iter().zip(&inverse) {
            row.iter_mut().zip(known).for_each(|(x, known)| *x -= weight * known);
        }
        inverse.push(row.iter().map(|x| x / c[t][t]).collect());
    }
    let mut sum = vec![0.0; n];
    let mut square = 0.0;
    for row in &inverse {
        sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        square += sum.iter().map(|x| x * x).sum::<f64>();
    }
    let moved = |row: &Vec<f64>| row.iter().step_by(RULE.min_sep as usize).sum::<f64>().powi(2);
    (square / n as f64 * c.iter().map(moved).sum::<f64>()).sqrt()
}

#[test]
fn scaled_columns_lose_less_at_the_same_state() {
    let entries = entries(&request());
    let scaled: Vec<&Entry> = entries.iter().filter(|entry| is_scaled(entry)).collect();
    for name in ["band-toeplitz", "blt"] {
        assert!(scaled.iter().any(|entry| entry.mechanism == name), "{name}");
    }
    for entry in scaled {
        let is_equal = |other: &&Entry| {
            (other.mechanism, other.size) == (entry.mechanism, entry.size) && other.column_norms == "equal"
        };
        let equal = entries.iter().find(is_equal).unwrap();
        println!("{} {} after {}, {} s", entry.name(), entry.loss, equal.loss, entry.seconds);
        assert_eq!(entry.name(), format!("{} scaled", equal.name()));
        assert_eq!(entry.column_norms, "by-epoch");
        assert_eq!(entry.state_bytes_per_parameter, equal.state_bytes_per_parameter);
        assert!(entry.loss < 0.99 * equal.loss, "{} {}", entry.loss, equal.loss);
        assert!(entry.error < 0.99 * equal.error && entry.sensitivity_exact);
        let dense = dense_loss(&entry.strategy);
        // The account's sensitivity may be that of the coefficients in f32.
        assert!((entry.loss / dense - 1.0).abs() < 1e-6, "{} {dense}", entry.loss);
    }
    let band_mf = entries.iter().find(|entry| entry.mechanism == "band-mf").unwrap();
    assert_eq!((band_mf.column_norms, band_mf.name()), ("by-epoch", "band-mf 16".into()));
}

#[test]
fn where_scales_gain_nothing_there_are_none() {
    let once = Participation { min_sep: 16, max_participations: 1 };
    for request in [
        Request { objective: Objective::Max, ..request() },
        Request { objective: Objective::Last, ..request() },
        Request { workload: Workload::Toeplitz(vec![1.0, 0.5].into()), ..request() },
        Request { participation: once, ..request() },
    ] {
        assert!(!entries(&request).iter().any(is_scaled), "{:?}", request.objective);
    }
}

#[test]
fn a_grid_has_scaled_bands_and_no_scaled_blts() {
    let entries = entries(&Request { on_grid: true, ..request() });
    let scaled: Vec<&Entry> = entries.iter().filter(|entry| is_scaled(entry)).collect();
    assert!(!scaled.is_empty() && scaled.iter().all(|entry| entry.mechanism == "band-toeplitz"));
    for entry in scaled {
        let float = Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: N,
            noise_multiplier: plan::noise_multiplier_to_run(entry.noise_multiplier, 1.0),
            clip_norm: 1.0,
            participation: PlanParticipation {
                min_sep: RULE.min_sep,
                max_participations: RULE.max_participations,
            },
            mechanism: Mechanism::try_from(&entry.strategy).unwrap(),
            layout: Some(Layout::dimension_only(10_000).unwrap()),
            grid: None,
        });
        let plan = on_grid(&float.unwrap(), None, Some(1e-3)).unwrap();
        let moved = plan.accounted_sensitivity().unwrap().value / plan.accounted_noise_multiplier();
        let epsilon = accounting::gaussian::epsilon(1e-6, moved).unwrap();
        assert!(epsilon <= 2.0 && epsilon > 1.99, "{}: {epsilon}", entry.name());
    }
}
