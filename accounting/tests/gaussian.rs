//! The Gaussian account against 40-digit values, and its functions against each other.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::gaussian::{calibrate_gaussian, delta, epsilon, largest_mu, ln_delta, true_positive_rate};
use accounting::normal::{ln_cdf, mills};
use accounting::{Account, AccountingError, Event, Neighbouring, Report, calibrate, zcdp};
use proptest::prelude::*;
use strategy::{Participation, Sensitivity, Strategy};

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

#[test]
#[allow(clippy::excessive_precision)]
fn normal_tail() {
    let known = [
        (-1e4, -50000010.129278915181),
        (-38.0, -726.5572160188201301),
        (-5.0, -15.064998393988725736),
        (-2.2, -4.2756184470441433921),
        (-2.0, -3.7831843336820319488),
        (-1.0, -1.8410216450092635058),
        (-0.5, -1.1759117615936186089),
        (0.0, -std::f64::consts::LN_2),
        (0.5, -0.36894641528865639307),
        (1.9, -0.0291369478451057601),
        (2.2, -0.014001005759384578377),
        (6.0, -9.8658764552437573169e-10),
        (12.0, -1.776482112077679e-33),
    ];
    for (x, want) in known {
        assert!(close(ln_cdf(x), want, 2e-14), "ln cdf({x}) = {}", ln_cdf(x));
    }
    let known = [
        (-3.0, 225.33489622034912058),
        (-0.5, 1.9640174953579937537),
        (0.0, 1.2533141373155002512),
        (1.0, 0.65567954241879847154),
        (2.1, 0.40616098262557400508),
        (2.2, 0.39192690875310812706),
        (10.0, 0.099028596471731921395),
        (1000.0, 0.000999999000002999985),
    ];
    for (x, want) in known {
        assert!(close(mills(x), want, 1e-14), "mills({x}) = {}", mills(x));
    }
}

#[test]
#[allow(clippy::excessive_precision)]
fn delta_against_forty_digits() {
    let known = [
        (0.0, 1.0, -0.95991633369562231933),
        (0.0, 0.001, -7.8266938538534757452),
        (1.0, 0.5, -4.9864899068481334276),
        (8.0, 1.0, -33.243824132810367823),
        (3.5, 0.01, -61265.49001201704931),
        (0.1, 0.2, -3.1825031910317432424),
        (100.0, 5.0, -158.41792567334107109),
        (0.001, 0.0001, -64.762962409325131825),
        (30.0, 0.5, -1794.8328400352368204),
    ];
    for (eps, mu, want) in known {
        let got = ln_delta(eps, mu).unwrap();
        assert!(close(got, want, 1e-12), "ln delta({eps}, {mu}) = {got}");
    }
    assert!(close(ln_delta(10.0, 20.0).unwrap(), -2.0007759568040519391e-21, 1e-4));
}

#[test]
#[allow(clippy::excessive_precision)]
fn delta_from_a_half_to_nothing_against_sixty_digits() {
    let known = [
        (0.0, 1.4, 0.51607269555385394277),
        (0.25, 0.5, 0.11029839374852846569),
        (1.0, 1.0, 0.1269367375066439458),
        (2.0, 0.75, 0.0022702424312523166935),
        (3.0, 0.5, 3.4009117356735288242e-10),
        (10.0, 1.0, 9.8127058268469559492e-23),
        (6500.0, 100.0, 3.1900712911758442988e-51),
        (20.0, 1.0, 2.6647067053654976526e-86),
        (5.0, 0.25, 4.1402302196292380974e-90),
        (150.0, 5.0, 1.3477133481956158252e-167),
        (7.0, 0.2, 2.1146377982258559864e-269),
        (0.35, 0.01, 3.8224284966620359424e-272),
        (36.0, 1.0, 6.7231899231030299191e-278),
    ];
    for (eps, mu, want) in known {
        let got = delta(eps, mu).unwrap();
        assert!(close(got, want, 1e-12), "delta({eps}, {mu}) = {got:e}, off by {:e}", got / want - 1.0);
    }
}

#[test]
#[allow(clippy::excessive_precision)]
fn epsilon_against_forty_digits() {
    let known = [
        (1e-10, 0.5, 3.09943033024319605),
        (1e-5, 1.0, 4.37717809568122461),
        (1e-300, 3.0, 115.431430041913449),
        (0.5, 3.0, 3.5292757809317399),
        (1e-10, 50.0, 1567.12582748302733),
    ];
    for (d, mu, want) in known {
        let got = epsilon(d, mu).unwrap();
        assert!(close(got, want, 1e-12), "epsilon({d}, {mu}) = {got}");
    }
    assert_eq!(epsilon(0.5, 1.0).unwrap(), 0.0, "δ(0) = 0.38 is enough");
}

#[test]
fn every_refusal_names_the_value() {
    assert!(delta(-1.0, 1.0).is_err() && delta(1.0, 0.0).is_err() && delta(f64::NAN, 1.0).is_err());
    assert!(epsilon(0.0, 1.0).is_err() && epsilon(1.0, 1.0).is_err() && epsilon(0.1, f64::INFINITY).is_err());
    assert!(epsilon(0.1, 1e200).is_err(), "ε does not fit");
    assert!(calibrate_gaussian(0.0, 1.0, 1e-6).is_err() && calibrate_gaussian(1.0, -1.0, 1e-6).is_err());
    assert!(zcdp::rho(1.0, 0.0).is_err() && zcdp::generic_epsilon(-0.1, 1e-6).is_err());
    let message = epsilon(2.0, 1.0).unwrap_err().to_string();
    assert_eq!(message, "delta is 2; allowed: strictly between 0 and 1");
}

#[test]
fn extremes_end() {
    for (eps, d) in [(0.0, 1e-12), (1e-9, 1e-300), (1e4, 1e-10), (1e-3, 0.999), (500.0, 0.5)] {
        match largest_mu(eps, d) {
            Ok(mu) => assert!(mu > 0.0 && delta(eps, mu).unwrap() <= d * (1.0 + 1e-9), "{eps} {d}: {mu}"),
            Err(AccountingError::OutOfReach { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_calibrated_run_keeps_its_promise() {
    let rule = Participation::new(10, 3).unwrap();
    let report = calibrate(&Strategy::BandSqrt { bands: 8 }, 100, rule, 2.0, 1e-8).unwrap();
    assert!(report.exact && report.epsilon <= 2.0 * (1.0 + 1e-12) && report.epsilon > 2.0 * (1.0 - 1e-9));
    let bound = Sensitivity { value: 2.0, exact: false };
    assert!(!Report::at_delta(bound, 1.0, 1e-6).unwrap().exact);
    assert_eq!(Report::at_delta(bound, 1.0, 1e-6).unwrap().rho, 2.0);
}

/// The generic conversion by a plain scan over orders.
fn scanned(rho: f64, eps: f64) -> f64 {
    (1..200_000)
        .map(|i| 1.0 + 1e-4 * 1.0001_f64.powi(i))
        .map(|a| (a - 1.0) * (a * rho - eps) - (a - 1.0).ln() + a * (1.0 - 1.0 / a).ln())
        .fold(f64::INFINITY, f64::min)
        .exp()
        .min(1.0)
}

#[test]
fn generic_conversion_uses_the_best_order() {
    for (rho, eps) in [(0.1, 1.0), (1.0, 8.0), (0.01, 0.5), (3.0, 20.0), (0.5, 0.1)] {
        let got = zcdp::generic_delta(rho, eps).unwrap();
        let want = scanned(rho, eps);
        assert!(close(got, want, 1e-6) && got <= want * (1.0 + 1e-12), "{rho} {eps}: {got} against {want}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn there_and_back(ln_mu in -5.0..3.0_f64, ln_d in -60.0..-1.0_f64) {
        let mu = ln_mu.exp();
        let d = ln_d.exp();
        let eps = epsilon(d, mu).unwrap();
        prop_assert!(delta(eps, mu).unwrap() <= d * (1.0 + 1e-9));
        if eps > 1e-6 {
            prop_assert!(close(delta(eps, mu).unwrap(), d, 1e-8));
            prop_assert!(close(largest_mu(eps, d).unwrap(), mu, 1e-9));
            let sigma = calibrate_gaussian(3.0, eps, d).unwrap();
            prop_assert!(close(sigma, 3.0 / mu, 1e-9));
        }
    }

    #[test]
    fn generic_is_the_weaker_promise(ln_rho in -8.0..3.0_f64, ln_d in -40.0..-2.0_f64) {
        let rho = ln_rho.exp();
        let d = ln_d.exp();
        let exact = zcdp::gaussian_epsilon(rho, d).unwrap();
        let generic = zcdp::generic_epsilon(rho, d).unwrap();
        prop_assert!(generic >= exact * (1.0 - 1e-9));
        prop_assert!(generic <= rho + 2.0 * (rho * -d.ln()).sqrt() * (1.0 + 1e-9));
    }

    #[test]
    fn more_noise_is_more_private(mu in 0.01..10.0_f64, factor in 1.001..3.0_f64) {
        prop_assert!(epsilon(1e-8, mu).unwrap() < epsilon(1e-8, mu * factor).unwrap());
    }
}

/// Φ(Φ⁻¹(fpr) + μ) by Python's statistics.NormalDist.
#[test]
fn the_best_tests_power() {
    for (fpr, mu, tpr) in [(0.01, 1.0, 0.09236224807369403), (1e-6, 5.0, 0.5973816903130491), (0.3, 0.0, 0.3)]
    {
        assert!(close(true_positive_rate(fpr, mu).unwrap(), tpr, 1e-9), "{fpr} {mu}");
    }
    assert!(true_positive_rate(0.0, 1.0).is_err() && true_positive_rate(0.5, -1.0).is_err());
}

/// Where μ is small both terms of δ are nearly the same, and their difference had none of their digits.
#[test]
#[allow(clippy::excessive_precision)]
fn tiny_sensitivities_against_four_hundred_digits() {
    let known = [
        (0.0, 1e-06, -14.734449091168988558),
        (3e-07, 1e-06, -15.13691165288337348),
        (1e-06, 1e-06, -16.300631083676994831),
        (4e-06, 1e-06, -25.664570135515051008),
        (2.9999999999999997e-05, 1e-06, -471.54014931856236473),
        (3e-09, 1e-08, -19.742081987371408955),
        (4e-08, 1e-08, -30.269742301503028574),
        (0.0, 1e-10, -23.944789463145129546),
        (1e-10, 1e-10, -25.510971955603098141),
        (0.0, 1e-12, -28.54995964913322097),
        (3e-13, 1e-12, -28.952422360847441724),
        (4e-12, 1e-12, -39.48008269347721134),
        (3e-11, 1e-12, -485.35567487651156443),
        (1e-14, 1e-14, -34.721312327629275914),
        (0.0, 1e-16, -37.760300021109403707),
        (1e-16, 1e-16, -39.326482513617372252),
        (3e-15, 1e-16, -494.56601524850270387),
        (0.0, 1e-17, -40.062885114103449299),
        (3.0000000000000002e-18, 1e-17, -40.465347825817820065),
        (1e-17, 1e-17, -41.629067606611417889),
        (4e-17, 1e-17, -50.993008158449439648),
        // On either side of where one formula hands over to the other.
        (0.0, 0.19, -2.5811730019454544099),
        (0.001, 0.19, -2.587287207922830993),
        (0.1, 0.21, -3.0969800665245592123),
        (3.5, 0.2, -159.64243257516804264),
        (7.4, 0.2, -690.55739080815983209),
        (900.0, 25.0, -280.86672660684338433),
    ];
    for (epsilon, mu, want) in known {
        let off = ln_delta(epsilon, mu).unwrap() - want;
        // Never below, but for what a logarithm of this size can't hold.
        let digits = want.abs() * f64::EPSILON;
        assert!((-digits..1e-12 + digits).contains(&off), "ln delta({epsilon}, {mu}) is off by {off:e}");
    }
}

#[test]
#[allow(clippy::excessive_precision)]
fn epsilon_of_tiny_sensitivities_against_four_hundred_digits() {
    let known = [
        (1e-13, 1e-12, 9.023463475102804318e-13),
        (1e-17, 1e-16, 9.023463475100344767e-17),
        (1e-09, 1e-06, 2.7178059287972226287e-6),
        (1e-30, 1e-09, 9.2680738337258448356e-9),
        (1e-18, 1e-17, 9.0234634751003458838e-18),
        (1e-200, 1e-17, 2.8765679452563317218e-16),
    ];
    for (delta, mu, want) in known {
        let off = epsilon(delta, mu).unwrap() / want - 1.0;
        assert!((-1e-15..1e-12).contains(&off), "epsilon({delta}, {mu}) is off by {off:e}");
    }
    // ρ = μ²/2 is none of f64's numbers here.
    assert!(epsilon(1e-250, 1e-200).unwrap() > 0.0);
}

#[test]
fn what_f64_cannot_hold_is_nothing_rather_than_no_number() {
    assert_eq!(delta(1e6, 1e-303).unwrap(), 0.0);
    assert_eq!(ln_delta(1e6, 1e-303).unwrap(), f64::NEG_INFINITY);
    assert_eq!(epsilon(1e-6, 1e-303).unwrap(), 0.0);
    assert!(close(delta(0.0, 1e-300).unwrap(), 3.989_422_804_014_327e-301, 1e-12));
    // Neither an event nor a strategy loses a mechanism whose μ² underflows.
    let event = Event::Gaussian { noise_multiplier: 1e170 };
    let account = Account::new(&event, Neighbouring::ZeroOut).unwrap();
    assert!(account.delta(0.0).unwrap() >= 3.989e-171 && account.epsilon(1e-200).unwrap() > 0.0);
    assert!(zcdp::gaussian_delta(zcdp::rho(1.0, 1e170).unwrap(), 0.0).unwrap() >= 3.989e-171);
}
