//! What is stated without sampling holds for batches that are sampled as assumed, whatever the plan's own rule.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::rewind::{ReleasedBranch, ReleasedRows};
use accounting::{Account, Event, MatrixMechanism, Neighbouring, Partition};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use report::{PlanParticipation, Question, SamplingAssumption, Statement, event};

const DELTA: f64 = 1e-6;

fn plan(iterations: u64, noise_multiplier: f64, mechanism: Mechanism, rule: (u64, u64)) -> Plan {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier,
        clip_norm: 1.0,
        participation: Participation { min_sep: rule.0, max_participations: rule.1 },
        mechanism,
        layout: None,
        grid: None,
    })
    .unwrap()
}

fn bins(batches_per_epoch: u64) -> SamplingAssumption {
    SamplingAssumption::BallsInBins { batches_per_epoch, samples: 4096, seed: 1 }
}

fn cyclic(sampling_probability: f64) -> SamplingAssumption {
    SamplingAssumption::CyclicPoisson { sampling_probability, partition: Partition::Independent, cap: None }
}

fn resting(min_sep: u64) -> SamplingAssumption {
    SamplingAssumption::BMinSep {
        min_sep,
        sampling_probability: 0.1,
        warm_start: true,
        samples: 4096,
        seed: 1,
    }
}

fn stated(plan: &Plan, assumed: SamplingAssumption, released: Option<ReleasedRows>) -> Statement {
    let question = Question::for_plan(plan.clone(), vec![DELTA], "test");
    Statement::new(&Question { assumed, released, ..question }).unwrap()
}

fn run(statement: &Statement) -> &MatrixMechanism {
    match &statement.event {
        Event::MatrixMechanism(run) => run,
        other => panic!("{}", other.name()),
    }
}

/// The plan of the review: every record takes part ten times where its own rule says once.
#[test]
fn a_plan_for_one_participation_is_not_stated_as_one() {
    let plan = plan(100, 4.0, Mechanism::Identity, (100, 1));
    let whole = ReleasedBranch { branch: 0, parent: None, from_row: 0, released: vec![(0, 100)] };
    let whole = ReleasedRows { branches: vec![whole] };
    for (assumed, participations, rule) in
        [(bins(10), 10.0, (10, 10)), (cyclic(0.1), 100.0, (1, 100)), (resting(5), 20.0, (5, 20))]
    {
        let statement = stated(&plan, assumed, Some(whole.clone()));
        let epsilon = |figures: &report::Figures| figures.guarantees[0].epsilon;
        let without = statement.without_sampling.as_ref().unwrap();
        let mu = f64::sqrt(participations) / 4.0;
        assert!((without.mu / mu - 1.0).abs() < 1e-12, "{assumed:?}: {}", without.mu);
        let account = Account::new(&statement.event, Neighbouring::ZeroOut).unwrap();
        let released = &statement.released.as_ref().unwrap().figures;
        let headline = epsilon(&statement.figures);
        for other in [
            epsilon(without),
            account.epsilon(DELTA).unwrap() * (1.0 + 1e-6),
            epsilon(released) * (1.0 + 1e-6),
        ] {
            assert!(other >= headline, "{assumed:?}: {other} below {headline}");
        }
        assert_eq!((statement.min_sep, statement.max_participations), rule);
        assert_eq!(
            statement.plan_participation,
            Some(PlanParticipation { min_sep: 100, max_participations: 1 })
        );
        event::check(&statement.event, &plan).unwrap();
        let page = report::markdown(&statement);
        assert!(page.contains("The plan itself is for j − i ≥ 100 and at most 1 of them"), "{page}");
        assert!(
            page.contains(&format!("j − i ≥ {}, and there are at most {} of them", rule.0, rule.1)),
            "{page}"
        );
    }
}

#[test]
fn a_plan_that_covers_its_batches_is_left_as_it_is() {
    for (rule, assumed) in
        [((10, 10), bins(10)), ((5, 20), bins(10)), ((1, 100), cyclic(0.1)), ((4, 25), resting(5))]
    {
        let statement = stated(&plan(100, 4.0, Mechanism::Identity, rule), assumed, None);
        assert_eq!((statement.min_sep, statement.max_participations), rule);
        assert_eq!(statement.plan_participation, None);
        assert!(!report::markdown(&statement).contains("The plan itself"));
    }
}

/// ‖C u‖ of a record that takes these rounds, each contribution of norm 1 in one direction; C ≥ 0 here.
fn norm(plan: &Plan, rounds: &[u64]) -> f64 {
    let strategy = plan.strategy();
    let n = plan.iterations();
    let row = |t: u64| -> f64 {
        let row = strategy.c_row(n, t).unwrap();
        rounds.iter().filter(|round| **round <= t).map(|round| row[*round as usize]).sum()
    };
    (0..n).map(|t| row(t).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn no_rounds_that_sampling_allows_move_more_than_is_stated() {
    let n = 24;
    let mechanisms = [
        Mechanism::Identity,
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.6, 0.3], column_normalised: false },
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.2, 0.5], column_normalised: true },
        Mechanism::BandSqrt { bands: 4 },
        Mechanism::Blt { theta: vec![0.9, 0.4], omega: vec![0.2, 0.3] },
    ];
    for mechanism in mechanisms {
        for rule in [(24, 1), (12, 2), (4, 6), (6, 2), (2, 3), (1, 24), (3, 1)] {
            let plan = plan(n, 2.0, mechanism.clone(), rule);
            let bands = event::bands(&plan);
            let periods = [2, 4, 6, 12, 24].map(|period| (period, bins(period)));
            let apart = [4, 5, 9].map(|apart| (apart, resting(apart)));
            let cycle = bands.map(|bands| (bands, cyclic(0.05)));
            // Monte Carlo of b-min-sep is known of few bands alone.
            let apart = apart.into_iter().filter(|_| bands.is_some());
            for (period, assumed) in periods.into_iter().chain(apart).chain(cycle) {
                let statement = stated(&plan, assumed, None);
                for first in 0..period {
                    let rounds: Vec<u64> = (first..n).step_by(period as usize).collect();
                    let moved = norm(&plan, &rounds);
                    let context = format!("{} {rule:?} {assumed:?}: {moved}", plan.mechanism().name());
                    assert!(statement.sensitivity >= moved * (1.0 - 1e-12), "{context}");
                    assert!(run(&statement).sensitivity >= moved * (1.0 - 1e-12), "{context}");
                }
                event::check(&statement.event, &plan).unwrap();
            }
        }
    }
}

/// With and without sampling, where both are known exactly. Of whole cycles: the account of cyclic sampling takes a last
/// column that the run's end cuts for a whole one.
#[test]
fn sampling_never_costs_more_than_none() {
    for rule in [(48, 1), (1, 48), (5, 8), (20, 2)] {
        for bands in [1, 3, 8] {
            for (q, noise) in [(1.0 / bands as f64, 1.0), (0.1, 0.7), (0.01, 3.0)] {
                let statement =
                    stated(&plan(48, noise, Mechanism::BandSqrt { bands }, rule), cyclic(q), None);
                let epsilon = |figures: &report::Figures| figures.guarantees[0].epsilon;
                let with = epsilon(&statement.figures);
                let without = epsilon(statement.without_sampling.as_ref().unwrap());
                // Distributions are rounded up by 0.002 % at most.
                assert!(without * (1.0 + 1e-4) >= with, "{rule:?} {bands} {q}: {without} below {with}");
            }
        }
    }
}
