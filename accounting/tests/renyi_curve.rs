//! Curves of Rényi divergences, added up, beside the account of the same composition.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::pld::ACCURACY;
use accounting::{
    Account, AccountingError, BatchCap, Event, MatrixMechanism, Neighbouring, Partition, RenyiCurve, Sampling,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

const MIXES: u64 = 120;

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        let unit = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        low * (high / low).powf(unit)
    }

    /// An event of a kind that jobs have, or sweeps, or anything else that has an account under all relations.
    fn event(&mut self) -> Event {
        let sigma = self.between(0.8, 30.0);
        let bands = 1 + self.below(8);
        let run = |partition| {
            let q = [0.001, 0.01, 0.1][bands as usize % 3];
            MatrixMechanism::cyclic_poisson(sigma, q, bands, 40 * bands, partition)
        };
        match self.below(8) {
            0 => Event::Gaussian { noise_multiplier: sigma },
            1 | 2 => Event::MatrixMechanism(run(Partition::Independent)),
            3 => {
                let sensitivity = self.between(1.0, 4.0);
                let sampling = Sampling::AnyOrder;
                let failure_probability = [0.0, 1e-12][self.below(2) as usize];
                let run = run(Partition::Independent);
                Event::MatrixMechanism(MatrixMechanism { sensitivity, sampling, failure_probability, ..run })
            }
            4 => {
                let cap = Some(BatchCap { batch_cap: 120 + self.below(40), dataset_size: 1_000 });
                let sampling = Sampling::CyclicPoisson {
                    sampling_probability: 0.1,
                    partition: Partition::Independent,
                    cap,
                };
                let run = MatrixMechanism::cyclic_poisson(sigma, 0.1, 1, 40, Partition::Independent);
                Event::MatrixMechanism(MatrixMechanism { sampling, ..run })
            }
            5 => {
                let event = Box::new(Event::MatrixMechanism(run(Partition::Independent)));
                let shape = [None, Some(1.0)][self.below(2) as usize];
                Event::RepeatAndSelect { event, mean: self.between(1.0, 20.0), shape }
            }
            6 => Event::ZCdp { rho: self.between(1e-4, 0.1) },
            _ => Event::Laplace { noise_multiplier: sigma },
        }
    }
}

#[test]
fn no_bound_is_below_the_account_and_most_are_close() {
    let mut ratios = Vec::new();
    for mix in 0..MIXES {
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(mix));
        let relation = Neighbouring::ALL[dice.below(3) as usize];
        let events: Vec<Event> = (0..=dice.below(4)).map(|_| dice.event()).collect();
        let delta = [1e-5, 1e-8][dice.below(2) as usize];
        let curves: Vec<RenyiCurve> =
            events.iter().map(|event| RenyiCurve::of(event, relation).unwrap()).collect();
        let bound = RenyiCurve::composed(&curves).unwrap();
        let exact = Account::new(&Event::Composed { events: events.clone() }, relation).unwrap();
        match (bound.epsilon(delta), exact.epsilon(delta)) {
            (Ok(bound), Ok(exact)) => {
                assert!(exact <= bound, "{mix}, {relation:?}: {exact} above {bound}: {events:?}");
                ratios.push(bound / exact);
            }
            // No order has a bound, or there is none at all.
            (Err(AccountingError::OutOfReach { .. }), _) => {}
            (bound, exact) => panic!("{mix}: {bound:?}, {exact:?}"),
        }
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[ratios.len() * part / 10];
    println!("{} bounds: {:.3} {:.3} {:.3} times the account", ratios.len(), at(1), at(5), at(9));
    assert!(ratios.len() as u64 > MIXES * 9 / 10 && at(5) < 1.25, "{ratios:?}");
}

#[test]
fn curves_add_up_as_their_events_do() {
    let relation = Neighbouring::AddRemove;
    let event = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 };
    let one = RenyiCurve::of(&event, relation).unwrap();
    let three = RenyiCurve::composed([&one, &one, &one]).unwrap().epsilon(1e-6).unwrap();
    let at_once = RenyiCurve::of(&event.clone().times(3), relation).unwrap().epsilon(1e-6).unwrap();
    assert!((three / at_once - 1.0).abs() < 1e-9, "{three} {at_once}");
    assert_eq!(one.neighbouring(), relation);
}

#[test]
fn what_has_no_bound_is_an_error() {
    let sampled = |neighbouring| {
        let event = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 };
        RenyiCurve::of(&event, neighbouring).unwrap()
    };
    let one = sampled(Neighbouring::ZeroOut);
    let other = RenyiCurve::composed([&one, &sampled(Neighbouring::Replace)]).unwrap_err().to_string();
    assert!(other.contains("zero-out") && other.contains("replace"), "{other}");
    assert!(RenyiCurve::composed([]).unwrap_err().to_string().contains("number of curves"));
    assert!(one.epsilon(0.0).is_err() && one.epsilon(1.0).is_err());
    // A part that shows the data with some probability has no divergence at all.
    let shown = RenyiCurve::of(&Event::ApproximateDp { epsilon: 0.1, delta: 1e-9 }, Neighbouring::ZeroOut);
    let refused = RenyiCurve::composed([&one, &shown.unwrap()]).unwrap().epsilon(1e-6);
    assert!(matches!(refused, Err(AccountingError::OutOfReach { .. })), "{refused:?}");
    // As accounts, curves take up to 2^40 rounds.
    let many = Event::PoissonSampledGaussian { noise_multiplier: 1e9, sampling_probability: 1e-9 };
    let half = RenyiCurve::of(&many.times((1 << 39) + 1), Neighbouring::ZeroOut).unwrap();
    assert!(RenyiCurve::composed([&half, &half]).unwrap_err().to_string().contains("2^40"));
}

/// So many rounds beside one with large losses leave a grid that is too coarse for them.
#[test]
fn no_account_on_a_coarse_grid_is_above_the_bound() {
    let many = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 1e-6 };
    let events = vec![Event::Gaussian { noise_multiplier: 1.0 / 3.0 }, many.times(100_000_000_000)];
    let whole = Event::Composed { events };
    let account = Account::new(&whole, Neighbouring::ZeroOut).unwrap();
    let figure = account.epsilon_figure(1e-6, ACCURACY).unwrap();
    let by_losses = account.profile().unwrap().epsilon_figure(1e-6, ACCURACY).unwrap();
    let bound = RenyiCurve::of(&whole, Neighbouring::ZeroOut).unwrap().epsilon(1e-6).unwrap();
    assert!(figure.coarsened && figure.value <= bound, "{figure:?} above {bound}");
    assert!(bound < by_losses.value, "{bound}: the grid is fine enough, {by_losses:?}");
}
