//! Plans on a grid: their file, their digest, what they refuse, and the figures that accounts take.

use super::spec;
use crate::grid::{GridBandRows, GridCoefficients, choose};
use crate::{Grid, Layout, Mechanism, Participation, Plan, PlanError, PlanSpec, Rounding};

const TOML: &str = "\
format = 1
stream_version = 3
iterations = 2000
noise_multiplier = 1.0
clip_norm = 1.0
participation = { min_sep = 400, max_participations = 5 }
mechanism = { name = 'identity' }
layout = { dimension = 1000000 }
grid = { step = -27, rounding = 'nearest', summing_error = 1.2e-4 }
";

/// 13·2²⁷ is within 32 bits; σ = ζ = 1, so s = 2^−step.
fn on_grid(dimension: u64, mechanism: Mechanism, grid: Grid) -> Result<Plan, PlanError> {
    Plan::new(PlanSpec {
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        layout: Layout::dimension_only(dimension).ok(),
        grid: Some(grid),
        ..spec(2000, mechanism)
    })
}

fn grid(step: i32, rounding: Rounding) -> Grid {
    Grid { step, rounding, summing_error: 0.0 }
}

fn excess(dimension: u64, step: i32, rounding: Rounding) -> f64 {
    let plan = on_grid(dimension, Mechanism::Identity, grid(step, rounding)).unwrap();
    plan.on_grid().unwrap().figures().clip_norm - 1.0
}

#[test]
fn the_digest_of_a_plan_on_a_grid_is_frozen() {
    let plan = Plan::from_toml_str(TOML).unwrap();
    let canonical = "\
rustle plan 1
chacha_rounds=20
clip_norm=3ff0000000000000
format=1
grid.dimension=1000000
grid.rounding=nearest
grid.step=-27
grid.summing_error=3f1f75104d551d69
iterations=2000
mechanism.name=identity
noise_multiplier=3ff0000000000000
participation.max_participations=5
participation.min_sep=400
stream_version=3
";
    assert_eq!(plan.canonical_form(), canonical);
    let again = Plan::from_toml_str(&plan.to_toml_string().unwrap()).unwrap();
    assert_eq!((again.digest(), &again), (plan.digest(), &plan));
    let changes: [fn(&mut PlanSpec, Grid); 4] = [
        |spec, grid| spec.grid = Some(Grid { step: -26, ..grid }),
        |spec, grid| spec.grid = Some(Grid { rounding: Rounding::Dithered, ..grid }),
        |spec, grid| spec.grid = Some(Grid { summing_error: 0.0, ..grid }),
        |spec, _| spec.layout = Layout::dimension_only(999_999).ok(),
    ];
    for change in changes {
        let mut spec = plan.spec().clone();
        let grid = spec.grid.unwrap();
        change(&mut spec, grid);
        assert_ne!(Plan::new(spec).unwrap().digest(), plan.digest());
    }
}

#[test]
fn what_a_grid_cannot_have_is_refused_with_the_way_out() {
    let message = |from: &str, to: &str| {
        assert!(TOML.contains(from), "nothing to replace: {from}");
        Plan::from_toml_str(&TOML.replacen(from, to, 1)).unwrap_err().to_string()
    };
    for (from, to, parts) in [
        ("layout = { dimension = 1000000 }\n", "", ["`layout.dimension` is missing", "[grid]"]),
        (", summing_error = 1.2e-4", "", ["`grid.summing_error` is missing", "f32 sums of 32 records"]),
        ("1.2e-4", "-1e-4", ["`grid.summing_error` is -0.0001", "0 to 1"]),
        ("1.2e-4", "nan", ["`grid.summing_error` is NaN", "0 to 1"]),
        ("'nearest'", "'contributions'", ["`grid.summing_error` is 0.00012", "contributions"]),
        ("'nearest'", "'even'", ["`grid.rounding` is \"even\"", "nearest, dithered, contributions"]),
        ("step = -27", "step = -5", ["`grid.step` is one with s = 3.2e1", "at least 64"]),
        ("step = -27", "step = -28", ["`grid.step` is one with s", "a larger step"]),
        ("step = -27", "step = -2000", ["`grid.step` is -2000", "-256 to 256"]),
        ("step = -27", "step = -20", ["\"nearest\" with σ√d/s = 9.54e-4", "take \"dithered\""]),
        ("noise_multiplier = 1.0", "noise_multiplier = 0.0", ["`grid.step` is one with s = 0", "more noise"]),
        ("step = -27", "step = -27, bits = 3", ["unknown field `bits`", "summing_error"]),
        ("step = -27", "step = -27.5", ["step = -27.5", "i32"]),
    ] {
        let message = message(from, to);
        for part in parts {
            assert!(message.contains(part), "{from} → {to}: no {part:?} in {message:?}");
        }
    }
    let theta = vec![1.0; 3];
    let wide = Mechanism::Blt { theta, omega: vec![1e-3; 3] };
    assert!(on_grid(1 << 40, wide, grid(-26, Rounding::Dithered)).is_ok());
    let tree = Mechanism::Tree { restarts: vec![], completion: false };
    assert!(on_grid(1000, tree.clone(), grid(-26, Rounding::Dithered)).is_ok());
    let message = on_grid(1000, tree, grid(-27, Rounding::Dithered)).unwrap_err().to_string();
    assert!(message.contains("a larger step"), "{message}");
    let far = Mechanism::BandToeplitz {
        coefficients: [vec![1.0], vec![2.0; 600]].concat(),
        column_normalised: false,
    };
    assert!(on_grid(1000, far, grid(-10, Rounding::Dithered)).is_err());
}

#[test]
fn rows_on_a_grid_are_never_handed_out_as_floats() {
    let plan = Plan::from_toml_str(TOML).unwrap();
    assert!(matches!(plan.coefficients(), Err(PlanError::GridRows)));
    let message = plan.float_rows().unwrap_err().to_string();
    assert!(message.starts_with("grid_rows_are_integers") && message.contains("--float"), "{message}");
}

#[test]
fn dither_may_fail_in_every_round() {
    let once = Participation { min_sep: 1, max_participations: 1 };
    let spec = PlanSpec {
        participation: once,
        layout: Layout::dimension_only(1000).ok(),
        grid: Some(grid(-20, Rounding::Dithered)),
        ..spec(2000, Mechanism::Identity)
    };
    let failure = Plan::new(spec).unwrap().on_grid().unwrap().figures().rounding_failure;
    let least = 2000.0 * 2f64.powi(16 - 128);
    assert!(failure >= least && failure < 1.1 * least, "{failure:e}");
}

#[test]
fn the_clip_norm_grows_as_the_bounds_say() {
    use Rounding::{Contributions, Dithered, Nearest};
    // √d/s, and √(1 + d/4s² + 13.33(1 + √d/2s)/s) − 1.
    for (dimension, step, rounding, expected) in [
        (1_000_000, -27, Nearest, 7.4506e-6),
        (100_000_000, -27, Nearest, 7.4506e-5),
        (1_000_000_000, -27, Nearest, 2.3561e-4),
        (1_000_000, -27, Dithered, 4.9664e-8),
        (1_000_000_000, -27, Dithered, 5.661e-8),
        (1_000_000_000, -20, Dithered, 1.2010e-4),
        (1_000_000, -20, Contributions, 0.0),
    ] {
        let found = excess(dimension, step, rounding);
        let near = (found - expected).abs() <= 2e-3 * expected;
        assert!(near, "{rounding:?} {dimension} {step}: {found:e}, not {expected:e}");
    }
    let kappa = Grid { summing_error: 0.01, ..grid(-27, Nearest) };
    let plan = on_grid(1, Mechanism::Identity, kappa).unwrap();
    let figures = plan.on_grid().unwrap().figures();
    assert!((figures.clip_norm - 1.01).abs() < 1e-8);
    assert!(figures.noise_multiplier * figures.clip_norm <= 1.0);
    assert!((figures.noise_multiplier * figures.clip_norm - 1.0).abs() < 1e-15);
}

/// The BLT of the papers for b = 400: its η and what that adds, beside the figures worked out by hand.
#[test]
fn the_feedback_of_a_blt_adds_little() {
    let theta = vec![0.999, 0.98, 0.8];
    let blt = Mechanism::Blt { theta: theta.clone(), omega: vec![0.02, 0.03, 0.1] };
    let plan = on_grid(1_000_000, blt.clone(), grid(-26, Rounding::Nearest)).unwrap();
    let figures = plan.on_grid().unwrap().figures();
    assert!(figures.feedback_error > 1e-7 && figures.feedback_error < 1e-4, "{figures:?}");
    let added = 2.0 * figures.feedback_error * (1e6f64 * 2000.0).sqrt() / figures.scale / figures.clip_norm;
    assert!((figures.sensitivity_added / added - 1.0).abs() < 1e-12);
    let without = plan.running_sensitivity().unwrap();
    let with = plan.accounted_sensitivity().unwrap();
    assert_eq!(with.value, without.value + figures.sensitivity_added);
    assert!(!with.exact && figures.sensitivity_added < 1e-7);
    assert!(figures.buffer_failure > 0.0 && figures.failure() < 1e-20);
    assert!(!plan.on_grid().unwrap().is_exact());
    assert!(plan.sampled_strategy().unwrap_err().to_string().contains("any but blt"));
    assert_eq!(plan.state_slots(), 2 * theta.len());
}

#[test]
fn lags_are_dyadic_and_their_sums_exact() {
    let p = 300;
    for column_normalised in [false, true] {
        let coefficients: Vec<f64> = crate::series::square_root(p);
        let mechanism = Mechanism::BandToeplitz { coefficients, column_normalised };
        let plan = on_grid(1000, mechanism, grid(-22, Rounding::Nearest)).unwrap();
        let GridCoefficients::Banded(banded) = plan.on_grid().unwrap().coefficients() else { panic!() };
        let unit = f64::from(banded.fraction_bits).exp2();
        assert!((16..=19).contains(&banded.fraction_bits), "{}", banded.fraction_bits);
        for t in [0, 1, 299, 1000, 1999] {
            let sum: f64 = banded.lags(t).iter().map(|lag| (lag * unit).abs()).sum();
            assert!(banded.lags(t).iter().all(|lag| (lag * unit).fract() == 0.0));
            assert!(sum * 2f64.powi(31) <= 2f64.powi(53));
        }
        // What is accounted for is what runs: C_tj = C′_tj·s/s_t.
        let running = plan.running_strategy().unwrap();
        let row = running.c_row(2000, 1999).unwrap();
        let scale = plan.on_grid().unwrap().figures().scale;
        let diagonal = scale / banded.scale(1999);
        assert!(
            (row[1999] - diagonal).abs() <= 1e-15
                && (row[1990] - banded.lags(1999)[8] * diagonal).abs() <= 1e-15
        );
        let nominal = plan.strategy().c_row(2000, 1999).unwrap();
        assert!(row.iter().zip(&nominal).all(|(a, b)| (a - b).abs() < 1e-5));
        let same = matches!(banded.rows, GridBandRows::Toeplitz { .. });
        assert_eq!(same, !column_normalised);
    }
}

#[test]
fn every_mechanism_has_a_grid() {
    let columns = (0..2000).map(|j| if j < 1999 { vec![2.0, 0.5] } else { vec![1.5, 0.0] }).collect();
    for mechanism in [
        Mechanism::Tree { restarts: vec![700], completion: true },
        Mechanism::BandMf { columns },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz {
                coefficients: vec![2.0, 0.9],
                column_normalised: false,
            }),
            column_scales: vec![1.0, 0.5],
            rounds_per_scale: 600,
        },
        Mechanism::BandSqrt { bands: 5 },
        Mechanism::BandInverse { coefficients: vec![1.0, -0.5] },
        Mechanism::BandInverseSqrt { bands: 4 },
        Mechanism::LambdaCgd { lambda: 0.7 },
    ] {
        let name = mechanism.name();
        let spec = PlanSpec { layout: Layout::dimension_only(1000).ok(), ..spec(2000, mechanism) };
        let grid = choose(&spec, None, Some(0.0)).unwrap();
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec.clone() }).unwrap();
        let float = Plan::new(spec).unwrap();
        let of = |plan: &Plan| plan.accounted_sensitivity().unwrap().value;
        assert!((of(&plan) / of(&float) - 1.0).abs() < 1e-5, "{name}");
        assert!(plan.on_grid().unwrap().is_exact() && plan.failure_probability() < 1e-20, "{name}");
    }
}

#[test]
fn the_finest_grid_that_fits_is_chosen() {
    let chosen = |dimension, noise_multiplier| {
        let spec = PlanSpec {
            noise_multiplier,
            clip_norm: 1.0,
            layout: Layout::dimension_only(dimension).ok(),
            participation: Participation { min_sep: 1, max_participations: 1 },
            ..spec(10, Mechanism::Identity)
        };
        let grid = choose(&spec, None, Some(1e-4)).unwrap();
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec }).unwrap();
        (grid, plan.on_grid().unwrap().figures().scale)
    };
    assert_eq!(
        chosen(1_000_000, 1.0),
        (Grid { summing_error: 1e-4, ..grid(-27, Rounding::Nearest) }, 2f64.powi(27))
    );
    assert_eq!(chosen(10_000_000_000, 1.0).0.rounding, Rounding::Dithered);
    assert_eq!(chosen(1_000_000_000, 8.0).0.rounding, Rounding::Dithered);
    let (found, scale) = chosen(10, 1.01);
    assert_eq!(found.step, -26);
    assert!(scale > 2f64.powi(26) && scale < 2f64.powi(27));
    let none = PlanSpec { layout: Layout::dimension_only(3).ok(), ..spec(10, Mechanism::Identity) };
    assert!(choose(&none, None, None).unwrap_err().to_string().contains("`grid.summing_error` is missing"));
    assert_eq!(choose(&none, Some(Rounding::Contributions), None).unwrap().summing_error, 0.0);
}
