//! Random allocation against published brackets, direct integration and Monte Carlo.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use accounting::allocation::{self, Bound, Epoch};
use accounting::normal::{ln_cdf, ln_density};
use accounting::pld::Losses;
use accounting::{Account, AccountingError, Event, Neighbouring, gaussian};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};

fn epoch(sigma: f64, batches: u64, participations: u64) -> Event {
    Event::RandomAllocation { noise_multiplier: sigma, batches_per_epoch: batches, participations }
}

fn account(event: &Event) -> Account {
    Account::new(event, Neighbouring::ZeroOut).unwrap()
}

/// δ(ε) of one round whose losses are known, without any grid.
fn delta_of(losses: &Losses, epsilon: f64) -> f64 {
    let above = losses.iter().filter(|one| one.loss > epsilon);
    above.map(|one| one.ln_mass.exp() * -(epsilon - one.loss).exp_m1()).sum::<f64>() + losses.infinite()
}

/// Feldman and Shenfeld's package has [0.8556, 0.8637] for the first; these brackets are narrower, and an earlier computation's.
#[test]
fn a_hundred_batches_lie_in_the_published_bracket() {
    for (epochs, range) in [(1, 0.8576..0.8584), (10, 1.9634..1.9651)] {
        let upper = account(&epoch(1.0, 100, 1).times(epochs)).epsilon(1e-6).unwrap();
        let lower = allocation::epsilon_at_least(1.0, 100, 1, epochs, 1e-6).unwrap();
        assert!(lower <= upper && upper <= lower * 1.0005, "{epochs}: {lower}, {upper}");
        assert!(range.contains(&lower) && range.contains(&upper), "{epochs}: {lower}, {upper}");
    }
}

/// Mass must not gather at zero, which counts as an unbounded loss.
#[test]
fn small_deltas_are_within_reach() {
    // The lower bound is loose at the smaller two; why was not looked into.
    for (sigma, batches, delta, slack) in
        [(4.0, 127, 1e-9, 1.01), (1.0, 1000, 1e-12, 10.0), (1.0, 100, 1e-16, 10.0)]
    {
        let upper = account(&epoch(sigma, batches, 1)).epsilon(delta).unwrap();
        let lower = allocation::epsilon_at_least(sigma, batches, 1, 1, delta).unwrap();
        assert!(lower <= upper && upper <= lower * slack, "{sigma} {batches} {delta}: {lower}, {upper}");
    }
}

#[test]
fn the_least_noise_has_an_account() {
    for batches in 1..=3 {
        let upper = account(&epoch(0.1, batches, 1)).epsilon(1e-6).unwrap();
        let lower = allocation::epsilon_at_least(0.1, batches, 1, 1, 1e-6).unwrap();
        assert!(lower <= upper && upper.is_finite(), "{batches}: {lower}, {upper}");
    }
}

/// The expectation of (X − K)₊ of a lognormal X of mean 1.
fn call(s: f64, strike: f64) -> f64 {
    if strike <= 0.0 {
        return 1.0 - strike;
    }
    let d = (0.5 * s * s - strike.ln()) / s;
    ln_cdf(d).exp() - strike * ln_cdf(d - s).exp()
}

/// δ of both directions of one of two batches: one ratio by quadrature, the other in closed form.
fn exact_of_two(sigma: f64, epsilon: f64) -> (f64, f64) {
    let s = 1.0 / sigma;
    let alpha = epsilon.exp();
    let step = 1e-3;
    let mut remove = 0.0;
    let mut add = 0.0;
    for i in -14_000..=14_000 {
        let z = f64::from(i) * step;
        let x = (s * z - 0.5 * s * s).exp();
        let weight = ln_density(z).exp() * step;
        remove += weight * 0.5 * call(s, 2.0 * alpha - x);
        let strike = 2.0 / alpha - x;
        // A put is a call less the forward.
        let put = if strike <= 0.0 { 0.0 } else { (call(s, strike) + strike - 1.0).max(0.0) };
        add += weight * 0.5 * alpha * put;
    }
    (remove, add)
}

#[test]
fn two_batches_are_bracketed_by_direct_integration() {
    for sigma in [0.5, 0.8, 1.0, 2.0, 5.0] {
        let pessimistic = Epoch::new(sigma, 2, Bound::Pessimistic).unwrap();
        let optimistic = Epoch::new(sigma, 2, Bound::Optimistic).unwrap();
        for epsilon in [0.05, 0.3, 1.0, 2.0] {
            let (remove, add) = exact_of_two(sigma, epsilon);
            for (what, exact, high, low) in [
                ("remove", remove, &pessimistic.remove, &optimistic.remove),
                ("add", add, &pessimistic.add, &optimistic.add),
            ] {
                let high = delta_of(high, epsilon);
                let low = delta_of(low, epsilon);
                let name = format!("{what}, sigma {sigma}, epsilon {epsilon}: {low} {exact} {high}");
                assert!(low <= exact * (1.0 + 1e-9) + 1e-14, "{name}");
                assert!(high >= exact * (1.0 - 1e-9) - 1e-14, "{name}");
                assert!(high <= low * 1.01 + 1e-13, "{name}");
            }
        }
    }
}

/// The loss of `epochs` epochs of k of t batches, drawn with the record: the ratio is the mean of all products of k ratios.
fn draw(rng: &mut ChaCha8Rng, s: f64, (t, k): (usize, usize), epochs: u64) -> f64 {
    let mut loss = 0.0;
    for _ in 0..epochs {
        // Batches are alike, so the record may join the first k.
        let mut symmetric = vec![0.0; k + 1];
        symmetric[0] = 1.0;
        for i in 0..t {
            let z: f64 = StandardNormal.sample(rng);
            let x = (s * (z + if i < k { s } else { 0.0 }) - 0.5 * s * s).exp();
            for j in (1..=k).rev() {
                symmetric[j] += symmetric[j - 1] * x;
            }
        }
        let sets = (0..k).fold(1.0, |c, i| c * (t - i) as f64 / (i + 1) as f64);
        loss += (symmetric[k] / sets).ln();
    }
    loss
}

/// The Monte Carlo estimate of δ when the record is removed, with its standard error.
fn estimate(sigma: f64, shape: (usize, usize), epochs: u64, epsilon: f64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let count = 200_000;
    let mut sum = 0.0;
    let mut squares = 0.0;
    for _ in 0..count {
        let loss = draw(&mut rng, 1.0 / sigma, shape, epochs);
        let value = if loss > epsilon { -(epsilon - loss).exp_m1() } else { 0.0 };
        sum += value;
        squares += value * value;
    }
    let n = f64::from(count);
    (sum / n, ((squares / n - (sum / n).powi(2)) / n).sqrt())
}

#[test]
fn one_of_t_batches_agrees_with_monte_carlo() {
    for (sigma, batches, epochs, epsilon) in [(1.0, 10, 2, 1.2), (0.7, 5, 1, 1.5), (2.0, 8, 5, 0.4)] {
        let (mean, error) = estimate(sigma, (batches as usize, 1), epochs, epsilon);
        let found = account(&epoch(sigma, batches, 1).times(epochs)).delta(epsilon).unwrap();
        assert!((found - mean).abs() < 5.0 * error, "{sigma} {batches}: {found} for {mean} ± {error}");
        assert!(error < 0.02 * mean);
    }
}

#[test]
fn k_of_t_batches_cost_no_less_than_monte_carlo_says() {
    for (sigma, batches, k, epsilon) in [(1.0, 10, 2, 1.5), (1.5, 7, 3, 1.0), (2.0, 12, 5, 1.0)] {
        let (mean, error) = estimate(sigma, (batches as usize, k as usize), 1, epsilon);
        let found = account(&epoch(sigma, batches, k)).delta(epsilon).unwrap();
        assert!(found > mean - 4.0 * error, "{sigma} {k} of {batches}: {found} for {mean} ± {error}");
        assert!(found < 1.5 * mean, "{sigma} {k} of {batches}: {found} for {mean} ± {error}");
    }
}

#[test]
fn records_that_join_every_batch_are_not_amplified() {
    for (batches, k) in [(1, 1), (6, 6)] {
        let epsilon = account(&epoch(2.0, batches, k).times(3)).epsilon(1e-5).unwrap();
        let exact = gaussian::epsilon(1e-5, (3.0 * k as f64).sqrt() / 2.0).unwrap();
        assert!(epsilon >= exact && epsilon < exact * 1.0001, "{k} of {batches}: {epsilon} for {exact}");
    }
}

#[test]
fn it_composes_with_other_rounds() {
    let sampled = Event::PoissonSampledGaussian { noise_multiplier: 1.0, sampling_probability: 0.01 };
    let parts = [epoch(1.0, 50, 1).times(3), sampled.times(200), Event::Gaussian { noise_multiplier: 3.0 }];
    let alone = parts.iter().map(|part| account(part).epsilon(1e-6).unwrap()).fold(0.0, f64::max);
    let all = account(&Event::Composed { events: parts.to_vec() });
    let epsilon = all.epsilon(1e-6).unwrap();
    assert!(alone < epsilon && epsilon < 3.0 * alone, "{alone} {epsilon}");
    assert!(all.delta(epsilon).unwrap() <= 1.001e-6);
    assert_eq!(all.rho(), None);
}

#[test]
fn fewer_batches_and_less_noise_cost_more_in_a_wide_range() {
    let mut before = f64::INFINITY;
    for batches in [2, 3, 30, 1000, 20_000] {
        let epsilon = account(&epoch(0.7, batches, 1)).epsilon(1e-6).unwrap();
        assert!(epsilon < before, "{batches}: {epsilon}");
        before = epsilon;
    }
    let wide = [0.12, 0.3, 1.0, 20.0].map(|sigma| account(&epoch(sigma, 20, 1)).epsilon(1e-6).unwrap());
    assert!(wide.is_sorted_by(|a, b| a > b), "{wide:?}");
}

#[test]
fn what_has_no_account_is_refused() {
    let replace = Account::new(&epoch(1.0, 10, 1), Neighbouring::Replace).unwrap_err();
    assert!(replace.to_string().contains("zero-out or add-remove"), "{replace}");
    for wrong in [epoch(1.0, 0, 1), epoch(1.0, 10, 0), epoch(1.0, 10, 11), epoch(0.0, 10, 1)] {
        let error = Account::new(&wrong, Neighbouring::ZeroOut).unwrap_err();
        assert!(matches!(error, AccountingError::Invalid { .. }), "{error}");
    }
}

/// δ(ε) of both directions of two of three batches at σ = 1, by direct integration.
fn exact_of_two_of_three(epsilon: f64) -> (f64, f64) {
    const STEP: f64 = 0.1;
    let nodes: Vec<(f64, f64)> = (-80..=90)
        .map(|node| f64::from(node) * STEP)
        .map(|x| ((x - 0.5).exp(), ln_density(x).exp() * STEP))
        .collect();
    let level = epsilon.exp();
    let mut remove = 0.0;
    let mut add = 0.0;
    for (a, mass_a) in &nodes {
        for (b, mass_b) in &nodes {
            for (c, mass_c) in &nodes {
                let ratio = (a * b + a * c + b * c) / 3.0;
                let mass = mass_a * mass_b * mass_c;
                remove += mass * (ratio - level).max(0.0);
                add += mass * (1.0 - level * ratio).max(0.0);
            }
        }
    }
    (remove, add)
}

#[test]
fn several_batches_are_bracketed_by_direct_integration() {
    for delta in [1e-2, 1e-5] {
        let upper = account(&epoch(1.0, 3, 2)).epsilon(delta).unwrap();
        let lower = allocation::epsilon_at_least(1.0, 3, 2, 1, delta).unwrap();
        let delta_at = |epsilon| {
            let (remove, add) = exact_of_two_of_three(epsilon);
            remove.max(add)
        };
        assert!(lower > 0.87 * upper, "{delta}: {lower} {upper}");
        // The integrand has kinks, which cost the sum less than a hundredth.
        assert!(
            delta_at(lower) >= 0.99 * delta && delta_at(upper) <= 1.01 * delta,
            "{delta}: {lower} {upper}"
        );
    }
}

/// In units of the upper bound: least of each setting, as was found.
#[test]
fn several_batches_are_bracketed() {
    for (sigma, t, k, epochs, delta, least) in [
        (1.0, 100, 2, 1, 1e-6, 0.93),
        (1.0, 100, 10, 1, 1e-6, 0.93),
        (1.0, 100, 2, 10, 1e-6, 0.98),
        (2.0, 1000, 5, 4, 1e-6, 0.999),
        (0.5, 100, 2, 1, 1e-6, 0.8),
        (4.0, 100, 50, 3, 1e-5, 0.99),
        (1.0, 100, 100, 2, 1e-6, 0.9999),
        (1e3, 100, 2, 1, 1e-9, 0.0),
        (0.01, 100, 2, 1, 1e-6, 0.0),
    ] {
        let upper = account(&epoch(sigma, t, k).times(epochs)).epsilon(delta).unwrap();
        let lower = allocation::epsilon_at_least(sigma, t, k, epochs, delta).unwrap();
        let setting = format!("{sigma} {t} {k} {epochs} {delta}: {lower} {upper}");
        assert!(lower <= upper * (1.0 + 1e-9) && lower >= least * upper, "{setting}");
    }
    let many = allocation::epsilon_at_least(1.0, 1 << 17, 2, 1, 1e-6);
    assert!(matches!(many, Err(AccountingError::OutOfReach { .. })), "{many:?}");
    let more = allocation::epsilon_at_least(1.0, 3, 4, 1, 1e-6);
    assert!(matches!(more, Err(AccountingError::Invalid { .. })), "{more:?}");
}
