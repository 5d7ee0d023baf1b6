//! Capped batches against the law of the batches themselves, on data that make a cut show.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::Neighbouring::{self, AddRemove, Replace, ZeroOut};
use accounting::{Account, BatchCap, Event, MatrixMechanism, Partition, Sampling};

fn cyclic(sigma: f64, q: f64, bands: u64, iterations: u64, cap: BatchCap) -> Event {
    let partition = Partition::EqualSplit;
    let run = MatrixMechanism::cyclic_poisson(sigma, q, bands, iterations, partition);
    let partition = if bands == 1 { Partition::Independent } else { partition };
    let sampling = Sampling::CyclicPoisson { sampling_probability: q, partition, cap: Some(cap) };
    Event::MatrixMechanism(MatrixMechanism { sampling, ..run })
}

fn poisson(sigma: f64, q: f64, BatchCap { batch_cap, dataset_size }: BatchCap) -> Event {
    Event::TruncatedPoissonGaussian {
        noise_multiplier: sigma,
        sampling_probability: q,
        dataset_size,
        batch_cap,
    }
}

fn account(event: &Event, relation: Neighbouring) -> Account {
    Account::new(event, relation).unwrap()
}

#[test]
fn one_group_is_plain_poisson_sampling() {
    // DP-SGD's figures at these caps; dp-accounting 0.6.0 says 3.30564 at 700 and, looser, 17.12 at 600.
    for (batch_cap, expected) in
        [(600, 15.734), (625, 10.903), (650, 7.256), (675, 5.304), (700, 3.306), (725, 2.958)]
    {
        let cap = BatchCap { batch_cap, dataset_size: 60_000 };
        let run = account(&cyclic(1.0, 0.01, 1, 2000, cap), ZeroOut).epsilon(1e-6).unwrap();
        let plain = account(&poisson(1.0, 0.01, cap).times(2000), ZeroOut).epsilon(1e-6).unwrap();
        assert_eq!(run, plain);
        assert!((run - expected).abs() < 6e-4, "cap {batch_cap}: {run}, expected {expected}");
    }
}

/// A mixture of Gaussians on the line, as (weight, centre).
type Law = Vec<(f64, f64)>;

/// The sum of one round where each of `others` records is at −1 and the target's is at `target` (`None`: not there), of
/// which at most `cap` are kept.
fn law(others: u64, q: f64, cap: u64, target: Option<f64>) -> Law {
    let mut law = Law::new();
    let mut mass = (1.0 - q).powi(others as i32);
    for k in 0..=others {
        let alone = -(k.min(cap) as f64);
        match target {
            None => law.push((mass, alone)),
            Some(at) => {
                let kept = q * (cap as f64 / (k + 1) as f64).min(1.0);
                law.push((mass * (1.0 - kept), alone));
                law.push((mass * kept, at - (k.min(cap - 1) as f64)));
            }
        }
        mass *= (others - k) as f64 / (k + 1) as f64 * q / (1.0 - q);
    }
    law
}

/// ∫ (P − e^ε Q)₊ by the trapezoid rule.
fn hockey_stick(p: &Law, q: &Law, sigma: f64, epsilon: f64) -> f64 {
    let density = |law: &Law, x: f64| -> f64 {
        law.iter().map(|(w, s)| w * (-0.5 * ((x - s) / sigma).powi(2)).exp()).sum::<f64>()
    };
    let step = sigma / 400.0;
    let ends = |law: &Law| law.iter().fold((0.0f64, 0.0f64), |(l, h), (_, s)| (l.min(*s), h.max(*s)));
    let low = ends(p).0.min(ends(q).0) - 12.0 * sigma;
    let high = ends(p).1.max(ends(q).1) + 12.0 * sigma;
    let places = ((high - low) / step) as usize;
    let excess = (0..places).map(|i| {
        let x = low + i as f64 * step;
        (density(p, x) - epsilon.exp() * density(q, x)).max(0.0)
    });
    excess.sum::<f64>() * step / (sigma * (2.0 * std::f64::consts::PI).sqrt())
}

#[test]
fn no_delta_is_below_that_of_an_attack() {
    let mut tight = 0.0f64;
    for (size, cap, q, sigma) in [
        (10, 10, 1.0 - 1e-12, 1.0),
        (10, 3, 0.5, 0.7),
        (11, 3, 0.3, 1.0),
        (20, 5, 0.4, 2.0),
        (30, 2, 0.2, 1.0),
        (7, 7, 0.9, 0.8),
        (1, 1, 0.5, 1.0),
    ] {
        for groups in [1u64, 2, 3] {
            let cap_of = BatchCap { batch_cap: cap, dataset_size: size };
            let event = cyclic(sigma, q / groups as f64, groups, 1, cap_of);
            for relation in [ZeroOut, AddRemove, Replace] {
                if groups > 1 && relation == AddRemove {
                    assert!(Account::new(&event, relation).is_err());
                    continue;
                }
                let account = account(&event, relation);
                // The others of a group, whose sizes may differ by one; both data sets' sizes for adding.
                let mut others = vec![size.div_ceil(groups) - 1, (size / groups).max(1) - 1];
                if relation == AddRemove {
                    others.push(size);
                }
                for others in others {
                    let p = law(others, q, cap, Some(1.0));
                    let q = match relation {
                        ZeroOut => law(others, q, cap, Some(0.0)),
                        AddRemove => law(others, q, cap, None),
                        Replace => law(others, q, cap, Some(-1.0)),
                    };
                    for epsilon in [0.0, 0.3, 1.0, 2.0] {
                        let delta = account.delta(epsilon).unwrap();
                        for (one, other) in [(&p, &q), (&q, &p)] {
                            let real = hockey_stick(one, other, sigma, epsilon);
                            assert!(
                                delta >= real - 1e-7,
                                "{size} {cap} {q:?} {groups} {relation:?} {epsilon}: {delta} below {real}"
                            );
                            tight = tight.max(real / delta);
                        }
                    }
                }
            }
        }
    }
    assert!(tight > 0.98, "the account is loose: {tight}");
}

#[test]
fn one_record_more_than_the_public_number_is_charged_for() {
    // Ten records, all of them in every batch of at most ten: the eleventh pushes one out.
    let cap = BatchCap { batch_cap: 10, dataset_size: 10 };
    let event = poisson(1.0, 1.0, cap);
    let p = vec![(1.0 / 11.0, -10.0), (10.0 / 11.0, -8.0)];
    let q = vec![(1.0, -10.0)];
    let said = account(&event, AddRemove).delta(1.0).unwrap();
    let real = hockey_stick(&p, &q, 1.0, 1.0).max(hockey_stick(&q, &p, 1.0, 1.0));
    assert!(said >= real && said < 1.2 * real, "{said}, {real}");
    // Where the number stays as it is, all ten are kept.
    let kept = account(&event, ZeroOut).delta(1.0).unwrap();
    let one = hockey_stick(&vec![(1.0, 1.0)], &vec![(1.0, 0.0)], 1.0, 1.0);
    assert!((kept / one - 1.0).abs() < 1e-3, "{kept}, {one}");
}

#[test]
fn a_cap_beside_groups_of_secret_size_is_refused_by_name() {
    let partition = Partition::Independent;
    let run = MatrixMechanism::cyclic_poisson(1.0, 0.01, 4, 100, partition);
    let cap = Some(BatchCap { batch_cap: 50, dataset_size: 1000 });
    let sampling = Sampling::CyclicPoisson { sampling_probability: 0.01, partition, cap };
    for relation in Neighbouring::ALL {
        let event = Event::MatrixMechanism(MatrixMechanism { sampling, ..run.clone() });
        let error = Account::new(&event, relation).unwrap_err().to_string();
        assert!(error.contains("cap on batches of independent groups"), "{error}");
    }
    let text = serde_json::to_string(&Event::MatrixMechanism(MatrixMechanism { sampling, ..run })).unwrap();
    assert!(text.contains(r#""cap":{"batch_cap":50,"dataset_size":1000}"#), "{text}");
    // An event without a cap is written as before caps were known, and reads the same.
    let plain = Event::MatrixMechanism(MatrixMechanism::cyclic_poisson(1.0, 0.01, 4, 100, partition));
    assert!(!serde_json::to_string(&plain).unwrap().contains("cap"));
}
