//! Events that are not Gaussian, against closed forms, exact sums and dp-accounting 0.6.0.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{Account, AccountingError, Event, Neighbouring, gaussian};

fn account(event: &Event) -> Account {
    Account::new(event, Neighbouring::ZeroOut).unwrap()
}

/// Asserts that a figure is an upper bound of another, and at most a relative `slack` above it.
fn assert_bounds(found: f64, exact: f64, slack: f64, name: &str) {
    assert!(found >= exact * (1.0 - 1e-9) - 1e-300, "{name}: {found} below {exact}");
    assert!(found <= exact * (1.0 + slack) + 1e-11, "{name}: {found} above {exact}");
}

/// δ of k rounds of (ε, δ), all that such rounds can cost (Kairouz, Oh and Viswanath 2015).
fn composed(epsilon: f64, delta: f64, rounds: u64, at: f64) -> f64 {
    let up = 1.0 / (1.0 + (-epsilon).exp());
    let mut choose = 1.0;
    let mut sum = 0.0;
    for i in 0..=rounds {
        let loss = epsilon * (rounds as f64 - 2.0 * i as f64);
        let mass = choose * up.powi((rounds - i) as i32) * (1.0 - up).powi(i as i32);
        sum += if loss > at { mass * -(at - loss).exp_m1() } else { 0.0 };
        choose *= (rounds - i) as f64 / (i + 1) as f64;
    }
    let shown = -(rounds as f64 * (-delta).ln_1p()).exp_m1();
    shown + (1.0 - shown) * sum
}

#[test]
fn approximate_and_pure_dp_compose_as_well_as_they_can() {
    for (epsilon, delta, rounds) in
        [(0.1, 0.0, 30), (0.1, 1e-8, 30), (1.0, 0.0, 1), (1.0, 1e-5, 1), (2.0, 1e-4, 5), (0.0, 1e-5, 10)]
    {
        let round = match delta {
            0.0 => Event::PureDp { epsilon },
            _ => Event::ApproximateDp { epsilon, delta },
        };
        let all = account(&round.times(rounds));
        for at in [0.0, 0.05, 0.3, 1.1, 2.5] {
            let exact = composed(epsilon, delta, rounds, at);
            let name = format!("{rounds} of ({epsilon}, {delta}) at {at}");
            assert_bounds(all.delta(at).unwrap(), exact, 2e-3, &name);
        }
    }
    let found = account(&Event::ApproximateDp { epsilon: 0.1, delta: 1e-8 }.times(30)).epsilon(1e-6).unwrap();
    assert!((found / 2.36934999 - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn more_of_delta_than_there_is_has_no_epsilon() {
    let spent = account(&Event::ApproximateDp { epsilon: 1.0, delta: 1e-5 }.times(10)).epsilon(1e-5);
    assert!(matches!(spent, Err(AccountingError::OutOfReach { what: "epsilon", .. })), "{spent:?}");
}

#[test]
fn one_laplace_round_is_exact() {
    for b in [0.5, 1.0, 10.0] {
        let one = account(&Event::Laplace { noise_multiplier: b });
        for share in [0.0, 0.3, 0.9] {
            let epsilon = share / b;
            let exact = -(0.5 * (epsilon - 1.0 / b)).exp_m1();
            assert_bounds(one.delta(epsilon).unwrap(), exact, 2e-3, &format!("b {b}, epsilon {epsilon}"));
        }
        assert_bounds(one.epsilon(1e-9).unwrap(), 1.0 / b - 2e-9, 1e-3, "epsilon");
    }
}

#[test]
fn compositions_agree_with_dp_accounting() {
    let gaussians =
        |standard_deviation, sensitivity| Event::DiscreteGaussian { standard_deviation, sensitivity };
    for (event, peer) in [
        (Event::Laplace { noise_multiplier: 10.0 }.times(50), 3.120709610),
        (Event::DiscreteLaplace { noise_parameter: 0.2, sensitivity: 3 }.times(30), 16.150466672),
        (gaussians(3.0, 1).times(40), 11.725552570),
        (gaussians(20.0, 7).times(10), 5.487505925),
    ] {
        let found = account(&event).epsilon(1e-6).unwrap();
        assert!((found / peer - 1.0).abs() < 2e-4, "{}: {found}, peer {peer}", event.name());
    }
}

#[test]
fn fine_discrete_gaussians_are_gaussians() {
    let event = Event::DiscreteGaussian { standard_deviation: 1000.0, sensitivity: 700 };
    let exact = gaussian::epsilon(1e-6, 0.7).unwrap();
    let found = account(&event).epsilon(1e-6).unwrap();
    assert!((found / exact - 1.0).abs() < 1e-3, "{found} {exact}");
}

#[test]
fn the_exponential_mechanism_covers_every_bounded_range() {
    for width in [0.2_f64, 1.0, 4.0] {
        let one = account(&Event::ExponentialMechanism { epsilon: width });
        let pure = account(&Event::PureDp { epsilon: width });
        for share in [0.0, 0.2, 0.7] {
            let epsilon = share * width;
            // Randomized response of losses t and t − η, at its worst t.
            let delta = |t: f64| (width.exp() - t.exp()) * -(epsilon - t).exp_m1() / width.exp_m1();
            let worst = (0..=1000).map(|i| delta(width * f64::from(i) / 1000.0)).fold(0.0, f64::max);
            let found = one.delta(epsilon).unwrap();
            assert_bounds(found, worst, 5e-3, &format!("{width} at {epsilon}"));
            assert!(found < pure.delta(epsilon).unwrap());
        }
    }
    // Of many rounds it is far below as many rounds of randomized response.
    let many = account(&Event::ExponentialMechanism { epsilon: 0.1 }.times(200)).epsilon(1e-6).unwrap();
    let pure = account(&Event::PureDp { epsilon: 0.1 }.times(200)).epsilon(1e-6).unwrap();
    assert!(many < 0.65 * pure, "{many} {pure}");
}

fn fixed(noise_multiplier: f64, dataset_size: u64, batch_size: u64) -> Event {
    Event::WithoutReplacementGaussian { noise_multiplier, dataset_size, batch_size }
}

#[test]
fn one_batch_without_replacement_is_amplified_as_known() {
    for (sigma, n, m) in [(1.0, 100, 10), (2.0, 1000, 20), (0.7, 10, 9)] {
        let one = Account::new(&fixed(sigma, n, m), Neighbouring::Replace).unwrap();
        let q = m as f64 / n as f64;
        for epsilon in [0.0, 0.1, 1.0, 2.0_f64] {
            // q·δ(ln(1 + (e^ε − 1)/q)) of the Gaussian mechanism of sensitivity 2 (Balle, Barthe and Gaboardi 2018).
            let exact = q * gaussian::delta((epsilon.exp_m1() / q).ln_1p(), 2.0 / sigma).unwrap();
            assert_bounds(one.delta(epsilon).unwrap(), exact, 5e-3, &format!("{m} of {n} at {epsilon}"));
        }
    }
}

#[test]
fn batches_without_replacement_compose() {
    let rounds = fixed(2.0, 1000, 20).times(200);
    let replace = Account::new(&rounds, Neighbouring::Replace).unwrap().epsilon(1e-6).unwrap();
    // One half of the pair alone, and a pair that is worse than both halves; dp-accounting's Rényi bound is 3.8776.
    let half = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.02 }.times(200);
    let least = account(&half).epsilon(1e-6).unwrap();
    let most = Account::new(&half, Neighbouring::Replace).unwrap().epsilon(1e-6).unwrap();
    assert!(least <= replace && replace < most && replace < 3.8776, "{least} {replace} {most}");
    // A record that is zeroed out is replaced by a zero.
    assert_eq!(account(&rounds).epsilon(1e-6).unwrap(), replace);
    let whole = account(&fixed(2.0, 50, 50)).epsilon(1e-6).unwrap();
    assert_eq!(whole, gaussian::epsilon(1e-6, 0.5).unwrap());
    assert!(Account::new(&rounds, Neighbouring::AddRemove).is_err());
}

#[test]
fn everything_composes() {
    let parts = vec![
        Event::Gaussian { noise_multiplier: 4.0 },
        Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 }.times(300),
        Event::ApproximateDp { epsilon: 0.1, delta: 1e-9 },
        Event::Laplace { noise_multiplier: 10.0 },
        Event::DiscreteGaussian { standard_deviation: 20.0, sensitivity: 1 },
        Event::ExponentialMechanism { epsilon: 0.1 },
        Event::RandomAllocation { noise_multiplier: 2.0, batches_per_epoch: 20, participations: 1 },
    ];
    let alone: Vec<f64> = parts.iter().map(|part| account(part).epsilon(1e-7).unwrap()).collect();
    let all = account(&Event::Composed { events: parts });
    let epsilon = all.epsilon(1e-6).unwrap();
    let sum: f64 = alone.iter().sum();
    assert!(alone.iter().all(|one| *one < epsilon) && epsilon < sum, "{alone:?} {epsilon}");
    assert!((all.delta(epsilon).unwrap() / 1e-6 - 1.0).abs() < 1e-2);
}

#[test]
fn numbers_outside_their_range_are_refused() {
    for wrong in [
        Event::ApproximateDp { epsilon: -1.0, delta: 0.1 },
        Event::ApproximateDp { epsilon: 1.0, delta: 1.0 },
        Event::PureDp { epsilon: f64::NAN },
        Event::Laplace { noise_multiplier: 0.0 },
        Event::Laplace { noise_multiplier: 1e-4 },
        Event::DiscreteLaplace { noise_parameter: 0.0, sensitivity: 1 },
        Event::DiscreteGaussian { standard_deviation: 1e5, sensitivity: 1 },
        Event::ExponentialMechanism { epsilon: -0.1 },
        fixed(1.0, 10, 0),
        fixed(1.0, 10, 11),
        fixed(0.0, 10, 5),
    ] {
        let error = Account::new(&wrong, Neighbouring::ZeroOut).unwrap_err();
        assert!(matches!(error, AccountingError::Invalid { .. }), "{wrong:?}: {error}");
    }
}

/// The figures of dp-accounting 0.6.0 are from its own orders, so they differ a little either way.
#[test]
fn the_best_of_several_runs_agrees_with_dp_accounting() {
    let sampled = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 };
    let training = sampled.times(1000);
    let query = Event::Gaussian { noise_multiplier: 5.0 };
    for (run, mean, shape, peer) in [
        (&training, 10.0, Some(1.0), 4.431249579),
        (&training, 10.0, Some(0.0), 3.850612367),
        (&training, 10.0, Some(0.5), 4.158575328),
        (&training, 10.0, None, 4.670531360),
        (&query, 30.0, Some(1.0), 2.040938925),
        (&query, 30.0, Some(0.0), 1.651524833),
        (&query, 30.0, Some(0.5), 1.852535069),
        (&query, 30.0, None, 3.821546801),
    ] {
        let selected = Event::RepeatAndSelect { event: Box::new(run.clone()), mean, shape };
        let found = account(&selected).epsilon(1e-6).unwrap();
        assert!(
            (0.99..1.01).contains(&(found / peer)),
            "{} {mean} {shape:?}: {found}, peer {peer}",
            run.name()
        );
        let both = Event::Composed { events: vec![selected.clone(), query.clone()] };
        let more = account(&both).epsilon(1e-6).unwrap();
        assert!(more > found && account(&both).delta(more).unwrap() <= 1e-6 * 1.01, "{more} {found}");
        assert!(account(&both).rho().is_none() && account(&both).profile().is_err());
    }
}

#[test]
fn one_run_is_the_least_that_a_selection_costs() {
    let run = Event::Gaussian { noise_multiplier: 3.0 };
    let best = |mean, shape| {
        account(&Event::RepeatAndSelect { event: Box::new(run.clone()), mean, shape }).epsilon(1e-5).unwrap()
    };
    let once = account(&run).epsilon(1e-5).unwrap();
    assert!(once < best(1.0, Some(0.0)) && best(1.0, Some(0.0)) < best(3.0, Some(0.0)));
    assert!(best(3.0, Some(0.0)) < best(3.0, Some(1.0)) && best(3.0, Some(1.0)) < best(30.0, Some(1.0)));
    for (mean, shape) in [(0.5, Some(1.0)), (f64::NAN, None), (2.0, Some(-0.5)), (0.0, None)] {
        let wrong = Event::RepeatAndSelect { event: Box::new(run.clone()), mean, shape };
        assert!(Account::new(&wrong, Neighbouring::ZeroOut).is_err(), "{mean} {shape:?}");
    }
}

/// A closed form of F.
type Closed<'a> = &'a dyn Fn(f64) -> f64;

/// The best of K noisy scores has the density E[K·F^{K−1}]·f, a closed form; its δ is integrated on a fine grid. The account
/// must be no lower, and near it not absurdly high.
#[test]
fn the_best_of_several_runs_costs_no_less_than_its_integrated_delta() {
    let sigma = 2.0;
    let run = Event::Gaussian { noise_multiplier: sigma };
    let density = |x: f64, at: f64, weight: &dyn Fn(f64) -> f64| {
        let z = (x - at) / sigma;
        let f = (-z * z / 2.0).exp() / (sigma * std::f64::consts::TAU.sqrt());
        weight(accounting::normal::ln_cdf(z).exp()) * f
    };
    for mean in [2.0, 10.0, 40.0] {
        let geometric = move |cdf: f64| {
            let gamma = 1.0 / mean;
            gamma / (1.0 - (1.0 - gamma) * cdf).powi(2)
        };
        let poisson = move |cdf: f64| mean * (mean * (cdf - 1.0)).exp();
        let cases: [(Option<f64>, Closed<'_>); 2] = [(Some(1.0), &geometric), (None, &poisson)];
        for (shape, weight) in cases {
            let account = account(&Event::RepeatAndSelect { event: Box::new(run.clone()), mean, shape });
            for epsilon in [0.5_f64, 1.0, 2.0, 3.0] {
                let step = 1e-3;
                let excess = |x: f64, p: f64, q: f64| {
                    (density(x, p, weight) - epsilon.exp() * density(x, q, weight)).max(0.0) * step
                };
                let points = (0..40_000).map(|i| -18.0 + (f64::from(i) + 0.5) * step);
                let removed: f64 = points.clone().map(|x| excess(x, 1.0, 0.0)).sum();
                let added: f64 = points.map(|x| excess(x, 0.0, 1.0)).sum();
                let stated = account.delta(epsilon).unwrap();
                assert!(
                    stated >= removed.max(added),
                    "{mean} {shape:?} {epsilon}: {stated} {removed} {added}"
                );
            }
        }
    }
}
