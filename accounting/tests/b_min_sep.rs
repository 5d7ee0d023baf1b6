//! b-min-sep by Monte Carlo against what is known exactly, and its promises about bits and errors.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use accounting::monte_carlo::{BMinSep, Estimate, Pair, SampleBudget, Verdict};
use accounting::{Account, Event, Neighbouring, gaussian, normal};
use strategy::Strategy;

fn sampling(samples: u64) -> SampleBudget {
    SampleBudget { samples, seed: 7 }
}

fn bands(c: &[f64]) -> Strategy {
    Strategy::BandToeplitz { c: c.to_vec(), column_normalised: false }
}

#[track_caller]
fn assert_within(found: Estimate, truth: f64, relative: f64) {
    let apart = (found.delta - truth).abs();
    // What is called exact has an error too where it comes from discretised losses.
    assert!(apart <= 4.0 * found.standard_error + 2e-3 * truth, "{found:?} against {truth:e}");
    assert!(found.standard_error <= relative * truth, "{found:?} against {truth:e}: too wide");
    assert!(found.upper(1e-9) >= truth, "{found:?} bounds {truth:e}");
}

/// With min_sep = 1 and C = 1 every round is a Poisson sample.
#[test]
fn without_a_rest_it_is_poisson_sampling() {
    for (n, q, sigma) in [(64, 0.05, 0.8), (200, 0.01, 1.0), (16, 0.5, 3.0), (512, 0.02, 2.0)] {
        let mechanism = BMinSep::new(&Strategy::Identity, n, 1, q, false).unwrap();
        let round = Event::PoissonSampledGaussian { noise_multiplier: sigma, sampling_probability: q };
        let exact = Account::new(&round.times(n), Neighbouring::AddRemove).unwrap();
        for (delta, relative) in [(1e-3, 0.03), (1e-6, 0.06), (1e-9, 0.2)] {
            let epsilon = exact.epsilon(delta).unwrap();
            let found = mechanism.delta(sigma, epsilon, sampling(1 << 16)).unwrap();
            println!("n {n} q {q} σ {sigma} ε {epsilon:.4} δ {delta:e}: {found:?}");
            assert_within(found.worse(), delta, relative);
        }
    }
}

/// With q = 1 a record takes every min_sep-th round, from the first on.
#[test]
fn without_sampling_it_is_the_gaussian_mechanism() {
    let strategy = bands(&[1.0, 0.5, 0.25]);
    let mechanism = BMinSep::new(&strategy, 10, 4, 1.0, false).unwrap();
    // Rounds 0, 4 and 8; the last column has two rows.
    let sensitivity = (2.0_f64 * (1.0 + 0.25 + 0.0625) + 1.25).sqrt();
    assert!((mechanism.sensitivity() - sensitivity).abs() < 1e-12);
    for delta in [1e-6, 1e-10] {
        let epsilon = gaussian::epsilon(delta, 0.9).unwrap();
        let found = mechanism.delta(sensitivity / 0.9, epsilon, sampling(1 << 16)).unwrap();
        assert_within(found.remove, delta, 0.03);
        assert_within(found.add, delta, 0.03);
    }
}

/// δ in both orders of two rounds, one of which is taken at most, by the trapezoidal rule.
fn two_rounds(c: [f64; 2], shares: [f64; 2], sigma: f64, epsilon: f64) -> (f64, f64) {
    let step = 0.02;
    let reach = 9.0;
    let nodes: Vec<f64> =
        (0..=(2.0 * reach / step) as u32 + 400).map(|i| -reach + step * f64::from(i)).collect();
    let [m0, m1] = [[c[0] / sigma, c[1] / sigma], [0.0, c[0] / sigma]];
    let mut remove = 0.0;
    let mut add = 0.0;
    for &x in &nodes {
        for &y in &nodes {
            let q = (normal::ln_density(x) + normal::ln_density(y)).exp() * step * step;
            let ratio = |m: [f64; 2]| (m[0] * x + m[1] * y - 0.5 * (m[0] * m[0] + m[1] * m[1])).exp();
            let p = 1.0 - shares[0] - shares[1] + shares[0] * ratio(m0) + shares[1] * ratio(m1);
            remove += q * (p - epsilon.exp()).max(0.0);
            add += q * (1.0 - epsilon.exp() * p).max(0.0);
        }
    }
    (remove, add)
}

#[test]
fn two_rounds_are_an_integral_over_the_plane() {
    let c = [1.0, 0.6];
    let sigma = 0.7;
    let q = 0.3;
    // Resting: one round with probability q/(1 + q), and then the second round is free.
    let resting = q / (1.0 + q);
    let warm = [resting, (1.0 - resting) * (1.0 - q) * q + resting * q];
    for (warm_start, shares) in [(false, [q, (1.0 - q) * q]), (true, warm)] {
        let mechanism = BMinSep::new(&bands(&c), 2, 2, q, warm_start).unwrap();
        for epsilon in [0.1, 0.3] {
            let (remove, add) = two_rounds(c, shares, sigma, epsilon);
            let found = mechanism.delta(sigma, epsilon, sampling(1 << 18)).unwrap();
            assert_within(found.remove, remove, 0.01);
            assert_within(found.add, add, 0.01);
        }
    }
}

/// A record may rest: what is amplified costs less than the same rounds without sampling, and more noise less again.
#[test]
fn sampling_noise_and_rests_never_cost() {
    let strategy = Strategy::BandSqrt { bands: 8 };
    let at = |min_sep: u64, q: f64, sigma: f64| {
        let mechanism = BMinSep::new(&strategy, 64, min_sep, q, false).unwrap();
        mechanism.epsilon(sigma, 1e-5, sampling(1 << 14)).unwrap().epsilon
    };
    let known = |min_sep| {
        let mechanism = BMinSep::new(&strategy, 64, min_sep, 1.0, false).unwrap();
        gaussian::epsilon(1e-5, mechanism.sensitivity() / 4.0).unwrap()
    };
    let base = at(8, 0.05, 4.0);
    assert!(base < 0.8 * known(8), "{base} of {}", known(8));
    assert!(at(8, 0.02, 4.0) < base && at(16, 0.05, 4.0) < base && at(8, 0.05, 6.0) < base);
}

#[test]
fn calibrated_noise_keeps_its_promise() {
    let strategy = bands(&[1.0, 0.5, 0.375]);
    let mechanism = BMinSep::new(&strategy, 24, 6, 0.1, true).unwrap();
    let epsilon = 1.0;
    let delta = 1e-2;
    let made = mechanism.calibrate(epsilon, delta, sampling(1 << 14)).unwrap();
    assert!(made.verdict.releases(), "{made:?}");
    let about = mechanism.noise_multiplier(epsilon, delta, sampling(1 << 14)).unwrap();
    assert!(about < made.noise_multiplier && made.noise_multiplier < 1.2 * about, "{about} {made:?}");
    let less = mechanism.verify(0.9 * about, epsilon, delta, sampling(1 << 14)).unwrap();
    assert!(matches!(less, Verdict::Refuse { .. }), "{less:?}");
}

#[test]
fn threads_change_no_bit() {
    let mechanism = BMinSep::new(&Strategy::BandSqrt { bands: 5 }, 60, 7, 0.1, true).unwrap();
    let figures = [1, 2, 7].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| mechanism.epsilon(1.5, 1e-5, sampling(3_000)).unwrap())
    });
    assert!(figures[0] == figures[1] && figures[0] == figures[2], "{figures:?}");
    assert_ne!(
        mechanism.delta(1.5, 1.0, SampleBudget { samples: 3_000, seed: 8 }),
        mechanism.delta(1.5, 1.0, sampling(3_000))
    );
}

#[test]
fn what_can_not_be_accounted_for_is_refused_by_name() {
    #[track_caller]
    fn says(strategy: &Strategy, n: u64, min_sep: u64, q: f64, parts: [&str; 2]) {
        let error = BMinSep::new(strategy, n, min_sep, q, false).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let three = bands(&[1.0, 0.5, 0.25]);
    says(&three, 8, 2, 0.1, ["3", "at most min_sep"]);
    says(&Strategy::LambdaCgd { lambda: 0.5 }, 8, 4, 0.1, ["8", "at most min_sep"]);
    says(&bands(&[1.0, -0.25]), 8, 4, 0.1, ["-0.25", "at least zero"]);
    says(&three, 0, 4, 0.1, ["iterations", "1 to 1048576"]);
    says(&three, 8, 0, 0.1, ["min_sep", "1 and more"]);
    for q in [0.0, -0.5, 1.5, f64::NAN] {
        says(&three, 8, 4, q, ["sampling probability", "above 0, at most 1"]);
    }
    let mechanism = BMinSep::new(&three, 8, 4, 0.1, false).unwrap();
    assert!(
        mechanism.delta(0.0, 1.0, sampling(512)).is_err()
            && mechanism.delta(1.0, -1.0, sampling(512)).is_err()
    );
    assert!(
        mechanism.epsilon(1.0, 0.0, sampling(512)).is_err()
            && mechanism.delta(1.0, 1.0, sampling(2)).is_err()
    );
}
