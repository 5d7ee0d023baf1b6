//! Small mechanisms on a grid, three rounds of one coordinate, with every outcome enumerated: their exact δ beside that of
//! the Gaussian mechanism that their account names (docs/grid.md).
//!
//! Rows n do not depend on the data and y = x + n, so two data sets whose sums differ by Δ give y the laws p(y) and p(y − Δ).

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::collections::HashMap;

use accounting::{gaussian, normal};

const ROUNDS: usize = 3;
type Row = [i64; ROUNDS];
type Law = HashMap<Row, f64>;
type Matrix = [[f64; ROUNDS]; ROUNDS];

/// Outcomes further than this many deviations are left out: some 10⁻¹⁶ in all.
const REACH: f64 = 8.3;

/// P[⌊s·Z − centre + ½⌋ = n], a difference of tails that keeps its precision.
fn rounded_normal(n: i64, centre: f64, s: f64) -> f64 {
    let cdf = |x: f64| normal::ln_cdf(x).exp();
    let low = (n as f64 - 0.5 + centre) / s;
    let high = (n as f64 + 0.5 + centre) / s;
    if low > 0.0 { cdf(-low) - cdf(-high) } else { cdf(high) - cdf(low) }
}

/// The law of rows that are made one after another: `step` returns the integers of a row after the rows before it, with
/// their probabilities.
fn law(step: impl Fn(&[i64]) -> Vec<(i64, f64)>) -> Law {
    let mut law = vec![(Vec::new(), 1.0)];
    for _ in 0..ROUNDS {
        law = law
            .iter()
            .flat_map(|(rows, probability): &(Vec<i64>, f64)| {
                let next = step(rows).into_iter();
                next.map(move |(n, more)| ([rows.as_slice(), &[n]].concat(), probability * more))
            })
            .collect();
    }
    law.into_iter().map(|(rows, probability)| ([rows[0], rows[1], rows[2]], probability)).collect()
}

/// n_t = ⌊(s·Z_t − feedback(n_{<t}))/diagonal + ½⌋.
fn fed_back(s: f64, diagonal: impl Fn(usize) -> f64, feedback: impl Fn(&[i64]) -> f64) -> Law {
    law(|rows| {
        let c = diagonal(rows.len());
        let centre = feedback(rows) / c;
        around(-centre, s / c).map(|n| (n, rounded_normal(n, centre, s / c))).collect()
    })
}

fn around(centre: f64, s: f64) -> std::ops::RangeInclusive<i64> {
    (centre - REACH * s).floor() as i64..=(centre + REACH * s).ceil() as i64
}

fn by_matrix(c: &Matrix, s: f64) -> Law {
    let feedback = |rows: &[i64]| rows.iter().zip(&c[rows.len()]).map(|(n, c)| *n as f64 * c).sum();
    fed_back(s, |t| c[t][t], feedback)
}

/// Sums of rounded nodes of a tree of three leaves, combined by any function of integers.
fn by_tree(s: f64) -> Law {
    let node = |n| rounded_normal(n, 0.0, s);
    let range = || around(0.0, s);
    let mut second: HashMap<(i64, i64), f64> = HashMap::new();
    for first in range() {
        for leaf in range() {
            for both in around(0.0, s) {
                // Two thirds of what the node says beyond its leaves, rounded.
                let carry =
                    first + leaf + (2.0 / 3.0 * (both - first - leaf) as f64).round_ties_even() as i64;
                *second.entry((first, carry - first)).or_default() += node(first) * node(leaf) * node(both);
            }
        }
    }
    let thirds = || range().map(|third| (third, node(third)));
    let all = second.into_iter().flat_map(|((a, b), p)| thirds().map(move |(c, q)| ([a, b, c], p * q)));
    all.collect()
}

/// The mutant that serves z_t plus rounded feedback of *integer noise*, with C = B⁻¹ claimed.
fn by_past_noise(s: f64) -> Law {
    law(|rows| {
        // Rows and noise are in one-to-one correspondence.
        let noise = rows.iter().fold(0i64, |before, n| n - half_up(-before as f64 / 2.0));
        let fed = if rows.is_empty() { 0 } else { half_up(-noise as f64 / 2.0) };
        around(0.0, s).map(|z| (z + fed, rounded_normal(z, 0.0, s))).collect()
    })
}

fn half_up(value: f64) -> i64 {
    (value + 0.5).floor() as i64
}

/// A BLT of one buffer, which keeps multiples of `grain`; with 0 it is exact. Returns Σ ω·S.
fn buffer(theta: f64, omega: f64, grain: f64) -> impl Fn(&[i64]) -> f64 {
    move |rows| {
        let state = rows.iter().fold(0.0, |state: f64, n| {
            let next = theta * state + *n as f64;
            if grain > 0.0 { (next / grain + 0.5).floor() * grain } else { next }
        });
        omega * state
    }
}

fn blt_matrix(theta: f64, omega: f64) -> Matrix {
    [[1.0, 0.0, 0.0], [omega, 1.0, 0.0], [omega * theta, omega, 1.0]]
}

fn moved(matrix: &[[f64; ROUNDS]], shift: Row) -> f64 {
    let row = |c: &[f64; ROUNDS]| c.iter().zip(shift).map(|(c, x)| c * x as f64).sum::<f64>();
    matrix.iter().map(row).map(|x| x * x).sum::<f64>().sqrt()
}

/// The worst δ over shifts of up to two steps and several ε, divided by that of the Gaussian mechanism with μ = (‖MΔ‖ + added)/s.
fn worst(law: &Law, matrix: &[[f64; ROUNDS]], added: f64, s: f64) -> f64 {
    let epsilons = [0.1, 0.5, 1.0, 2.0, 3.0];
    let mut worst = 0.0f64;
    let shifts = (0..125).map(|i| [i / 25 - 2, i / 5 % 5 - 2, i % 5 - 2]).filter(|shift| *shift != [0; 3]);
    for shift in shifts {
        let mut deltas = [0.0; 5];
        for (y, p) in law {
            let other = [y[0] - shift[0], y[1] - shift[1], y[2] - shift[2]];
            let Some(q) = law.get(&other) else { continue };
            for (delta, epsilon) in deltas.iter_mut().zip(epsilons) {
                *delta += (p - f64::exp(epsilon) * q).max(0.0);
            }
        }
        let mu = (moved(matrix, shift) + added) / s;
        for (delta, epsilon) in deltas.iter().zip(epsilons) {
            let claimed = gaussian::delta(epsilon, mu).unwrap();
            // Below this, what was left out would show in the ratio.
            if claimed > 1e-7 || *delta > 1e-6 {
                worst = worst.max(delta / claimed);
            }
        }
    }
    worst
}

#[test]
fn exact_families_keep_what_the_ideal_mechanism_states() {
    let s = 1.0;
    let identity: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let decaying: Matrix = [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]];
    let banded: Matrix = [[1.0, 0.0, 0.0], [0.6, 1.0, 0.0], [0.3, 0.6, 1.0]];
    let signed: Matrix = [[1.0, 0.0, 0.0], [-0.7, 1.25, 0.0], [0.4, -0.3, 0.8]];
    for matrix in [identity, decaying, banded, signed] {
        let found = worst(&by_matrix(&matrix, s), &matrix, 0.0, s);
        assert!(found <= 1.0 + 1e-9 && found > 0.9, "{matrix:?}: {found}");
    }
    let nodes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let found = worst(&by_tree(s), &nodes, 0.0, s);
    assert!(found <= 1.0 + 1e-9 && found > 0.5, "tree: {found}");
}

#[test]
fn a_bounded_error_of_the_feedback_costs_no_more_than_its_term() {
    let s = 2.0;
    for (theta, omega) in [(0.5, 1.0), (0.9, 0.5)] {
        let matrix = blt_matrix(theta, omega);
        for grain in [1.0, 0.5, 0.25] {
            let law = fed_back(s, |_| 1.0, buffer(theta, omega, grain));
            // Half of a grain in each rounding of the buffer, of which the third row's feedback has seen two.
            let eta = omega * grain / 2.0 * (1.0 + theta);
            let found = worst(&law, &matrix, 2.0 * eta * f64::sqrt(3.0), s);
            assert!(found <= 1.0, "θ {theta}, grain {grain}: {found}");
        }
    }
}

/// These must fail what the tests above hold the mechanisms to, or those tests would show nothing.
#[test]
fn designs_that_look_alike_are_seen_to_break_it() {
    let inverse_of_half: Matrix = [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]];
    let past_noise = worst(&by_past_noise(2.0), &inverse_of_half, 0.0, 2.0);
    assert!(past_noise >= 100.0, "feeding integer noise back: {past_noise}");
    let theta = 0.5;
    let omega = 1.0;
    let coarse = fed_back(2.0, |_| 1.0, buffer(theta, omega, 1.0));
    let rounded = worst(&coarse, &blt_matrix(theta, omega), 0.0, 2.0);
    assert!(rounded >= 100.0, "a buffer rounded to integers: {rounded}");
}
