//! Every account under every relation: accepted or refused as the table says.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{
    Account, AccountKind, BatchCap, Event, MatrixMechanism, Neighbouring, Partition, Sampling, user_level,
};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use report::{Question, SamplingAssumption, Statement};

fn plan() -> Plan {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: 12,
        noise_multiplier: 2.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 4, max_participations: 3 },
        mechanism: Mechanism::BandToeplitz { coefficients: vec![1.0, 0.4], column_normalised: false },
        layout: None,
        grid: None,
    })
    .unwrap()
}

/// Makes a statement; an error says why there is none.
fn stated(assumed: SamplingAssumption, neighbouring: Neighbouring) -> Result<f64, String> {
    let question = Question::for_plan(plan(), vec![1e-3], "test");
    let question = Question { assumed, neighbouring, ..question };
    let statement = Statement::new(&question).map_err(|error| error.to_string())?;
    Ok(statement.figures.guarantees[0].epsilon)
}

fn accounted(event: &Event, neighbouring: Neighbouring) -> Result<f64, String> {
    let account = Account::new(event, neighbouring).map_err(|error| error.to_string())?;
    account.epsilon(1e-3).map_err(|error| error.to_string())
}

/// The accounts of a kind, each of which must keep to the table.
fn run(kind: AccountKind, relation: Neighbouring) -> Vec<Result<f64, String>> {
    let q = 0.1;
    let cap = Some(BatchCap { batch_cap: 20, dataset_size: 100 });
    let event = |event: Event| accounted(&event.times(4), relation);
    let cyclic = |partition, bands, cap| {
        let sampling = Sampling::CyclicPoisson { sampling_probability: q, partition, cap };
        let run = MatrixMechanism::cyclic_poisson(1.0, q, bands, 12, partition);
        accounted(&Event::MatrixMechanism(MatrixMechanism { sampling, ..run }), relation)
    };
    let claimed = |partition, cap| {
        stated(SamplingAssumption::CyclicPoisson { sampling_probability: q, partition, cap }, relation)
    };
    match kind {
        AccountKind::Poisson => {
            vec![
                event(Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: q }),
                event(user_level::round(1.0, q, 1).unwrap()),
            ]
        }
        AccountKind::TruncatedPoisson => vec![event(Event::TruncatedPoissonGaussian {
            noise_multiplier: 1.0,
            sampling_probability: q,
            dataset_size: 100,
            batch_cap: 20,
        })],
        AccountKind::UserLevel => {
            let rounds = [(1.0, 0.1, 2), (30.0, 0.001, 5000)];
            rounds.map(|(sigma, q, size)| event(user_level::round(sigma, q, size).unwrap())).into()
        }
        AccountKind::CyclicPoisson => vec![
            cyclic(Partition::Independent, 3, None),
            cyclic(Partition::Independent, 1, cap),
            claimed(Partition::Independent, None),
        ],
        AccountKind::CyclicPoissonEqualSplit => vec![
            cyclic(Partition::EqualSplit, 3, None),
            cyclic(Partition::EqualSplit, 3, cap),
            claimed(Partition::EqualSplit, None),
            claimed(Partition::EqualSplit, cap),
        ],
        AccountKind::RandomAllocation => [1, 2]
            .map(|participations| {
                let batches_per_epoch = 10;
                event(Event::RandomAllocation { noise_multiplier: 1.0, batches_per_epoch, participations })
            })
            .into(),
        AccountKind::BallsInBins => {
            vec![stated(
                SamplingAssumption::BallsInBins { batches_per_epoch: 4, samples: 2000, seed: 1 },
                relation,
            )]
        }
        AccountKind::BMinSep => vec![stated(
            SamplingAssumption::BMinSep {
                min_sep: 4,
                sampling_probability: q,
                warm_start: true,
                samples: 2000,
                seed: 1,
            },
            relation,
        )],
        // What batches depend on, no account can see: batches state it, and Python's adapters refuse by it.
        AccountKind::AnyOrder => vec![stated(SamplingAssumption::AnyOrder, relation)],
        AccountKind::AnyOrderPublicSize => Vec::new(),
    }
}

#[test]
fn accounts_accept_the_relations_of_the_table_and_refuse_the_others_by_name() {
    for kind in AccountKind::ALL {
        for relation in Neighbouring::ALL {
            for result in run(kind, relation) {
                match result {
                    Ok(epsilon) => {
                        assert!(kind.accepts(relation), "{kind:?} accepts {relation:?}");
                        assert!(epsilon.is_finite() && epsilon > 0.0, "{kind:?} {relation:?}: {epsilon}");
                    }
                    Err(why) => {
                        assert!(!kind.accepts(relation), "{kind:?} refuses {relation:?}: {why}");
                        assert!(why.contains("zero-out"), "it says what is allowed: {why}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_cap_beside_groups_of_secret_size_has_no_statement() {
    let cap = Some(BatchCap { batch_cap: 20, dataset_size: 100 });
    let partition = Partition::Independent;
    let assumed = SamplingAssumption::CyclicPoisson { sampling_probability: 0.1, partition, cap };
    let why = stated(assumed, Neighbouring::ZeroOut).unwrap_err();
    assert!(why.contains("groups of one size"), "{why}");
}
