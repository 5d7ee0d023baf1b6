//! Accounts of plans on a grid: those of the float plan with ζ′, and hardly dearer.
#![allow(clippy::unwrap_used)]

use accounting::rewind::{ReleasedBranch, ReleasedRows};
use accounting::{Account, BatchCap, Neighbouring, Partition, Sampling, failure};
use plan::{Grid, Layout, Mechanism, Participation, Plan, PlanSpec, Rounding};
use report::{Job, Question, SamplingAssumption, Statement, SweepCharge, event, html, markdown};

fn spec(mechanism: Mechanism, noise_multiplier: f64) -> PlanSpec {
    PlanSpec {
        chacha_rounds: 20,
        iterations: 60,
        noise_multiplier,
        clip_norm: 1.0,
        participation: Participation { min_sep: 10, max_participations: 4 },
        mechanism,
        layout: Some(Layout::dimension_only(1_000_000).unwrap()),
        grid: None,
    }
}

fn grid(step: i32, rounding: Rounding, summing_error: f64) -> Option<Grid> {
    Some(Grid { step, rounding, summing_error })
}

/// Mechanisms whose coefficients the grid leaves as they are.
fn exact() -> [Mechanism; 4] {
    [
        Mechanism::Identity,
        Mechanism::Tree { restarts: vec![20], completion: true },
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5, 0.25], column_normalised: false },
        Mechanism::LambdaCgd { lambda: 0.5 },
    ]
}

fn samplings(plan: &Plan) -> Vec<Sampling> {
    let mut all = vec![Sampling::AnyOrder];
    if event::bands(plan).is_some() {
        let cap = Some(BatchCap { batch_cap: 30, dataset_size: 1000 });
        let partition = Partition::EqualSplit;
        for cap in [None, cap] {
            all.push(Sampling::CyclicPoisson { sampling_probability: 0.02, partition, cap });
        }
    }
    all
}

#[test]
fn a_grids_account_is_the_float_one_with_its_own_clip_norm() {
    for mechanism in exact() {
        let name = mechanism.name();
        for (rounding, kappa) in
            [(Rounding::Nearest, 1e-3), (Rounding::Dithered, 0.0), (Rounding::Contributions, 0.0)]
        {
            let float = spec(mechanism.clone(), 4.0);
            let plan = Plan::new(PlanSpec { grid: grid(-23, rounding, kappa), ..float.clone() }).unwrap();
            let figures = *plan.on_grid().unwrap().figures();
            // σζ is the same noise; beside ζ′ it is a smaller σ.
            let beside =
                Plan::new(PlanSpec { noise_multiplier: 4.0 / figures.clip_norm, ..float.clone() }).unwrap();
            let float = Plan::new(float).unwrap();
            for sampling in samplings(&plan) {
                let epsilon = |plan: &Plan| {
                    let event = event::for_plan(plan, sampling).unwrap();
                    Account::new(&event, Neighbouring::ZeroOut).unwrap().epsilon(1e-6).unwrap()
                };
                let on_grid = epsilon(&plan);
                // f32 rounds the float plan's scale in the eighth digit; the grid rounds nothing.
                let close = if kappa == 0.0 && rounding == Rounding::Contributions { 1e-12 } else { 1e-7 };
                assert!((on_grid / epsilon(&beside) - 1.0).abs() < close, "{name} {rounding:?}");
                assert!(on_grid >= epsilon(&float) * (1.0 - 1e-7), "{name} {rounding:?}");
                if kappa == 0.0 {
                    assert!(on_grid / epsilon(&float) < 1.001, "{name} {rounding:?}: {on_grid}");
                } else {
                    assert!(on_grid > epsilon(&float) * 1.0009, "{name}: κ does not count");
                }
            }
        }
    }
}

#[test]
fn the_coarsest_nearest_costs_a_thousandth() {
    // σ√d/s = 2.4·10⁻⁴.
    for noise_multiplier in [0.5, 2.0, 16.0] {
        let float = spec(Mechanism::Identity, noise_multiplier);
        let plan = Plan::new(PlanSpec { grid: grid(-22, Rounding::Nearest, 0.0), ..float.clone() }).unwrap();
        let float = Plan::new(float).unwrap();
        let of = |plan: Plan| {
            let statement = Statement::new(&Question::for_plan(plan, vec![1e-6, 1e-10], "0.1.0")).unwrap();
            statement.figures.guarantees.iter().map(|at| at.epsilon).collect::<Vec<_>>()
        };
        for (on_grid, float) in of(plan).into_iter().zip(of(float)) {
            assert!(on_grid > float && on_grid < 1.001 * float, "{noise_multiplier}: {on_grid}, {float}");
        }
    }
}

#[test]
fn a_failure_that_delta_does_not_leave_room_for_is_no_guarantee() {
    let dithered = PlanSpec { grid: grid(-23, Rounding::Dithered, 0.0), ..spec(Mechanism::Identity, 4.0) };
    let plan = Plan::new(dithered).unwrap();
    let tau = plan.failure_probability();
    assert!(tau > 0.0 && tau < 1e-30);
    let event = event::for_plan(&plan, Sampling::AnyOrder).unwrap();
    let account = Account::new(&event, Neighbouring::ZeroOut).unwrap();
    assert!(account.epsilon(tau).is_err() && account.epsilon(1e-12).is_ok() && account.profile().is_err());
    let own =
        Account::new(&accounting::Event::Gaussian { noise_multiplier: 2.0 }, Neighbouring::ZeroOut).unwrap();
    assert_eq!(failure::delta(1.0, 0.0, own.delta(1.0).unwrap()).unwrap(), own.delta(1.0).unwrap());
}

#[test]
fn a_blt_on_a_grid_has_no_amplified_account() {
    let blt = Mechanism::Blt { theta: vec![0.9], omega: vec![0.2] };
    let plan = Plan::new(PlanSpec { grid: grid(-24, Rounding::Nearest, 0.0), ..spec(blt, 4.0) }).unwrap();
    let question = Question {
        assumed: SamplingAssumption::BallsInBins { batches_per_epoch: 10, samples: 100, seed: 1 },
        ..Question::for_plan(plan.clone(), vec![1e-6], "0.1.0")
    };
    let refused = Statement::new(&question).unwrap_err().to_string();
    assert!(refused.contains("any but blt"), "{refused}");
    assert!(Statement::new(&Question::for_plan(plan, vec![1e-6], "0.1.0")).is_ok());
}

#[test]
fn a_run_of_a_sweep_says_that_its_failures_count_in_the_sweep() {
    let words = "as many times these as there are runs on average";
    let plan =
        Plan::new(PlanSpec { grid: grid(-24, Rounding::Nearest, 1e-3), ..spec(Mechanism::Identity, 4.0) });
    let job = Job {
        job: "rates.1".to_owned(),
        state: "running".to_owned(),
        dimension: 1_000_000,
        key_commitment: String::new(),
        bindings_refused: 0,
        ledger_doubt: None,
        sweep: Some(SweepCharge { sweep: "rates".to_owned(), charge: "{}".to_owned() }),
        openings: Vec::new(),
    };
    let question = Question::for_plan(plan.unwrap(), vec![1e-6], "0.1.0");
    assert!(!markdown(&Statement::new(&question).unwrap()).contains(words));
    let of_run = Question { job: Some(job), ..question };
    assert!(markdown(&Statement::new(&of_run).unwrap()).contains(words));
}

#[test]
fn a_statement_says_which_arithmetic_it_holds_in() {
    let says = |spec: PlanSpec, words: &[&str]| {
        let question = Question::for_plan(Plan::new(spec).unwrap(), vec![1e-6], "0.1.0");
        let statement = Statement::new(&question).unwrap();
        let text = markdown(&statement);
        let page = html(&statement, &question).unwrap();
        for word in words {
            assert!(text.contains(word) && page.contains(word), "no {word:?} in\n{text}");
        }
        serde_json::to_value(&statement).unwrap()
    };
    let float = says(
        spec(Mechanism::Identity, 4.0),
        &["Arithmetic", "floating-point noise", "does not hold against precision attacks"],
    );
    assert!(float.get("grid").is_none());
    let nearest = PlanSpec { grid: grid(-23, Rounding::Nearest, 1e-3), ..spec(Mechanism::Identity, 4.0) };
    let on_grid = says(nearest, &["Arithmetic", "theorem 1", "2^-23", "nearest", "the job vouches"]);
    assert_eq!(on_grid["grid"]["step"], -23);
    // Four times 2²³, as it is: the deviation is not a cost to round up.
    let exactly = PlanSpec { grid: grid(-23, Rounding::Nearest, 1e-3), ..spec(Mechanism::Identity, 4.0) };
    says(exactly, &["is 33554432 of these steps", "dither its bound with 0;"]);
    assert_eq!(on_grid["grid"]["rounding"], "nearest");
    assert!(on_grid["grid"]["clip_norm_accounted"].as_f64().unwrap() > 1.001);
    let blt = Mechanism::Blt { theta: vec![0.9], omega: vec![0.2] };
    let close = PlanSpec { grid: grid(-24, Rounding::Nearest, 0.0), ..spec(blt, 4.0) };
    says(close, &["theorem 2", "η", "buffer"]);
}

/// Without sampling ε is hundreds, and what may fail on a grid counts e^ε times.
#[test]
fn a_figure_out_of_reach_costs_no_other_one() {
    let participation = Participation { min_sep: 1, max_participations: 500 };
    let spec = PlanSpec { iterations: 500, participation, ..spec(Mechanism::Identity, 0.6) };
    let plan = Plan::new(PlanSpec { grid: grid(-23, Rounding::Dithered, 1e-3), ..spec.clone() }).unwrap();
    let assumed = SamplingAssumption::CyclicPoisson {
        sampling_probability: 0.01,
        partition: Partition::Independent,
        cap: None,
    };
    let released = |to: u64| ReleasedRows {
        branches: vec![ReleasedBranch { branch: 0, parent: None, from_row: 0, released: vec![(0, to)] }],
    };
    let question = |plan: &Plan, assumed, to| Question {
        assumed,
        released: Some(released(to)),
        ..Question::for_plan(plan.clone(), vec![1e-6], "test")
    };
    let question_on_grid = question(&plan, assumed, 500);
    let statement = Statement::new(&question_on_grid).unwrap();
    let float = Statement::new(&question(&Plan::new(spec).unwrap(), assumed, 500)).unwrap();
    let epsilon = |statement: &Statement| statement.figures.guarantees[0].epsilon;
    assert!((1.0..1.01).contains(&(epsilon(&statement) / epsilon(&float))), "{}", epsilon(&statement));
    assert!(float.without_sampling.is_some() && float.without_sampling_unknown.is_none());
    assert!(statement.without_sampling.is_none());
    let reason = statement.without_sampling_unknown.as_deref().unwrap();
    assert!(reason.contains("failure probability"), "{reason}");
    assert!(markdown(&statement).contains("no figure: "));
    assert!(html(&statement, &question_on_grid).unwrap().contains("no figure: "));
    // Under random allocation what was released so far has no sampled account of its own: it costs at most the whole.
    let allocated = SamplingAssumption::RandomAllocation { batches_per_epoch: 100, participations: 1 };
    let partial = Statement::new(&question(&plan, allocated, 400)).unwrap();
    assert_eq!(partial.released.as_ref().unwrap().figures, partial.figures);
    // The figure that was requested is an error where it is out of reach.
    assert!(Statement::new(&question(&plan, SamplingAssumption::AnyOrder, 500)).is_err());
}
