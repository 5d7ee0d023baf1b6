use super::*;
use crate::Backend;
use crate::dispatch::Active;
use dice::Dice;

/// F of one row: nothing is certain, so that all of it is required.
fn fed_back(backend: Backend, sources: &[Source<'_>]) -> Values {
    let normals = [Normals { error: [f64::INFINITY; BLOCK / 2], ..Normals::ZERO }];
    let mut f = [f64::NAN; BLOCK];
    let mut out = [[0; BLOCK]];
    let mut together = RowBatch { deviations: [1.0; ROWS], normals: &normals, out: &mut out };
    let mut open = |strip: &OpenStrip<'_>, _: &mut [i32]| {
        f[strip.first..strip.first + STRIP].copy_from_slice(strip.f);
    };
    let active = Active::new(backend).unwrap();
    active.grid_banded(sources, &[[0.0; ROWS]; ROWS], &mut together, &mut open);
    f
}

/// The largest rows there are, with coefficients that use every bit: sums of whole numbers, to the last one.
#[test]
fn sums_of_banded_feedback_are_exact_at_the_extremes() {
    let mut dice = Dice::new(31);
    for lags in [1, 2, 7, 33, 400] {
        // Σ|c| ≤ 2^k, c multiples of 2^(k − 22).
        let k = dice.below(4) as i32;
        let mut left = 1i64 << 22;
        let steps: Vec<i64> = (0..lags)
            .map(|i| {
                let most = left.min(2 * left / (lags - i));
                let step = most - dice.below(1 + most as u64 / 100) as i64;
                left -= step;
                if dice.below(2) == 0 { step } else { -step }
            })
            .collect();
        let rows: Vec<[i32; BLOCK]> = (0..lags)
            .map(|i| {
                std::array::from_fn(|at| match at % 4 {
                    // All terms of one sign.
                    0 => i32::MAX * steps[i as usize].signum() as i32,
                    1 => i32::MAX,
                    2 => -i32::MAX,
                    _ => dice.roll() as i32,
                })
            })
            .collect();
        let scale = 2f64.powi(k - 22);
        let sources: Vec<Source<'_>> =
            steps.iter().map(|&step| [step as f64 * scale; ROWS]).zip(&rows).collect();
        for backend in Backend::available() {
            let f = fed_back(backend, &sources);
            for (at, f) in f.iter().enumerate() {
                let products = steps.iter().zip(&rows).map(|(&c, row)| i128::from(c) * i128::from(row[at]));
                let exact: i128 = products.sum();
                assert_eq!((f / scale) as i128, exact, "{lags} lags on {backend}");
                assert_eq!((f / scale).fract(), 0.0);
            }
        }
    }
}
