//! Users with more records than a mixture has components, against the whole binomial.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::{Account, Neighbouring, user_level};

/// ln of Bin(G, q)'s masses, by the gamma function.
fn ln_masses(size: u64, q: f64) -> Vec<f64> {
    let ln_factorial = |m: u64| libm::lgamma(m as f64 + 1.0);
    let mass = |k: u64| {
        ln_factorial(size) - ln_factorial(k) - ln_factorial(size - k)
            + k as f64 * q.ln()
            + (size - k) as f64 * (-q).ln_1p()
    };
    (0..=size).map(mass).collect()
}

fn upper_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// δ(ε) of one round, all components summed: N(Bin(G, q), σ²) against N(0, σ²), and the other way round.
fn deltas(sigma: f64, size: u64, q: f64, epsilon: f64) -> (f64, f64) {
    let masses = ln_masses(size, q);
    let loss = |x: f64| {
        let terms = || {
            masses
                .iter()
                .enumerate()
                .map(|(k, ln)| (ln, k as f64 / sigma))
                .map(|(ln, s)| ln + s * x - 0.5 * s * s)
        };
        let top = terms().fold(f64::NEG_INFINITY, f64::max);
        top + terms().map(|term| (term - top).exp()).sum::<f64>().ln()
    };
    let crossing = |level: f64| {
        let mut low = -50.0;
        let mut high = size as f64 / sigma + 50.0;
        for _ in 0..70 {
            let middle = 0.5 * (low + high);
            if loss(middle) > level { high = middle } else { low = middle }
        }
        high
    };
    let mixture = |x: f64, sign: f64| -> f64 {
        masses.iter().enumerate().map(|(k, ln)| ln.exp() * upper_tail(sign * (x - k as f64 / sigma))).sum()
    };
    let x = crossing(epsilon);
    let remove = mixture(x, 1.0) - epsilon.exp() * upper_tail(x);
    let y = crossing(-epsilon);
    let add = upper_tail(-y) - epsilon.exp() * mixture(y, -1.0);
    (remove, add)
}

#[test]
fn one_round_is_the_whole_binomials() {
    for (sigma, size, q, epsilon) in [
        (1.0, 4_096, 1e-3, 9.0),
        (20.0, 4_096, 0.01, 2.0),
        (300.0, 20_000, 0.05, 3.0),
        (300.0, 1 << 20, 1e-4, 0.4),
        (1.2, 1 << 20, 1e-6, 2.0),
        // 5,300 counts, gathered six by six.
        (30_000.0, 100_000, 0.5, 1.7),
    ] {
        let event = user_level::round(sigma, q, size).unwrap();
        let account = Account::new(&event, Neighbouring::ZeroOut).unwrap();
        let got = account.delta(epsilon).unwrap();
        let (remove, add) = deltas(sigma, size, q, epsilon);
        let exact = remove.max(add);
        // lgamma rounds masses of so many records at 1e-8.
        assert!(got >= exact * (1.0 - 1e-6), "{sigma} {size} {q}: {got} below {exact}");
        assert!(got <= exact * (1.0 + 2e-3), "{sigma} {size} {q}: {got} above {exact}");
    }
}

#[test]
fn rounds_compose_and_never_cost_less_with_more_records() {
    let epsilon = |size: u64| {
        let event = user_level::round(50.0, 0.002, size).unwrap().times(100);
        Account::new(&event, Neighbouring::ZeroOut).unwrap().epsilon(1e-6).unwrap()
    };
    let edge = [epsilon(4_095), epsilon(4_096), epsilon(5_000)];
    assert!(edge[0] <= edge[1] * (1.0 + 1e-4) && edge[1] < edge[2] && edge[1] < edge[0] * 1.01, "{edge:?}");
    for refused in [0, (1 << 20) + 1] {
        let error = user_level::round(1.0, 0.1, refused).unwrap_err().to_string();
        assert!(error.contains("1 to 1048576"), "{error}");
    }
}
