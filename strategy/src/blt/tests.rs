//! Closed forms on momentum against the sums they stand for, where poles meet and where they don't.

use super::{Blt, Rows, cascade, decoder, error_squared};
use crate::error::Result;
use crate::workload::{LearningRates, Momentum, Workload};

fn workload(beta: f64, decay: f64) -> Workload {
    let learning_rates = LearningRates::Constant;
    Workload::Momentum(Momentum { momentum: beta, weight_decay: decay, learning_rates })
}

/// (mean, last) squared error by the series of C⁻¹.
fn summed(blt: &Blt, n: usize, workload: &Workload) -> (f64, f64) {
    let b = crate::workload::decode(workload, &blt.inverse_coefficients(n)).unwrap();
    let last: f64 = b.iter().map(|b| b * b).sum();
    let mean: f64 = b.iter().enumerate().map(|(i, b)| (n - i) as f64 * b * b).sum();
    (mean / n as f64, last)
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

#[test]
fn momentum_is_its_sum() -> Result<()> {
    let phi = [1e-7, 0.003, 0.08];
    let phi_hat = [1e-3, 0.04, 0.5];
    let blt = Blt::from_interlaced(&phi, &phi_hat)?;
    // Weight decays and momenta on a θ̂, near one, equal to each other, and none at all.
    for decay in [0.0, 1e-9, 1e-3, 1.00001e-3, 0.0103, 0.04, 0.1] {
        for beta in [0.0, 0.5, 0.9, 0.96, 0.9600001, 0.97, 0.999, 0.99999] {
            let workload = workload(beta, decay);
            for n in [1, 2, 3, 50, 1000, 100_000] {
                let (mean, last) = summed(&blt, n, &workload);
                let at =
                    |rows| error_squared(&phi, &phi_hat, &workload.poles().unwrap(), n as u64, rows).squared;
                let drift = 1e-10;
                assert!(
                    close(at(Rows::Mean), mean, drift),
                    "β {beta} λ {decay} n {n}: {} {mean}",
                    at(Rows::Mean)
                );
                assert!(
                    close(at(Rows::Last), last, drift),
                    "β {beta} λ {decay} n {n}: {} {last}",
                    at(Rows::Last)
                );
            }
        }
    }
    Ok(())
}

#[test]
fn doubling_agrees_with_partial_fractions() {
    let phi = [6e-8, 2e-4, 0.01, 0.3];
    let phi_hat = [1e-5, 3e-3, 0.06, 0.7];
    for ends in [&[0.0][..], &[0.0, 0.1], &[2e-4, 0.2]] {
        for n in [1, 7, 1000, 1_000_001, 1_000_000_000] {
            for rows in [Rows::Last, Rows::Mean] {
                let closed = decoder::error_squared(&phi, &phi_hat, ends, n, rows);
                let doubled = cascade::error_squared(&phi, &phi_hat, ends, n, rows);
                assert!(close(doubled.squared, closed.squared, 1e-10), "{n} {rows:?} {ends:?}");
                let pairs = closed.phi.iter().zip(&doubled.phi).zip(phi);
                for ((a, b), scale) in pairs.chain(closed.phi_hat.iter().zip(&doubled.phi_hat).zip(phi_hat)) {
                    let error = (a - b).abs() * scale / closed.squared;
                    assert!(error < 1e-8, "{n} {rows:?} {ends:?}: {a} against {b}");
                }
            }
        }
    }
}
