//! Privacy-loss distributions against exact values, against themselves, and against a peer.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::pld::{ACCURACY, Composition, Pair, Profile, Round};
use accounting::{AccountingError, Direction, Neighbouring, amplification, gaussian, summary};
use proptest::prelude::*;

/// What a figure may lie above the exact one by, relatively: the accuracy is an estimate.
const ABOVE: f64 = 2.5 * ACCURACY;

fn poisson(sigma: f64, q: f64, rounds: u64) -> Profile {
    amplification::profile(sigma, q, rounds, Neighbouring::ZeroOut).unwrap()
}

fn gaussians(mus: &[(f64, u64)]) -> Composition {
    let mut composition = Composition::default();
    for (mu, count) in mus {
        composition.add(Pair::gaussian(*mu).unwrap().into(), *count).unwrap();
    }
    composition
}

/// At or above the exact figure, and not by much.
fn assert_upper(got: f64, exact: f64, above: f64, what: &str) {
    let off = got / exact - 1.0;
    assert!((-1e-11..above).contains(&off), "{what}: {got}, exactly {exact}, off by {off:e}");
}

#[test]
fn gaussian_epsilon_is_met_from_above_at_any_delta() {
    for mu in [0.01, 0.1, 1.0, 5.0, 100.0, 1e4] {
        for delta in [0.4, 1e-3, 1e-10, 1e-100, 1e-290] {
            let exact = gaussian::epsilon(delta, mu).unwrap();
            let got = gaussians(&[(mu, 1)]).epsilon(delta, ACCURACY);
            let got = got.unwrap_or_else(|error| panic!("mu {mu}: {error}"));
            assert!(!got.coarsened && got.places < 20_000, "{got:?}");
            if exact == 0.0 {
                assert_eq!(got.value, 0.0);
                continue;
            }
            assert_upper(got.value, exact, ABOVE, &format!("mu {mu}, delta {delta}"));
            let got = gaussians(&[(mu, 1)]).delta(exact, ACCURACY).unwrap();
            assert_upper(got.value, delta, 300.0 * ACCURACY, &format!("delta of mu {mu}, {exact}"));
        }
    }
}

#[test]
fn compositions_of_gaussians_are_gaussian() {
    for (mus, whole) in [
        (vec![(0.1, 100)], 1.0),
        (vec![(0.02, 10_000)], 2.0),
        (vec![(0.3, 1), (0.4, 1)], 0.5),
        (vec![(0.6, 4), (0.1, 25), (1.2, 1)], 1.769_180_601_295_413_3),
    ] {
        for delta in [1e-2, 1e-6, 1e-30] {
            let exact = gaussian::epsilon(delta, whole).unwrap();
            let got = gaussians(&mus).epsilon(delta, ACCURACY).unwrap().value;
            assert_upper(got, exact, ABOVE, &format!("{mus:?} at {delta}"));
        }
    }
}

#[test]
#[allow(clippy::excessive_precision)]
fn one_sampled_round_against_thirty_digits() {
    // (ε, σ, q, δ of removing, δ of adding), from the closed form.
    let known = [
        (0.5, 1.0, 0.1, 0.002_032_536_920_340_357_98, 0.0),
        (1.0, 1.0, 0.01, 2.732_009_261_546_131_48e-9, 0.0),
        (4.0, 0.5, 0.3, 0.007_864_792_010_935_643_59, 0.0),
        (0.02, 2.0, 0.05, 0.004_311_437_687_127_193_38, 0.001_593_063_686_764_275_64),
        (8.0, 1.0, 0.01, 3.754_118_494_862_475_71e-37, 0.0),
        (0.05, 0.3, 0.2, 0.178_607_932_941_684_53, 0.141_550_512_882_236_429),
        (0.15, 0.3, 0.2, 0.174_567_304_700_353_937, 0.058_824_727_740_950_439_1),
    ];
    for (epsilon, sigma, q, remove, add) in known {
        let profile = poisson(sigma, q, 1);
        let got = profile.remove.delta(epsilon, ACCURACY).unwrap().value;
        assert_upper(got, remove, 1e-2, &format!("remove {epsilon} {sigma} {q}"));
        let got = profile.add.delta(epsilon, ACCURACY).unwrap().value;
        if add > 0.0 {
            assert_upper(got, add, 1e-2, &format!("add {epsilon} {sigma} {q}"));
        } else {
            assert!(got < 1e-9, "add {epsilon} {sigma} {q}: {got}, exactly 0");
        }
        assert_eq!(profile.delta(epsilon).unwrap(), profile.remove.delta(epsilon, ACCURACY).unwrap().value);
    }
}

#[test]
fn negative_epsilon_is_the_other_direction() {
    // δ_PQ(−ε) = 1 − e^−ε + e^−ε δ_QP(ε).
    let profile = poisson(1.0, 0.2, 5);
    for epsilon in [0.1, 0.4, 1.0] {
        let back = profile.remove.delta(-epsilon, 1e-7).unwrap().value;
        let there = profile.add.delta(epsilon, 1e-7).unwrap().value;
        let want = -(-epsilon).exp_m1() + (-epsilon).exp() * there;
        assert!((back - want).abs() < 1e-5, "{epsilon}: {back}, {want}");
    }
}

#[test]
fn figures_of_a_peer() {
    // dp-accounting 0.6.0, grid 1e-4, connect-the-dots, both directions.
    for (sigma, q, rounds, delta, peer) in [
        (1.0, 0.01, 2000, 1e-6, 2.955257999),
        (0.6, 0.001, 10_000, 1e-7, 3.844952523),
        (2.0, 0.2, 64, 1e-6, 4.497867692),
        (1.0, 0.04, 250, 1e-6, 4.826144242),
        (0.29402445953736, 0.0053492771178731, 1, 1e-10, 18.67522876),
        (0.45901156103867413, 0.0006029793564096633, 1000, 1e-8, 6.673249782),
        (1.6035642401503778, 0.07971849385525093, 1000, 1e-8, 11.298426),
    ] {
        let profile = poisson(sigma, q, rounds);
        let got = profile.epsilon(delta).unwrap();
        let off = got / peer - 1.0;
        assert!((-1e-5..5e-5).contains(&off), "{sigma} {q} {rounds}: {got}, peer {peer}");
    }
}

#[test]
fn a_finer_grid_converges_from_above() {
    let profile = poisson(1.0, 0.01, 2000);
    let fine = profile.epsilon_figure(1e-6, 1e-7).unwrap();
    let mut last = f64::INFINITY;
    for accuracy in [1e-2, 1e-3, 1e-4, 1e-5] {
        let got = profile.epsilon_figure(1e-6, accuracy).unwrap().value;
        assert_upper(got, fine.value, 1.5 * accuracy + 1e-6, &format!("accuracy {accuracy}"));
        assert!(got < last, "{accuracy}: {got}, coarser {last}");
        last = got;
    }
}

#[test]
fn memory_is_bounded_at_any_noise() {
    for (sigma, q, rounds) in [
        (0.3, 0.5, 10),
        (0.05, 0.01, 1000),
        (0.01, 0.5, 100),
        (1e-3, 0.1, 100),
        (1e-5, 1e-6, 3),
        (1e4, 1e-9, 1 << 40),
        (1e6, 1.0, 1),
        (0.5, 1e-4, 1_000_000),
    ] {
        let profile = poisson(sigma, q, rounds);
        for delta in [0.3, 1e-6, 1e-50] {
            let figure = match profile.epsilon_figure(delta, 1e-3) {
                Ok(figure) => figure,
                Err(AccountingError::OutOfReach { .. }) => continue,
                Err(other) => panic!("{sigma} {q} {rounds} {delta}: {other}"),
            };
            assert!(
                figure.value.is_finite() && figure.value >= 0.0,
                "{sigma} {q} {rounds} {delta}: {figure:?}"
            );
            assert!(figure.places <= 1 << 22, "{figure:?}");
        }
    }
    // The loss of accuracy is reported.
    assert!(poisson(0.1, 0.1, 100).add.epsilon(1e-6, ACCURACY).unwrap().coarsened);
}

#[test]
fn adding_is_bounded_by_the_largest_loss() {
    // Adding a record never loses more than −ln(1−q) a round.
    for (sigma, q, rounds) in [(0.02, 0.1, 100), (0.1, 0.1, 100), (0.3, 0.5, 10)] {
        let got = poisson(sigma, q, rounds).add.epsilon(1e-6, ACCURACY).unwrap().value;
        let most = -(-q).ln_1p() * rounds as f64;
        assert!(got > 0.99 * most && got < 1.001 * most, "{sigma} {q} {rounds}: {got}, most {most}");
    }
}

#[test]
fn classes_are_mixed() {
    let class = |mu| Pair::gaussian(mu).unwrap();
    let mixed = Round::of_classes(vec![(0.25, class(1.0)), (0.75, class(0.5))]).unwrap();
    let got = Composition::repeated(mixed, 1).unwrap().delta(1.0, ACCURACY).unwrap().value;
    let exact = 0.25 * gaussian::delta(1.0, 1.0).unwrap() + 0.75 * gaussian::delta(1.0, 0.5).unwrap();
    assert_upper(got, exact, 1e-2, "two classes");
    assert!(Round::of_classes(vec![(0.5, class(1.0))]).is_err());
}

#[test]
fn power_of_the_best_attack_on_a_gaussian() {
    // Φ(Φ⁻¹(α) + μ).
    for (mu, fpr, tpr) in [
        (1.0, 0.01, 0.092_364_4),
        (1.0, 1e-6, 8.7e-5),
        (0.5, 0.05, 0.126_349_1),
        (3.0, 1e-3, 0.464_185_7),
        (2.0, 0.5, 0.977_249_9),
    ] {
        let side = gaussians(&[(mu, 1)]);
        let profile = Profile { remove: side.clone(), add: side };
        let got = summary::true_positive_rate(&profile, fpr).unwrap();
        assert!((got / tpr - 1.0).abs() < 6e-3 && got > tpr * 0.995, "{mu} {fpr}: {got}, {tpr}");
        let mu_again = summary::gaussian_mu_over(&profile, &[1e-3, 1e-6, 1e-9]).unwrap();
        assert_upper(mu_again, mu, 1e-4, "mu");
    }
}

#[test]
fn groups_by_black_box_cost_more_than_by_mixture() {
    let one = poisson(2.0, 0.05, 10);
    let black_box = summary::group_epsilon(&one, 4, 1e-6).unwrap();
    let event = accounting::user_level::round(2.0, 0.05, 4).unwrap().times(10);
    let mixture = accounting::Account::new(&event, Neighbouring::ZeroOut).unwrap().epsilon(1e-6).unwrap();
    assert!(black_box > mixture && mixture > one.epsilon(1e-6).unwrap(), "{black_box} {mixture}");
    assert_eq!(summary::group_epsilon(&one, 1, 1e-6).unwrap(), one.epsilon(1e-6).unwrap());
}

#[test]
fn refusals_name_the_value_and_the_range() {
    let refused = |pair: Result<Pair, AccountingError>, parts: [&str; 2]| {
        let message = pair.unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let poisson = |sigma, q| Pair::poisson(sigma, q, Neighbouring::ZeroOut, Direction::Remove);
    refused(poisson(0.0, 0.1), ["noise multiplier is 0", "above zero"]);
    refused(poisson(f64::NAN, 0.1), ["noise multiplier is NaN", "above zero"]);
    refused(poisson(1.0, 1.5), ["sampling probability is 1.5", "at most 1"]);
    refused(poisson(1.0, 0.0), ["sampling probability is 0", "above 0"]);
    let mixture = |mixture: &[(f64, f64)]| Pair::mixture(1.0, mixture, Direction::Remove);
    refused(mixture(&[(0.5, 0.0), (0.4, 1.0)]), ["is 0.9", "allowed: 1"]);
    refused(mixture(&[(0.5, 0.0), (0.5, -1.0)]), ["sensitivity is -1", "at least zero"]);
    refused(mixture(&[]), ["is 0", "1 to 4096"]);
    let composition = gaussians(&[(1.0, 1)]);
    assert!(composition.epsilon(0.0, ACCURACY).is_err() && composition.epsilon(1.0, ACCURACY).is_err());
    assert!(composition.delta(f64::INFINITY, ACCURACY).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn more_of_anything_costs_more(
        ln_sigma in -1.0..1.5_f64,
        ln_q in -6.0..-0.1_f64,
        rounds in 1..200_u64,
        ln_delta in -25.0..-4.0_f64,
    ) {
        let sigma = ln_sigma.exp();
        let q = ln_q.exp();
        let delta = ln_delta.exp();
        let cost = |sigma, q, rounds, delta| amplification::epsilon(sigma, q, rounds, delta).unwrap();
        let here = cost(sigma, q, rounds, delta);
        prop_assert!(cost(sigma * 1.1, q, rounds, delta) <= here);
        prop_assert!(cost(sigma, (q * 1.1).min(1.0), rounds, delta) >= here);
        prop_assert!(cost(sigma, q, rounds + 1 + rounds / 10, delta) >= here);
        prop_assert!(cost(sigma, q, rounds, delta / 3.0) >= here);
        let all = gaussian::epsilon(delta, (rounds as f64).sqrt() / sigma).unwrap();
        prop_assert!(here <= all * (1.0 + 1e-3), "sampling amplifies: {here} {all}");
        // The promise itself: δ at the reported ε is the requested one.
        let kept = poisson(sigma, q, rounds).delta(here.max(1e-9)).unwrap();
        prop_assert!(here == 0.0 || kept <= delta * 1.02, "{kept} {delta}");
    }

    #[test]
    fn replacing_costs_at_least_as_much(ln_sigma in -0.5..1.5_f64, q in 0.01..0.9_f64, rounds in 1..50_u64) {
        let sigma = ln_sigma.exp();
        let replace = amplification::profile(sigma, q, rounds, Neighbouring::Replace).unwrap();
        prop_assert!(replace.epsilon(1e-6).unwrap() >= poisson(sigma, q, rounds).epsilon(1e-6).unwrap() * (1.0 - 1e-4));
        prop_assert_eq!(replace.remove, replace.add);
    }
}

/// Near ε = 0 a grid as coarse as far out made δ 7 % too large.
#[test]
fn delta_is_near_where_epsilon_is_all_but_nothing() {
    let sigma = 2.603_727_f64;
    let q = 0.005_322_8;
    let delta = 0.010_681_275;
    let profile = poisson(sigma, q, 160);
    let epsilon = profile.epsilon(delta).unwrap();
    assert!(epsilon > 0.0 && epsilon < 1e-3, "{epsilon}");
    let kept = profile.delta(epsilon).unwrap();
    assert!((delta * (1.0 - 1e-3)..=delta * 1.005).contains(&kept), "{kept} for {delta}");
}
