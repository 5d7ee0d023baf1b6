//! Calibration: each parameter meets its target narrowly, and a target out of reach is refused.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::calibration::{self, Target};
use accounting::{
    Account, AccountingError, Event, MatrixMechanism, Neighbouring, Partition, amplification, gaussian,
};
use strategy::Strategy;

use Neighbouring::{Replace, ZeroOut};

fn epsilon(event: &Event, neighbouring: Neighbouring, delta: f64) -> f64 {
    Account::new(event, neighbouring).unwrap().epsilon(delta).unwrap()
}

fn poisson(noise_multiplier: f64, sampling_probability: f64) -> Event {
    Event::PoissonSampledGaussian { noise_multiplier, sampling_probability }
}

#[test]
fn the_planners_two_questions() {
    for (target, delta, bands, q, n) in [
        (4.826, 1e-6, 8, 0.005, 2000),
        (1.0, 1e-8, 4, 0.01, 1000),
        (0.001, 1e-8, 4, 0.01, 1000),
        (50.0, 1e-6, 1, 0.01, 500),
        (2.0, 1e-10, 100, 0.01, 1000),
    ] {
        let sigma = amplification::band_mf_noise_multiplier(target, delta, bands, q, n).unwrap();
        let rounds = u64::div_ceil(n, bands);
        let reached = amplification::epsilon(sigma, (bands as f64 * q).min(1.0), rounds, delta).unwrap();
        assert!(reached <= target * (1.0 + 1e-3) && reached > target * (1.0 - 2e-3), "{target}: {reached}");
        let event = MatrixMechanism::cyclic_poisson(sigma, q, bands, n, Partition::Independent);
        let exact = epsilon(&Event::MatrixMechanism(event), ZeroOut, delta);
        assert!(exact <= target * (1.0 + 1e-9), "{target}: {exact}");
    }
    let sigma = amplification::band_mf_noise_multiplier(4.826144242, 1e-6, 8, 0.005, 2000).unwrap();
    assert!((sigma - 1.0).abs() < 1e-3, "{sigma}");
    let refused = |result: Result<f64, AccountingError>, part: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    refused(amplification::band_mf_noise_multiplier(1.0, 1e-6, 20, 0.1, 100), "is 2; allowed: at most 1");
    refused(amplification::band_mf_noise_multiplier(1.0, 1e-6, 0, 0.1, 100), "bands is 0");
    refused(amplification::band_mf_noise_multiplier(0.0, 1e-6, 1, 0.1, 100), "epsilon is 0");
    refused(amplification::band_mf_noise_multiplier(1.0, 1.0, 1, 0.1, 100), "delta is 1");
    refused(amplification::band_mf_noise_multiplier(1.0, 1e-6, 1, 0.1, 0), "rounds is 0");
    refused(amplification::epsilon(-1.0, 0.1, 10, 1e-6), "noise multiplier is -1");
}

#[test]
fn every_parameter_can_be_calibrated() {
    let target = Target::from((2.0, 1e-6));
    let sigma = calibration::noise_multiplier(target, |sigma| Ok(poisson(sigma, 0.02).times(500))).unwrap();
    let at = |sigma, q, rounds| epsilon(&poisson(sigma, q).times(rounds), ZeroOut, 1e-6);
    assert!(at(sigma, 0.02, 500) <= 2.0 && at(sigma * 0.999, 0.02, 500) > 2.0, "{sigma}");
    let q = calibration::sampling_probability(target, |q| Ok(poisson(1.0, q).times(500))).unwrap();
    assert!(at(1.0, q, 500) <= 2.0 && at(1.0, q * 1.001, 500) > 2.0, "{q}");
    let rounds = calibration::iterations(target, |rounds| Ok(poisson(1.0, 0.01).times(rounds))).unwrap();
    assert!(at(1.0, 0.01, rounds) <= 2.0 && at(1.0, 0.01, rounds + 1) > 2.0, "{rounds}");
    let replace = Target { neighbouring: Replace, ..target };
    let twice =
        calibration::noise_multiplier(replace, |sigma| Ok(Event::Gaussian { noise_multiplier: sigma }));
    let once = accounting::calibrate_gaussian(2.0, 2.0, 1e-6).unwrap();
    assert!((twice.unwrap() / once - 1.0).abs() < 1e-3);
    let most = calibration::participations(target, &Strategy::Identity, 1000, 1, 5.0).unwrap();
    let cost = |k: u64| gaussian::epsilon(1e-6, (k as f64).sqrt() / 5.0).unwrap();
    assert!(cost(most) <= 2.0 && cost(most + 1) > 2.0, "{most}");
    let all = calibration::participations(target, &Strategy::Identity, 10, 1, 500.0).unwrap();
    assert_eq!(all, 10, "no more than fit");
}

#[test]
fn calibration_that_cannot_succeed_names_what_it_tried() {
    let out = |result: Result<f64, AccountingError>, part: &str| match result {
        Err(error @ AccountingError::OutOfReach { .. }) => {
            let message = error.to_string();
            assert!(message.contains("tried") && message.contains(part), "{message}");
        }
        other => panic!("{other:?}"),
    };
    // Something else already costs more, however much noise the rounds get.
    let costly = |sigma| {
        Ok(Event::Composed { events: vec![poisson(sigma, 0.1), Event::Gaussian { noise_multiplier: 0.5 }] })
    };
    out(calibration::noise_multiplier(Target::from((1.0, 1e-6)), costly), "1.000e9");
    let rounds = calibration::iterations(Target::from((0.1, 1e-6)), |t| Ok(poisson(0.5, 0.1).times(t)));
    out(rounds.map(|t| t as f64), "number of iterations");
    // A tiny ε needs much noise, and no more memory.
    for goal in [1e-6, 1e-9, 1e-12] {
        match calibration::noise_multiplier(Target::from((goal, 1e-6)), |s| Ok(poisson(s, 0.1).times(100))) {
            Ok(sigma) => assert!(epsilon(&poisson(sigma, 0.1).times(100), ZeroOut, 1e-6) <= goal, "{goal}"),
            Err(AccountingError::OutOfReach { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    // A huge one needs hardly any.
    let sigma = calibration::noise_multiplier(Target::from((1e5, 1e-6)), |s| Ok(poisson(s, 0.1).times(100)));
    assert!((1e-3..0.1).contains(&sigma.unwrap()));
}
