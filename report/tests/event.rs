//! A plan's event, and events that are not of a plan.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{Account, Event, MatrixMechanism, Neighbouring, Partition, Sampling};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use report::event;

fn plan(mechanism: Mechanism, noise_multiplier: f64) -> Plan {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: 60,
        noise_multiplier,
        clip_norm: 1.0,
        participation: Participation { min_sep: 10, max_participations: 4 },
        mechanism,
        layout: None,
        grid: None,
    })
    .unwrap()
}

fn banded() -> Plan {
    plan(Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5, 0.2], column_normalised: false }, 2.0)
}

fn run(plan: &Plan) -> MatrixMechanism {
    match event::for_plan(plan, Sampling::AnyOrder).unwrap() {
        Event::MatrixMechanism(run) => run,
        other => panic!("{}", other.name()),
    }
}

#[test]
fn a_plans_event_is_its_own() {
    let plan = banded();
    let run = run(&plan);
    let norm = 1.29_f64.sqrt();
    assert!((run.largest_column_norm / norm - 1.0).abs() < 1e-6, "{run:?}");
    assert!((run.sensitivity / (2.0 * norm) - 1.0).abs() < 1e-6, "{run:?}");
    assert_eq!((run.bands, run.iterations), (Some(3), 60));
    let partition = Partition::Independent;
    for sampling in
        [Sampling::AnyOrder, Sampling::CyclicPoisson { sampling_probability: 0.05, partition, cap: None }]
    {
        let event = event::for_plan(&plan, sampling).unwrap();
        let again: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        event::check(&again, &plan).unwrap();
    }
    let sampling = Sampling::CyclicPoisson { sampling_probability: 0.05, partition, cap: None };
    let amplified =
        Account::new(&event::for_plan(&plan, sampling).unwrap(), Neighbouring::AddRemove).unwrap();
    let whole = Account::new(&Event::MatrixMechanism(run), Neighbouring::AddRemove).unwrap();
    assert!(amplified.epsilon(1e-6).unwrap() < 0.5 * whole.epsilon(1e-6).unwrap());
}

#[test]
fn mechanisms_without_bands_have_none() {
    let blt = plan(Mechanism::Blt { theta: vec![0.9], omega: vec![0.3] }, 2.0);
    assert_eq!((event::bands(&blt), event::bands(&plan(Mechanism::Identity, 1.0))), (None, Some(1)));
    assert_eq!(event::bands(&plan(Mechanism::BandSqrt { bands: 6 }, 1.0)), Some(6));
}

#[test]
fn what_is_cheaper_than_the_plan_is_refused() {
    let plan = banded();
    type Change = fn(&mut MatrixMechanism);
    let changes: [(&str, Change); 9] = [
        ("plan_digest", |run| run.plan_digest = "00".repeat(32)),
        ("sensitivity", |run| run.sensitivity *= 1.0 - 1e-9),
        ("largest_column_norm", |run| run.largest_column_norm *= 0.999),
        ("noise_multiplier", |run| run.noise_multiplier *= 1.0 + 1e-15),
        ("iterations", |run| run.iterations -= 1),
        ("min_sep", |run| run.min_sep += 1),
        ("max_participations", |run| run.max_participations -= 1),
        ("bands", |run| run.bands = Some(2)),
        ("plan_digest", |run| run.plan_digest = "no digest".to_owned()),
    ];
    for (named, change) in changes {
        let mut run = run(&plan);
        change(&mut run);
        let error = event::check(&Event::MatrixMechanism(run), &plan).unwrap_err().to_string();
        assert!(error.contains("not of this plan") && error.contains(named), "{named}: {error}");
    }
    let error = event::check(&Event::ZCdp { rho: 1.0 }, &plan).unwrap_err().to_string();
    assert!(error.contains("z-cdp"), "{error}");
    // A wider participation than the plan's, at the sensitivity of the plan's own.
    let wider: [(&str, Change); 4] = [
        ("sensitivity", |run| run.min_sep = 2),
        ("sensitivity", |run| run.max_participations += 1),
        ("min_sep is 0", |run| run.min_sep = 0),
        ("max_participations", |run| run.max_participations = u64::MAX),
    ];
    for (named, change) in wider {
        let mut run = run(&plan);
        change(&mut run);
        let error = event::check(&Event::MatrixMechanism(run), &plan).unwrap_err().to_string();
        assert!(error.contains(named), "{named}: {error}");
    }
    let dearer = MatrixMechanism { sensitivity: 9.0, plan_digest: String::new(), ..run(&plan) };
    event::check(&Event::MatrixMechanism(dearer), &plan).expect("a higher cost is no broken promise");
}

/// 1.00000005 is exactly 1 in f32: what runs is less than the plan says, and the event says what runs.
#[test]
fn an_event_has_the_noise_that_runs() {
    let plan = plan(Mechanism::Identity, 1.000_000_05);
    let run = run(&plan);
    assert_eq!(run.noise_multiplier, 1.0);
    event::check(&Event::MatrixMechanism(run.clone()), &plan).unwrap();
    let nominal = MatrixMechanism { noise_multiplier: 1.000_000_05, ..run };
    let error = event::check(&Event::MatrixMechanism(nominal), &plan).unwrap_err().to_string();
    assert!(error.contains("noise_multiplier is 1.00000005; allowed: at most 1"), "{error}");
}
