//! Accounts of random batches under correlated noise without samples, against accounts that are exact, samples and definitions.

use accounting::correlated::{Question, RandomBatches};
use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
use accounting::{Account, Event, Neighbouring, gaussian};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use strategy::scaled::Base;
use strategy::{Blt, ColumnScales, Scaled, Strategy};

const DELTA: f64 = 1e-5;

fn toeplitz(c: &[f64]) -> Strategy {
    Strategy::BandToeplitz { c: c.to_vec(), column_normalised: false }
}

/// Columns are shorter from round 4 and from round 8 on.
fn scales() -> ColumnScales {
    ColumnScales::new(4, vec![1.2, 0.9, 0.5]).expect("scales")
}

fn scaled(c: &[f64], column_normalised: bool) -> Strategy {
    let base = Base::BandToeplitz { c: c.to_vec(), column_normalised };
    Strategy::Scaled(Scaled::new(base, scales()).expect("columns"))
}

fn scaled_blt() -> Strategy {
    let blt = Blt::new(vec![0.9, 0.4], vec![0.2, 0.3]).expect("a BLT");
    Strategy::Scaled(Scaled::new(Base::Blt(blt), scales()).expect("columns"))
}

#[test]
fn independent_noise_costs_what_random_allocation_does() {
    for (sigma, batches, epochs) in [(1.0, 8, 1), (0.8, 4, 2)] {
        let event = Event::RandomAllocation {
            noise_multiplier: sigma,
            batches_per_epoch: batches,
            participations: 1,
        };
        let known =
            Account::new(&event.times(epochs), Neighbouring::ZeroOut).unwrap().epsilon(DELTA).unwrap();
        let found = RandomBatches::random_allocation(&toeplitz(&[1.0]), batches * epochs, batches).unwrap();
        let bound = found.conditional(sigma, Question::AtDelta(DELTA)).unwrap();
        assert!((bound.value / known - 1.0).abs() < 1e-9, "{}: {known}", bound.value);
        assert_eq!(bound.hidden_among, Some(batches));
        let delta = found.conditional(sigma, Question::AtEpsilon(known)).unwrap().value;
        assert!(delta <= DELTA * 1.001 && delta > 0.9 * DELTA, "{delta}");
        // Conversion from Rényi divergences costs something, and the exact figure is no larger.
        let orders = found.renyi(sigma, Question::AtDelta(DELTA)).unwrap();
        assert!(
            orders.value >= known * (1.0 - 1e-9) && orders.value < 1.8 * known,
            "{}: {known}",
            orders.value
        );
    }
}

#[test]
fn samples_of_balls_in_bins_are_never_above_the_bounds() {
    let budget = SampleBudget { samples: 1 << 13, seed: 5 };
    let strategies = [
        toeplitz(&[1.0, 0.5, 0.3]),
        Strategy::BandSqrt { bands: 48 },
        scaled(&[1.0, 0.5, 0.3], true),
        scaled_blt(),
    ];
    let sigma = 2.5;
    for strategy in &strategies {
        let sampled = BallsInBins::new(strategy, 48, 12).unwrap();
        let found = RandomBatches::balls_in_bins(strategy, 48, 12).unwrap();
        let known = gaussian::epsilon(DELTA, sampled.sensitivity() / sigma).unwrap();
        for bound in [
            found.conditional(sigma, Question::AtDelta(DELTA)).unwrap(),
            found.renyi(sigma, Question::AtDelta(DELTA)).unwrap(),
        ] {
            let at_bound = sampled.delta(sigma, bound.value, budget).unwrap().worse();
            assert!(at_bound.delta - 4.0 * at_bound.standard_error <= DELTA, "{at_bound:?} {bound:?}");
            assert!(bound.value <= (1.0 + 1e-4) * known, "{bound:?} above {known}, with the batch known");
        }
    }
}

#[test]
fn few_bands_leave_a_record_hidden() {
    // Every second of 16 batches has no product with another, and one in 8 costs far less than one that is known.
    let found = RandomBatches::balls_in_bins(&toeplitz(&[1.0, 0.3]), 16, 16).unwrap();
    let known = gaussian::epsilon(DELTA, 1.09f64.sqrt()).unwrap();
    let bound = found.conditional(1.0, Question::AtDelta(DELTA)).unwrap();
    assert!(bound.value < 0.9 * known && bound.hidden_among > Some(1), "{bound:?} beside {known}");
}

/// δ of both orders at ε, with standard errors, straight from the definition.
fn simulated(
    strategy: &Strategy,
    (batches, epochs): (usize, usize),
    sigma: f64,
    epsilon: f64,
) -> [(f64, f64); 2] {
    let n = batches * epochs;
    let c: Vec<Vec<f64>> = (0..n).map(|t| strategy.c_row(n as u64, t as u64).expect("a row")).collect();
    let sets: Vec<Vec<f64>> = (0..batches.pow(epochs as u32))
        .map(|code| {
            let rounds = (0..epochs).map(|e| e * batches + code / batches.pow(e as u32) % batches);
            let mut moved = vec![0.0; n];
            rounds.for_each(|j| (j..n).for_each(|t| moved[t] += c[t][j] / sigma));
            moved
        })
        .collect();
    let mut source = ChaCha8Rng::seed_from_u64(17);
    let count = 40_000;
    let mut sums = [(0.0, 0.0); 2];
    for _ in 0..count {
        let x: Vec<f64> = (0..n).map(|_| StandardNormal.sample(&mut source)).collect();
        let ratio = |m: &Vec<f64>| m.iter().zip(&x).map(|(m, x)| m * x - m * m / 2.0).sum::<f64>().exp();
        let w = sets.iter().map(ratio).sum::<f64>() / sets.len() as f64;
        for (sum, term) in sums.iter_mut().zip([w - epsilon.exp(), 1.0 - epsilon.exp() * w]) {
            sum.0 += term.max(0.0) / count as f64;
            sum.1 += term.max(0.0).powi(2) / count as f64;
        }
    }
    sums.map(|(mean, square)| (mean, ((square - mean * mean) / count as f64).sqrt()))
}

#[test]
fn simulations_of_batches_drawn_anew_are_never_above_the_bounds() {
    let shape = (6, 2);
    let sigma = 2.0;
    let wide = [1.0, 0.6, 0.4, 0.3, 0.2, 0.1];
    let far = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.9];
    for strategy in [toeplitz(&wide), toeplitz(&far), scaled(&wide, false), scaled(&wide, true)] {
        let found = RandomBatches::random_allocation(&strategy, 12, 6).unwrap();
        for epsilon in [0.1, 0.7] {
            let question = Question::AtEpsilon(epsilon);
            let bound = found.conditional(sigma, question).unwrap().value;
            let orders = found.renyi(sigma, question).unwrap().value;
            for (delta, error) in simulated(&strategy, shape, sigma, epsilon) {
                assert!(delta - 5.0 * error <= bound, "{epsilon}: {delta} ± {error} above {bound}");
                assert!(delta - 5.0 * error <= orders, "{epsilon}: {delta} ± {error} above {orders}");
            }
        }
    }
}

#[test]
fn larger_products_cost_more_in_both_orders() {
    // Kahane's inequality for two batches, by quadrature: W = (e^{X₁ − g₁₁/2} + e^{X₂ − g₂₂/2})/2 of correlated normals.
    let deltas = |g: [f64; 3], epsilon: f64| {
        let low = g[0].sqrt();
        let cross = if low > 0.0 { g[1] / low } else { 0.0 };
        let rest = (g[2] - cross * cross).max(0.0).sqrt();
        let step = 0.05;
        let mut sums = [0.0, 0.0];
        for i in -160..=160 {
            for j in -160..=160 {
                let u = f64::from(i) * step;
                let v = f64::from(j) * step;
                let mass = (-0.5 * (u * u + v * v)).exp() * step * step / std::f64::consts::TAU;
                let w = 0.5 * ((low * u - g[0] / 2.0).exp() + (cross * u + rest * v - g[2] / 2.0).exp());
                sums[0] += mass * (w - epsilon.exp()).max(0.0);
                sums[1] += mass * (1.0 - epsilon.exp() * w).max(0.0);
            }
        }
        sums
    };
    for (small, large) in [
        ([0.5, 0.1, 0.5], [0.5, 0.3, 0.5]),
        ([0.5, 0.3, 0.5], [0.8, 0.3, 0.5]),
        ([0.2, 0.0, 1.0], [0.4, 0.3, 1.1]),
        ([1.0, 0.5, 1.0], [1.0, 1.0, 1.0]),
    ] {
        for epsilon in [-0.5, 0.0, 0.3, 1.0] {
            let less = deltas(small, epsilon);
            let more = deltas(large, epsilon);
            assert!(less[0] < more[0] + 1e-4 && less[1] < more[1] + 1e-4, "{epsilon}: {less:?} {more:?}");
        }
    }
}

#[test]
fn what_has_no_account_is_refused() {
    let negative = toeplitz(&[1.0, -0.5]);
    for refused in [
        RandomBatches::balls_in_bins(&negative, 8, 4).map(drop),
        RandomBatches::random_allocation(&negative, 8, 4).map(drop),
        RandomBatches::random_allocation(&toeplitz(&[1.0]), 9, 4).map(drop),
        RandomBatches::balls_in_bins(&toeplitz(&[1.0]), 8, 0).map(drop),
    ] {
        assert!(refused.is_err());
    }
    let found = RandomBatches::balls_in_bins(&toeplitz(&[1.0, 0.5]), 8, 4).unwrap();
    assert!(found.conditional(0.0, Question::AtDelta(0.1)).is_err());
    assert!(found.conditional(1.0, Question::AtDelta(1.0)).is_err());
    assert!(found.renyi(1.0, Question::AtEpsilon(-1.0)).is_err());
    assert!(found.renyi(1e-3, Question::AtDelta(0.1)).unwrap_err().to_string().contains("conditional"));
}
