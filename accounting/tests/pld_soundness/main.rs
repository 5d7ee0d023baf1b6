//! No figure of a privacy-loss distribution below what tests on the rounds themselves show, with no grid in between.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod rounds;

use accounting::calibration::{self, Target};
use accounting::pld::{ACCURACY, Profile};
use accounting::{Account, AccountingError, Event, Neighbouring, amplification, summary, user_level};
use proptest::prelude::*;

use rounds::Rounds;

/// Relative rounding of what is compared with.
const ROUNDING: f64 = 1e-9;

fn poisson(sigma: f64, q: f64, count: u64) -> Profile {
    amplification::profile(sigma, q, count, Neighbouring::ZeroOut).unwrap()
}

fn assert_kept(rounds: &Rounds, epsilon: f64, delta: f64, what: &str) {
    let shown = rounds.shown(epsilon);
    assert!(
        shown <= delta * (1.0 + ROUNDING),
        "{what}: ε {epsilon} for δ {delta}, which is {shown} at least"
    );
}

/// Where the loss is −q all along the line but for a rise at its end, cells were once cut anywhere.
#[test]
fn epsilon_of_rare_records_and_little_noise() {
    for (sigma, q, count, delta, least) in [
        (0.22, 1e-6, 1, 1e-9, 9.802),
        (0.25, 1e-6, 1, 1e-9, 5.8116),
        (0.2941, 1.091e-6, 1, 9.075e-9, 0.4532),
        (0.2, 1e-6, 10, 1e-9, 16.53),
        (0.258_260_293_902_382_9, 1.028_369_416_492_229_5e-6, 285, 4.983_471_494_474_001e-6, 1.4067),
        (0.183_903_123_816_283_07, 7.088_470_659_665_539e-6, 1, 6.405_844_396_379_877e-9, 19.1),
        (0.203_207_164_763_236_75, 5.745_857_032_343_021e-7, 7, 1.473_253_171_516_357_3e-12, 21.42),
    ] {
        let what = format!("σ {sigma}, q {q}, {count} rounds");
        let got = poisson(sigma, q, count).epsilon(delta).unwrap();
        assert!(got >= least, "{what}: {got}, at least {least}");
        assert_kept(&Rounds::removed(sigma, q, count), got, delta, &what);
        let exact = Rounds::removed(sigma, q, count).shown(got * (1.0 - 5e-5));
        assert!(count > 1 || exact > delta, "{what}: {got} is more than 0.005 % too large");
    }
}

#[test]
fn a_round_of_any_noise_and_any_sampling_is_exact() {
    for sigma in [0.1, 0.18, 0.25, 0.6, 2.0] {
        for q in [1e-9, 1e-7, 1e-5, 1e-3] {
            let profile = poisson(sigma, q, 1);
            let rounds = Rounds::removed(sigma, q, 1);
            for share in [1e-4, 1e-2, 0.5] {
                let what = format!("σ {sigma}, q {q}, δ {share}·q");
                let got = profile.epsilon(share * q).unwrap();
                assert_kept(&rounds, got, share * q, &what);
                let delta = profile.delta(got).unwrap();
                let exact = rounds.shown(got).max(Rounds::added(sigma, q, 1).shown(got));
                assert!(delta >= exact * (1.0 - ROUNDING), "{what}: δ({got}) = {delta}, exactly {exact}");
                // The fourth digit of an ε near zero does not matter.
                if got > 1e-3 {
                    let below = rounds.shown(got * (1.0 - 2e-4));
                    assert!(below > share * q, "{what}: {got} is more than 0.02 % too large");
                }
                assert!(got < 0.1 || delta < 1.01 * exact, "{what}: δ({got}) = {delta}, exactly {exact}");
            }
        }
    }
}

#[test]
fn more_noise_never_costs_more() {
    for (q, count, delta) in [(1e-6, 1, 1e-9), (1e-6, 10, 1e-9), (1e-8, 1, 1e-9), (1e-4, 300, 1e-6)] {
        let mut last = f64::INFINITY;
        for step in 0..60 {
            let sigma = 0.15 * 1.04_f64.powi(step);
            let got = poisson(sigma, q, count).epsilon(delta).unwrap();
            assert!(
                got <= last * (1.0 + 3.0 * ACCURACY),
                "q {q}, {count} rounds, σ {sigma}: {got} after {last}"
            );
            last = got;
        }
    }
}

#[test]
fn power_is_no_less_than_one_rounds() {
    for sigma in [0.05, 0.15, 0.2, 0.25, 0.3, 1.0] {
        for q in [1e-8, 1e-6, 1e-4, 1e-2] {
            for rate in [1e-6, 0.01, 0.3] {
                let got = summary::true_positive_rate(&poisson(sigma, q, 1), rate).unwrap();
                let exact =
                    Rounds::removed(sigma, q, 1).power(rate).max(Rounds::added(sigma, q, 1).power(rate));
                let off = got / exact - 1.0;
                assert!((-ROUNDING..0.05).contains(&off), "σ {sigma}, q {q}, {rate}: {got}, exactly {exact}");
            }
        }
    }
    // As a review found it.
    assert!(summary::true_positive_rate(&poisson(0.2, 1e-4, 1), 0.01).unwrap() >= 0.010_098_6);
}

/// A power of 1280 makes a spectrum's rounding 1280 times as large.
#[test]
fn rounding_of_many_rounds_is_charged_for() {
    let sigma = 0.241_789_591_327_806_72;
    let q = 1.482_783_257_569_371_2e-10;
    let count = 1280;
    let profile = poisson(sigma, q, count);
    let rounds = Rounds::removed(sigma, q, count);
    for epsilon in [2.7, 2.8, 2.822_814, 2.9] {
        let got = profile.remove.delta(epsilon, ACCURACY).unwrap().value;
        let shown = rounds.shown(epsilon);
        assert!(got >= shown && got < 1.1 * shown, "δ({epsilon}) = {got}, {shown} at least");
    }
    // 2.822817 where T·δ of one round, by sixty digits, is that δ; a record is hardly ever drawn twice.
    let got = profile.epsilon(2.142_334_903_907_903_6e-12).unwrap();
    assert!((2.822_816..2.85).contains(&got), "{got}");
}

/// A window around tilted losses far above ε said nothing of what lies between.
#[test]
fn delta_of_records_that_are_all_but_never_drawn() {
    let sigma = 0.212_045_453_898_362_32;
    let q = 1.152_784_813_130_021_4e-12;
    let count = 1570;
    let delta = 6.058e-11;
    let profile = poisson(sigma, q, count);
    let rounds = Rounds::removed(sigma, q, count);
    for epsilon in [0.0, 1.57e-9, 1e-3, 1.0] {
        let got = profile.delta(epsilon).unwrap();
        let shown = rounds.shown(epsilon);
        assert!(shown > 0.0 && got >= shown, "δ({epsilon}) = {got}, {shown} at least");
    }
    assert_kept(&rounds, profile.epsilon(delta).unwrap(), delta, "ε");
}

#[test]
fn groups_and_replacement_are_no_less_than_a_round_shows() {
    for sigma in [0.2, 0.25, 0.3, 0.5, 1.0] {
        for q in [1e-8, 1e-6, 1e-4] {
            let replaced = amplification::profile(sigma, q, 1, Neighbouring::Replace).unwrap();
            let upper = Rounds::removed(sigma, q, 1).p;
            let lower = Rounds::added(sigma, q, 1).q;
            let rounds = Rounds { p: upper, q: lower, count: 1.0 };
            let event = user_level::round(sigma, q, 3).unwrap();
            let Event::MixtureOfGaussians { probabilities, .. } = &event else { panic!("{event:?}") };
            let group = probabilities.iter().enumerate().map(|(k, w)| (*w, k as f64 / sigma)).collect();
            let groups = Rounds { p: group, q: vec![(1.0, 0.0)], count: 1.0 };
            let of_groups = Account::new(&event, Neighbouring::ZeroOut).unwrap();
            for share in [1e-3, 0.1] {
                let what = format!("σ {sigma}, q {q}, δ {share}·q");
                assert_kept(&rounds, replaced.epsilon(share * q).unwrap(), share * q, &what);
                assert_kept(&groups, of_groups.epsilon(share * q).unwrap(), share * q, &what);
            }
        }
    }
}

#[test]
fn calibrated_noise_keeps_its_promise() {
    let q = 3.183_326_733_268_341e-6;
    let target = Target::from((0.01, 4e-7));
    let event =
        |noise_multiplier| Ok(Event::PoissonSampledGaussian { noise_multiplier, sampling_probability: q });
    let sigma = calibration::noise_multiplier(target, event).unwrap();
    assert_kept(&Rounds::removed(sigma, q, 1), 0.01, 4e-7, &format!("σ {sigma}"));
}

#[test]
fn as_many_rounds_as_can_be_accounted_for() {
    let target = Target::from((2.0, 1e-6));
    let round = || Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 1e-8 };
    let most = calibration::iterations(target, |count| Ok(round().times(count))).unwrap();
    assert!(most >= 1 << 39, "{most}");
}

/// P's mass above ε and Q's agree in eight digits here.
#[test]
fn a_difference_of_nearly_the_same_masses_keeps_its_digits() {
    let sigma = 1.9172523728418884;
    let q = 2.8221656908210285e-8;
    let delta = 3.2690610889284636e-10;
    let got = poisson(sigma, q, 1).epsilon(delta).unwrap();
    assert_kept(&Rounds::removed(sigma, q, 1), got, delta, "one round");
}

/// The answer lies where the tilted mass is 1e-12 of all, and a transform of 393,216 places was once trusted too far.
#[test]
fn what_transforms_round_is_charged_for() {
    let sigma = 0.7072052667068773;
    let q = 3.892991603302975e-5;
    let count = 579;
    let profile = poisson(sigma, q, count);
    let rounds = Rounds::removed(sigma, q, count);
    for i in 0..40 {
        let epsilon = 0.477_353_602_165_382_7 + 1e-4 * f64::from(i);
        let delta = profile.delta(epsilon).unwrap();
        let shown = rounds.shown(epsilon);
        assert!((shown..1.03 * shown).contains(&delta), "δ({epsilon}) = {delta}, at least {shown}");
    }
}

/// Figures without any charge for rounding, by 80-bit floats, and how much may come on top.
#[test]
fn what_transforms_round_costs_little() {
    for (sigma, q, count, delta, exact) in [
        (1.0, 1e-5, 100_000, 1e-12, 0.025140),
        (1.0, 1e-5, 100_000, 1e-11, 0.023477),
        (0.8, 1e-5, 10_000, 1e-12, 0.065617),
        (1.0, 1e-6, 1_000_000, 1e-12, 0.0075766),
        (1.0, 1e-8, 1_000_000_000, 1e-8, 0.0015412),
        (1.0, 1e-4, 100_000, 1e-12, 0.26816),
    ] {
        let got = poisson(sigma, q, count).epsilon(delta).unwrap();
        assert!(
            (0.9999..1.03).contains(&(got / exact)),
            "σ {sigma}, q {q}, {count} rounds: {got}, exactly {exact}"
        );
    }
    let delta = poisson(1.0, 1e-4, 50_000).delta(0.2).unwrap();
    assert!(delta < 1e-12, "δ(0.2) = {delta}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_round_is_no_less_than_it_is(
        sigma in 0.1..2.0_f64,
        log_q in -9.0..-3.0_f64,
        log_share in -4.0..0.0_f64,
    ) {
        let q = 10_f64.powf(log_q);
        let delta = q * 10_f64.powf(log_share);
        let got = poisson(sigma, q, 1).epsilon(delta).unwrap();
        assert_kept(&Rounds::removed(sigma, q, 1), got, delta, &format!("σ {sigma}, q {q}"));
        assert_kept(&Rounds::added(sigma, q, 1), got, delta, &format!("adding, σ {sigma}, q {q}"));
    }

    #[test]
    fn many_rounds_are_no_less_than_the_largest_shows(
        sigma in 0.15..1.0_f64,
        log_q in -7.0..-3.0_f64,
        log_count in 0.3..3.0_f64,
        log_delta in -12.0..-4.0_f64,
    ) {
        let q = 10_f64.powf(log_q);
        let count = 10_f64.powf(log_count) as u64;
        let delta = 10_f64.powf(log_delta);
        let what = format!("σ {sigma}, q {q}, {count} rounds");
        let rounds = Rounds::removed(sigma, q, count);
        let profile = poisson(sigma, q, count);
        match profile.epsilon(delta) {
            Ok(got) => {
                assert_kept(&rounds, got, delta, &what);
                let kept = profile.delta(got).unwrap();
                prop_assert!(kept >= rounds.shown(got) * (1.0 - ROUNDING), "{what}: δ({got}) is {kept}");
            }
            Err(AccountingError::OutOfReach { .. }) => {}
            Err(other) => panic!("{what}: {other}"),
        }
    }
}
