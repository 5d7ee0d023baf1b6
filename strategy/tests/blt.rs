//! The closed forms of BLTs against O(n) sums, at published and random parameters.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;

use common::{close, published};
use proptest::prelude::*;
use strategy::series::{band_inverse_sqrt, band_sqrt, invert, prefix_sums};
use strategy::{Blt, Participation, toeplitz};

/// (rms, max) by the series of C⁻¹, O(n·d).
fn summed(blt: &Blt, n: usize) -> (f64, f64) {
    let b = prefix_sums(&blt.inverse_coefficients(n));
    let max: f64 = b.iter().map(|b| b * b).sum();
    let rms: f64 = b.iter().enumerate().map(|(i, b)| (n - i) as f64 * b * b).sum();
    ((rms / n as f64).sqrt(), max.sqrt())
}

fn agree(blt: &Blt, n: u64, rule: Participation, relative: f64) {
    let (rms, max) = summed(blt, n as usize);
    let errors = blt.errors(n).unwrap();
    assert!(close(errors.rms, rms, relative), "rms {} against {rms}", errors.rms);
    assert!(close(errors.max, max, relative), "max {} against {max}", errors.max);
    let series = toeplitz::sensitivity(&blt.coefficients(n as usize), n, rule).unwrap();
    let closed = blt.sensitivity(n, rule).unwrap();
    assert!(closed.exact && series.exact);
    // The series' powers θ^i by repeated products drift by up to 1e-16 a round; the closed form does not.
    let drift = 1e-12 + 1e-16 * n as f64;
    assert!(close(closed.value, series.value, drift), "{} against {}", closed.value, series.value);
}

#[test]
fn published_parameters() {
    let settings =
        [(2000, 100, 10), (4000, 400, 5), (4000, 1000, 2), (1_000_000, 1000, 50), (7, 3, 9), (1, 1, 1)];
    for blt in published() {
        for (n, gap, most) in settings {
            agree(&blt, n, Participation::new(gap, most).unwrap(), 1e-11);
        }
    }
}

#[test]
fn a_million_rounds_to_the_last_digits() {
    // Σ u² with every power by exp(i·log1p(−φ)) and exact summation, in another language.
    let rule = Participation::new(1000, 50).unwrap();
    let [_, b400, b1000] = published();
    assert!(close(b400.sensitivity(1_000_000, rule).unwrap().value, 346.5381916596846, 1e-14));
    assert!(close(b1000.sensitivity(1_000_000, rule).unwrap().value, 426.58596649025446, 1e-14));
}

/// ‖C·1‖ by running sums, O(n·d): every user in every round.
fn always(blt: &Blt, n: usize) -> f64 {
    let sums = prefix_sums(&blt.coefficients(n));
    sums.iter().map(|u| u * u).sum::<f64>().sqrt()
}

#[test]
fn a_million_participations() {
    for blt in published() {
        for n in [1, 2, 3000, 1_000_000] {
            let found = blt.sensitivity(n, Participation::new(1, n).unwrap()).unwrap();
            let sum = always(&blt, n as usize);
            assert!(found.exact && close(found.value, sum, 1e-9), "n {n}: {} against {sum}", found.value);
        }
    }
}

#[test]
fn published_losses_of_b400() {
    // b400 at Table 3's setting and at its own.
    let blt = strategy::Strategy::Blt(published()[1].clone());
    let table = Participation::new(342, 6).unwrap();
    assert!((blt.max_loss(2052, table).unwrap() - 10.7455).abs() < 6e-5);
    assert!((blt.rms_loss(2052, table).unwrap() - 9.6909).abs() < 6e-5);
    let own = Participation::new(400, 5).unwrap();
    assert!((blt.max_loss(4000, own).unwrap() - 10.6722).abs() < 6e-5);
    assert!((blt.rms_loss(4000, own).unwrap() - 9.7402).abs() < 6e-5);
}

#[test]
fn the_inverse_pair_gives_the_inverse_series() {
    for blt in published() {
        let (theta, omega) = blt.inverse();
        assert!(omega.iter().all(|w| *w < 0.0));
        let series = strategy::series::blt_coefficients(&theta, &omega, 500);
        for (a, b) in series.iter().zip(blt.inverse_coefficients(500)) {
            assert!((a - b).abs() < 1e-13, "{a} against {b}");
        }
    }
}

#[test]
fn decays_and_weights_next_to_nothing() {
    // φ̂ near 1e-10: the weighted geometric sum in its plain closed form would lose nine digits here.
    let blt = Blt::new(vec![1.0 - 1e-11], vec![1e-10]).unwrap();
    for n in [10, 1000, 100_000] {
        agree(&blt, n, Participation::new(7, 3).unwrap(), 1e-12);
    }
}

#[test]
fn equal_buffers_act_as_one() {
    let one = Blt::new(vec![0.9, 0.5], vec![0.2, 0.3]).unwrap();
    let two = Blt::new(vec![0.9, 0.5, 0.5], vec![0.2, 0.1, 0.2]).unwrap();
    let near = Blt::new(vec![0.9, 0.5, 0.5 + 1e-16], vec![0.2, 0.1, 0.2]).unwrap();
    let a = one.errors(300).unwrap();
    let b = two.errors(300).unwrap();
    let c = near.errors(300).unwrap();
    assert!(close(a.rms, b.rms, 1e-13) && close(a.max, b.max, 1e-13));
    assert!(close(a.rms, c.rms, 1e-12) && close(a.max, c.max, 1e-12));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn closed_forms_are_the_sums(
        pairs in prop::collection::vec((0.0..9.0_f64, 0.001..1.0_f64), 1..8),
        n in 1_u64..3000,
        gap in 1_u64..900,
        most in 1_u64..20,
    ) {
        // θ = 1 − 10^{−x}; ω scaled to a sum below one.
        let total: f64 = pairs.iter().map(|p| p.1).sum();
        let theta = pairs.iter().map(|p| 1.0 - 10_f64.powf(-p.0 - 0.01)).collect();
        let omega = pairs.iter().map(|p| 0.99 * p.1 / total).collect();
        agree(&Blt::new(theta, omega).unwrap(), n, Participation::new(gap, most).unwrap(), 1e-9);
    }

    #[test]
    fn inverting_twice_changes_nothing(tail in prop::collection::vec(-0.3..0.3_f64, 0..8)) {
        let mut c = vec![1.5];
        c.extend(tail);
        let back = invert(&invert(&c, 20).unwrap(), 20).unwrap();
        for (i, b) in back.iter().enumerate() {
            prop_assert!((b - c.get(i).copied().unwrap_or(0.0)).abs() < 1e-9);
        }
    }
}

#[test]
fn the_square_roots_multiply_to_one() {
    let r = band_sqrt(64);
    let s = band_inverse_sqrt(64);
    assert_eq!(&r[..4], &[1.0, 0.5, 0.375, 0.3125]);
    for t in 0..64 {
        let product: f64 = (0..=t).map(|i| r[i] * s[t - i]).sum();
        let square: f64 = (0..=t).map(|i| r[i] * r[t - i]).sum();
        assert!((product - if t == 0 { 1.0 } else { 0.0 }).abs() < 1e-14);
        assert!((square - 1.0).abs() < 1e-13);
    }
}
