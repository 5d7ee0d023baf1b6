//! Events: what they cost, what they refuse, and how they are written.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{
    Account, Event, MatrixMechanism, Neighbouring, Partition, Sampling, clipping, gaussian, renyi,
    user_level, zcdp,
};

use Neighbouring::{AddRemove, Replace, ZeroOut};

const RELATIONS: [Neighbouring; 3] = [ZeroOut, AddRemove, Replace];

fn epsilon(event: &Event, neighbouring: Neighbouring, delta: f64) -> f64 {
    Account::new(event, neighbouring).unwrap().epsilon(delta).unwrap()
}

fn poisson(noise_multiplier: f64, sampling_probability: f64) -> Event {
    Event::PoissonSampledGaussian { noise_multiplier, sampling_probability }
}

fn truncated(noise_multiplier: f64, sampling_probability: f64, dataset_size: u64, batch_cap: u64) -> Event {
    Event::TruncatedPoissonGaussian { noise_multiplier, sampling_probability, dataset_size, batch_cap }
}

fn banded(partition: Partition) -> MatrixMechanism {
    MatrixMechanism::cyclic_poisson(1.0, 0.005, 8, 2000, partition)
}

/// One of each kind.
fn all() -> Vec<Event> {
    vec![
        Event::Gaussian { noise_multiplier: 2.0 },
        poisson(1.0, 0.1),
        truncated(1.5, 0.1, 100, 12),
        Event::MixtureOfGaussians {
            noise_multiplier: 2.0,
            sensitivities: vec![0.0, 0.5, 2.0],
            probabilities: vec![0.5, 0.3, 0.2],
        },
        poisson(2.0, 0.2).times(7),
        Event::Composed { events: vec![poisson(2.0, 0.2), Event::Gaussian { noise_multiplier: 3.0 }] },
        Event::Tree {
            noise_multiplier: 7.0,
            iterations: 1360,
            min_sep: 623,
            max_participations: 2,
            restarts: vec![700],
            completion: true,
        },
        Event::ZCdp { rho: 0.05 },
        Event::MatrixMechanism(banded(Partition::Independent)),
        Event::MatrixMechanism(MatrixMechanism {
            sampling: Sampling::AnyOrder,
            plan_digest: "00ff".into(),
            ..banded(Partition::Independent)
        }),
    ]
}

#[test]
fn a_count_is_composing_that_often() {
    for event in all() {
        let name = event.name();
        let often = Event::Composed { events: vec![event.clone(); 5] };
        let nested = Event::Composed { events: vec![event.clone().times(2)] }.times(2);
        let nested = Event::Composed { events: vec![nested, event.clone()] };
        let once = epsilon(&event, ZeroOut, 1e-6);
        let five = epsilon(&event.times(5), ZeroOut, 1e-6);
        assert!(five > 1.2 * once, "{name}: five times {five}, once {once}");
        assert!((epsilon(&often, ZeroOut, 1e-6) / five - 1.0).abs() < 1e-9, "{name}");
        assert!((epsilon(&nested, ZeroOut, 1e-6) / five - 1.0).abs() < 1e-9, "{name}");
    }
    assert_eq!(epsilon(&poisson(1.0, 0.1).times(0), ZeroOut, 1e-6), 0.0);
    assert!(Account::new(&poisson(1.0, 0.1).times(u64::MAX).times(3), ZeroOut).is_err());
    assert!(Account::new(&poisson(1.0, 0.1).times(1 << 41), ZeroOut).is_err());
}

#[test]
fn written_and_read_again() {
    for event in all() {
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(&format!(r#"{{"kind":"{}""#, event.name())), "{text}");
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    }
    let text = r#"{"kind":"gaussian","noise_multiplier":1.0,"count":3}"#;
    assert!(serde_json::from_str::<Event>(text).is_err(), "unknown fields are refused, not ignored");
}

#[test]
fn replacement_is_twice_the_sensitivity_without_sampling() {
    let gaussian = Event::Gaussian { noise_multiplier: 2.0 };
    let want = gaussian::epsilon(1e-6, 1.0).unwrap();
    assert_eq!(epsilon(&gaussian, Replace, 1e-6), want);
    assert_eq!(epsilon(&gaussian, AddRemove, 1e-6), gaussian::epsilon(1e-6, 0.5).unwrap());
    assert_eq!(epsilon(&poisson(2.0, 1.0), Replace, 1e-6), want);
    let zcdp = Event::ZCdp { rho: 0.05 };
    assert_eq!(epsilon(&zcdp, Replace, 1e-6), zcdp::generic_epsilon(0.2, 1e-6).unwrap());
    assert_eq!(Account::new(&gaussian, Replace).unwrap().rho(), Some(0.5));
    assert_eq!(Account::new(&poisson(1.0, 0.5), Replace).unwrap().rho(), None);
}

#[test]
fn replacement_under_sampling_is_a_peers() {
    // dp-accounting 0.6.0, REPLACE_ONE, grid 1e-3.
    for (sigma, q, rounds, delta, peer) in [
        (1.0, 0.01, 100, 1e-6, 1.1105256297),
        (2.0, 0.1, 50, 1e-5, 2.9551500756),
        (4.0, 0.5, 10, 1e-6, 3.7153079175),
        (0.8, 0.05, 30, 1e-6, 5.1618682721),
    ] {
        let got = epsilon(&poisson(sigma, q).times(rounds), Replace, delta);
        assert!((got / peer - 1.0).abs() < 1e-4, "{sigma} {q}: {got}, peer {peer}");
    }
}

#[test]
fn capped_batches_are_between_no_cap_and_a_peer() {
    // dp-accounting 0.6.0, grid 1e-3; it bounds a full batch by ±2 in every relation, which is looser than here.
    for (event, rounds, delta, peers) in [
        (truncated(1.0, 0.01, 1000, 15), 100, 1e-6, [5.241937072, 5.241937072, 5.280445344]),
        (truncated(1.0, 0.01, 1000, 40), 100, 1e-6, [0.954305435, 0.954305435, 1.110525630]),
        (truncated(2.0, 0.1, 100, 8), 50, 1e-5, [4.428020549, 4.428020549, 4.572607321]),
        (truncated(0.8, 0.05, 400, 18), 30, 1e-6, [19.403197085, 19.403197085, 19.469859353]),
    ] {
        let Event::TruncatedPoissonGaussian { noise_multiplier, sampling_probability, .. } = event else {
            unreachable!()
        };
        let whole = poisson(noise_multiplier, sampling_probability).times(rounds);
        for (relation, peer) in RELATIONS.into_iter().zip(peers) {
            let got = epsilon(&event.clone().times(rounds), relation, delta);
            assert!(got <= peer * (1.0 + 1e-3), "{event:?} {relation:?}: {got}, peer {peer}");
            assert!(got >= epsilon(&whole, relation, delta) * (1.0 - 1e-4), "{event:?} {relation:?}: {got}");
        }
        let replace = epsilon(&event.times(rounds), Replace, delta);
        assert!((replace / peers[2] - 1.0).abs() < 1e-3, "{replace}, peer {}", peers[2]);
    }
}

#[test]
fn user_level_figures_of_a_peer() {
    // dp-accounting 0.6.0, mixture of Gaussians, grid 1e-4: σ = 1, q = 0.01, T = 2000, δ = 1e-6.
    for (group, peer) in [(1, 2.955257998), (4, 14.53498083), (16, 90.90120793)] {
        let event = user_level::round(1.0, 0.01, group).unwrap().times(2000);
        let got = epsilon(&event, ZeroOut, 1e-6);
        assert!((-1e-5..5e-5).contains(&(got / peer - 1.0)), "{group}: {got}, peer {peer}");
    }
    // Sampled always, a user's G records are one Gaussian of G times the sensitivity.
    let event = user_level::round(8.0, 1.0, 4).unwrap();
    let got = epsilon(&event, ZeroOut, 1e-6);
    assert!((got / gaussian::epsilon(1e-6, 0.5).unwrap() - 1.0).abs() < 1e-4, "{got}");
    assert!(user_level::round(1.0, 0.1, 0).is_err() && user_level::round(1.0, 0.1, (1 << 20) + 1).is_err());
}

#[test]
fn cyclic_poisson_is_fewer_rounds_at_a_higher_probability() {
    let event = Event::MatrixMechanism(banded(Partition::Independent));
    let got = epsilon(&event, ZeroOut, 1e-6);
    // dp-accounting 0.6.0, grid 1e-4.
    assert!((got / 4.826144242 - 1.0).abs() < 5e-5, "{got}");
    assert_eq!(got, epsilon(&poisson(1.0, 0.04).times(250), ZeroOut, 1e-6));
    // Columns of norm 2 need twice the noise.
    let long =
        MatrixMechanism { largest_column_norm: 2.0, noise_multiplier: 2.0, ..banded(Partition::EqualSplit) };
    assert_eq!(epsilon(&Event::MatrixMechanism(long), ZeroOut, 1e-6), got);
    let uneven = MatrixMechanism { iterations: 2001, ..banded(Partition::Independent) };
    let one_more = epsilon(&poisson(1.0, 0.04).times(251), ZeroOut, 1e-6);
    assert_eq!(epsilon(&Event::MatrixMechanism(uneven), ZeroOut, 1e-6), one_more);
}

#[test]
fn what_cannot_be_accounted_for_says_why() {
    let refused = |event: Event, relation: Neighbouring, part: &str| {
        let message = event.supports(relation).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    for event in all() {
        for relation in [ZeroOut, AddRemove] {
            event.supports(relation).unwrap();
        }
        let mixture = matches!(event, Event::MixtureOfGaussians { .. });
        assert_eq!(event.supports(Replace).is_err(), mixture, "{}", event.name());
    }
    refused(all()[3].clone(), Replace, "no worst pair");
    refused(Event::MatrixMechanism(banded(Partition::EqualSplit)), AddRemove, "groups of one size");
    Event::MatrixMechanism(banded(Partition::EqualSplit)).supports(Replace).unwrap();
    let full = MatrixMechanism { bands: None, ..banded(Partition::Independent) };
    refused(Event::MatrixMechanism(full), ZeroOut, "bands only");
    let wide = MatrixMechanism { bands: Some(300), ..banded(Partition::Independent) };
    refused(Event::MatrixMechanism(wide), ZeroOut, "is 1.5; allowed: at most 1");
    refused(truncated(1.0, 0.1, 0, 5), ZeroOut, "data set size is 0");
    let mut deep = poisson(1.0, 0.1);
    for _ in 0..100 {
        deep = deep.times(1);
    }
    refused(deep, ZeroOut, "64 deep");
}

#[test]
fn what_is_only_zcdp_counts_as_the_worst_of_its_kind() {
    let sampled = poisson(2.0, 0.1).times(20);
    let near_exact = epsilon(&sampled, ZeroOut, 1e-6);
    let with = |rho| {
        let events = vec![sampled.clone(), Event::ZCdp { rho }, Event::Gaussian { noise_multiplier: 1e3 }];
        epsilon(&Event::Composed { events }, ZeroOut, 1e-6)
    };
    let little = with(1e-9);
    let more = with(0.05);
    assert!(little > near_exact && little < 1.001 * near_exact, "{little} {near_exact}");
    assert!(more > little && more < little + zcdp::generic_epsilon(0.05, 1e-6).unwrap(), "{more} {little}");
    let account =
        Account::new(&Event::Composed { events: vec![sampled, Event::ZCdp { rho: 0.05 }] }, ZeroOut);
    let delta = account.as_ref().unwrap().delta(more).unwrap();
    assert!(delta > 0.3e-6 && delta <= 1.0001e-6, "{delta}");
    assert!(account.unwrap().profile().unwrap().epsilon(1e-6).unwrap() <= 1.0001 * more);
}

#[test]
fn a_part_that_is_only_zcdp_costs_no_less_than_a_gaussian_of_its_rho_and_hardly_more() {
    // 100 rounds and ρ = 0.01: 1.304 by Rényi divergences alone, 0.848 if the part is Gaussian.
    for (sigma, q, count, rho, most) in [
        (1.0, 0.01, 100, 0.01, 1.12),
        (1.0, 0.01, 100, 1e-6, 1.06),
        (2.0, 0.1, 20, 5.0, 21.0),
        (1.0, 0.01, 1000, 0.3, 5.0),
    ] {
        let with = |part| {
            let events = vec![poisson(sigma, q).times(count), part];
            epsilon(&Event::Composed { events }, ZeroOut, 1e-6)
        };
        let known = with(Event::Gaussian { noise_multiplier: f64::sqrt(0.5 / rho) });
        let bound = with(Event::ZCdp { rho });
        println!("{rho}: {known} {bound}");
        assert!(bound > known && bound < most, "{rho}: {bound} for {known}");
    }
}

#[test]
#[allow(clippy::excessive_precision)]
fn renyi_divergences_against_quadrature() {
    // Thirty digits, by adaptive quadrature.
    for (order, sigma, q, want) in [
        (2.0, 1.0, 0.1, 0.017_036_863_236_176_551_7),
        (8.5, 2.0, 0.05, 0.003_345_656_395_352_751_12),
        (32.0, 4.0, 0.5, 0.444_779_481_971_411_013),
    ] {
        let remove = Account::new(&poisson(sigma, q), ZeroOut).unwrap().profile().unwrap().remove;
        let got = renyi::divergence(&remove, order).unwrap();
        assert!((got / want - 1.0).abs() < 1e-11, "{order} {sigma} {q}: {got}");
    }
    assert!(
        renyi::divergence(&Account::new(&poisson(1.0, 0.1), ZeroOut).unwrap().profile().unwrap().add, 1.0)
            .is_err()
    );
}

#[test]
fn clipping_costs_a_share_of_the_noise() {
    let split = clipping::adaptive_noise_multiplier(1.0, 1.0).unwrap();
    assert!((split - (4.0f64 / 3.0).sqrt()).abs() < 1e-15);
    // z⁻² = z_Δ⁻² + (2σ_b)⁻²: together they cost what z costs alone.
    let z = 0.8;
    let bits = 3.0;
    let split = clipping::adaptive_noise_multiplier(z, bits).unwrap();
    assert!((split.powi(-2) + (2.0 * bits).powi(-2) - f64::powi(z, -2)).abs() < 1e-12);
    let message = clipping::adaptive_noise_multiplier(1.0, 0.5).unwrap_err().to_string();
    assert_eq!(message, "bit noise is 0.5; allowed: above half the noise multiplier");
    let inflated = clipping::inflated_clip_norm(2.0, 10.0, 1 << 20).unwrap();
    let want = (4.0 + 1048576.0 / 400.0 + 0.2 + 1024.0 / 200.0_f64).sqrt();
    assert!((inflated - want).abs() < 1e-12 && clipping::inflated_clip_norm(2.0, 10.0, 1000).is_err());
    assert!((clipping::inflated_clip_norm(2.0, 1e9, 1 << 20).unwrap() - 2.0).abs() < 1e-6);
}

#[test]
fn a_run_that_may_leave_its_mechanism_adds_to_delta() {
    let run =
        MatrixMechanism { sensitivity: 1.0, sampling: Sampling::AnyOrder, ..banded(Partition::Independent) };
    let own = Account::new(&Event::MatrixMechanism(run.clone()), ZeroOut).unwrap();
    let event = Event::MatrixMechanism(MatrixMechanism { failure_probability: 1e-9, ..run });
    let read: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
    assert_eq!(read, event);
    let account = Account::new(&event, ZeroOut).unwrap();
    let added = account.delta(1.0).unwrap() - own.delta(1.0).unwrap();
    assert!((added / (1e-9 * (1.0 + 1.0_f64.exp())) - 1.0).abs() < 1e-5, "{added}");
    assert!(account.epsilon(1e-6).unwrap() > own.epsilon(1e-6).unwrap());
}
