//! The best of several runs, each of which may leave its mechanism (docs/grid.md): the account beside exact δ of selections
//! whose runs fail in the worst way.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{Account, Event, MatrixMechanism, Neighbouring, Sampling, normal};

/// A run of a single round of noise σ, which leaves its mechanism with probability `failure`.
fn run(sigma: f64, failure: f64) -> Event {
    Event::MatrixMechanism(MatrixMechanism {
        noise_multiplier: sigma,
        iterations: 1,
        sensitivity: 1.0,
        bands: Some(1),
        largest_column_norm: 1.0,
        min_sep: 1,
        max_participations: 1,
        sampling: Sampling::AnyOrder,
        failure_probability: failure,
        plan_digest: String::new(),
    })
}

fn best_of(event: &Event, mean: f64, shape: Option<f64>) -> Event {
    Event::RepeatAndSelect { event: Box::new(event.clone()), mean, shape }
}

fn account(event: &Event) -> Account {
    Account::new(event, Neighbouring::ZeroOut).unwrap()
}

/// E[F^K] of the number of runs K, by closed forms.
fn power_of_runs(mean: f64, shape: Option<f64>) -> Box<dyn Fn(f64) -> f64> {
    let gamma_of = |mean_at: &dyn Fn(f64) -> f64| {
        let mut low = 1e-9;
        let mut high = 1.0 - 1e-9;
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            // The mean falls in γ.
            if mean_at(middle) > mean { low = middle } else { high = middle }
        }
        low
    };
    match shape {
        None => Box::new(move |f| (mean * (f - 1.0)).exp()),
        Some(0.0) => {
            let gamma = gamma_of(&|g| (1.0 / g - 1.0) / -g.ln());
            Box::new(move |f| (1.0 - (1.0 - gamma) * f).ln() / gamma.ln())
        }
        Some(eta) => {
            let gamma = gamma_of(&|g| eta * (1.0 - g) / (g * (1.0 - g.powf(eta))));
            Box::new(move |f| ((1.0 - (1.0 - gamma) * f).powf(-eta) - 1.0) / (gamma.powf(-eta) - 1.0))
        }
    }
}

/// δ at ε of the best of K scores, enumerated. The score of one run is Gaussian, read off in small cells; `moved` is how far
/// the record moves it in deviations, in the first of the two data sets. With probability τ a run of the first fails and says
/// so, with the highest score of all, where it would have had the lowest; in the second, the highest scores of probability τ become the
/// lowest. Either is within τ of its mechanism in total variation.
fn enumerated(moved: f64, tau: f64, power: &dyn Fn(f64) -> f64, epsilon: f64) -> f64 {
    let below = |edge: f64, at: f64| normal::ln_cdf(edge - at).exp();
    let edges = || (-4500..=4500).map(|i| f64::from(i) * 2e-3);
    let last = [f64::INFINITY, f64::INFINITY];
    // Probabilities of scores up to each edge, the last edge being that above failed runs.
    let first: Vec<f64> = edges()
        .chain(last)
        .map(|edge| if edge == f64::INFINITY { 1.0 } else { below(edge, moved) })
        .collect();
    let cells = first.len();
    let first = first.iter().enumerate().map(|(i, f)| if i + 1 == cells { 1.0 } else { (f - tau).max(0.0) });
    let second = edges().chain(last).map(|edge| {
        let f = if edge == f64::INFINITY { 1.0 } else { below(edge, 0.0) };
        (f + tau).min(1.0)
    });
    let mut p_before = power(0.0);
    let mut q_before = p_before;
    first
        .zip(second)
        .map(|(p, q)| {
            let p = power(p);
            let q = power(q);
            let more = (p - p_before) - epsilon.exp() * (q - q_before);
            (p_before, q_before) = (p, q);
            more.max(0.0)
        })
        .sum()
}

const NUMBERS: [(f64, Option<f64>); 7] = [
    (3.0, Some(1.0)),
    (20.0, Some(1.0)),
    (20.0, Some(0.5)),
    (20.0, Some(0.0)),
    (20.0, None),
    (3.0, None),
    (0.5, None),
];

/// The worst way of failing comes near what is charged for it, so neither the mean nor 1 + e^ε may be left out.
#[test]
fn the_best_of_runs_that_fail_costs_no_less_than_its_enumerated_delta() {
    for (sigma, tau) in [(1000.0, 1e-5), (2.0, 1e-5), (2.0, 1e-3)] {
        for (mean, shape) in NUMBERS {
            let power = power_of_runs(mean, shape);
            let account = account(&best_of(&run(sigma, tau), mean, shape));
            let exact = |epsilon| {
                let both = [1.0 / sigma, -1.0 / sigma];
                both.map(|moved| enumerated(moved, tau, &power, epsilon)).into_iter().fold(0.0, f64::max)
            };
            for epsilon in [0.1_f64, 0.5, 1.0, 2.0] {
                let found = exact(epsilon);
                let stated = account.delta(epsilon).unwrap();
                assert!(found <= stated, "{sigma} {tau} {mean} {shape:?} {epsilon}: {found} {stated}");
                let of_failures = mean * tau * (1.0 + epsilon.exp());
                if sigma == 1000.0 && epsilon == 0.1 {
                    assert!(found > 0.9 * of_failures, "{mean} {shape:?}: {found} {of_failures}");
                }
            }
            let delta = 1000.0 * mean * tau;
            if delta < 0.5 {
                let epsilon = account.epsilon(delta).unwrap();
                assert!(exact(epsilon) <= delta, "{sigma} {tau} {mean} {shape:?} at {epsilon}");
            }
        }
    }
}

#[test]
fn failures_count_as_often_as_there_are_runs_on_average() {
    let sigma = 3.0;
    let tau = 1e-9;
    let both = |event: &dyn Fn(f64) -> Event, epsilon: f64| {
        let [own, all] = [0.0, tau].map(|tau| account(&event(tau)).delta(epsilon).unwrap());
        (all - own) / (1.0 + epsilon.exp()) / tau
    };
    for (mean, shape) in NUMBERS {
        let near = |found: f64, want: f64| {
            assert!((found / want - 1.0).abs() < 1e-5, "{mean} {shape:?}: {found}, not {want}");
        };
        near(both(&|tau| best_of(&run(sigma, tau), mean, shape), 6.0), mean);
        near(both(&|tau| best_of(&run(sigma, tau).times(3), mean, shape), 9.0), 3.0 * mean);
        near(both(&|tau| best_of(&run(sigma, tau), mean, shape).times(2), 9.0), 2.0 * mean);
        let beside = |tau| {
            let events = vec![best_of(&run(sigma, tau), mean, shape), run(sigma, tau)];
            Event::Composed { events }
        };
        near(both(&beside, 9.0), mean + 1.0);
        near(both(&|tau| best_of(&best_of(&run(sigma, tau), 2.0, Some(1.0)), mean, shape), 9.0), 2.0 * mean);
    }
}

#[test]
fn failures_never_make_a_selection_cheaper() {
    for sigma in [0.8, 3.0, 40.0] {
        for (mean, shape) in NUMBERS {
            let accounts =
                [0.0, 1e-18, 1e-16, 1e-12, 1e-9].map(|tau| account(&best_of(&run(sigma, tau), mean, shape)));
            for pair in accounts.windows(2) {
                for delta in [1e-5, 1e-6] {
                    let [less, more] =
                        [&pair[0], &pair[1]].map(|account| account.epsilon(delta).unwrap_or(f64::INFINITY));
                    assert!(less <= more, "{sigma} {mean} {shape:?} {delta}: {less} {more}");
                }
                let [less, more] = [&pair[0], &pair[1]].map(|account| account.delta(1.0).unwrap());
                assert!(
                    less < more || less == more && less > 1e-3,
                    "{sigma} {mean} {shape:?}: {less} {more}"
                );
            }
        }
    }
}

#[test]
fn no_epsilon_is_stated_where_failures_alone_exceed_delta() {
    let account = account(&best_of(&run(10.0, 1e-8), 100.0, None));
    let refused = account.epsilon(1.9e-6).unwrap_err().to_string();
    assert!(refused.contains("a failure probability of 1e-6"), "{refused}");
    assert!(account.epsilon(1e-4).is_ok());
    assert!(account.profile().is_err() && account.rho().is_none());
}
