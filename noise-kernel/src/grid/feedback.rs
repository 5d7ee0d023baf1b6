//! F from earlier rows, and the state that they leave.

#![allow(clippy::needless_range_loop)] // values of several arrays go by one number

use super::decide::Values;
use super::normals::Normals;
use crate::block::BLOCK;
use crate::simd::Simd;

/// One row of a block as it is kept.
pub(crate) type Whole = [i32; BLOCK];

/// Coordinates whose sums stay in registers.
const STRIP: usize = 32;

/// f ← Σ coefficient·row. The coefficients are such that every product and sum is exact, in any order.
#[inline(always)]
pub(crate) fn banded<S: Simd>(sources: &[(f64, &Whole)], f: &mut Values) {
    let (strips, _) = f.as_chunks_mut::<STRIP>();
    for (index, strip) in strips.iter_mut().enumerate() {
        let mut sum = [0.0; STRIP];
        for (coefficient, row) in sources {
            let row = &row.as_chunks::<STRIP>().0[index];
            for i in 0..STRIP {
                sum[i] = S::near_fused(*coefficient, f64::from(row[i]), sum[i]);
            }
        }
        *strip = sum;
    }
}

/// f ← Σ ω_j S_j, in the order of the specification: even and odd buffers apart.
#[inline(always)]
pub(crate) fn blt<S: Simd>(omega: &[f64], state: &[Values], f: &mut Values) {
    for i in 0..BLOCK {
        f[i] = omega[0] * state[0][i];
    }
    if omega.len() == 1 {
        return;
    }
    for j in (2..omega.len()).step_by(2) {
        for i in 0..BLOCK {
            f[i] = S::fused_f64(omega[j], state[j][i], f[i]);
        }
    }
    let mut odd = [0.0; BLOCK];
    for i in 0..BLOCK {
        odd[i] = omega[1] * state[1][i];
    }
    for j in (3..omega.len()).step_by(2) {
        for i in 0..BLOCK {
            odd[i] = S::fused_f64(omega[j], state[j][i], odd[i]);
        }
    }
    for i in 0..BLOCK {
        f[i] += odd[i];
    }
}

/// S_j ← θ_j S_j + n, rounded once.
#[inline(always)]
pub(crate) fn blt_advance<S: Simd>(theta: &[f64], state: &mut [Values], n: &Values) {
    for (buffer, &theta) in state.iter_mut().zip(theta) {
        for i in 0..BLOCK {
            buffer[i] = S::fused_f64(theta, buffer[i], n[i]);
        }
    }
}

/// Σ c·z̃ of one row and the bound of its error: both grow by one source.
#[inline(always)]
pub(crate) fn inverse<S: Simd>(c: f64, source: &Normals, sum: &mut Normals) {
    for i in 0..BLOCK {
        sum.z[i] = S::near_fused(c, source.z[i], sum.z[i]);
    }
    for i in 0..BLOCK / 2 {
        sum.error[i] = S::near_fused(c.abs(), source.error[i], sum.error[i]);
    }
}

#[cfg(test)]
mod tests {
    use crate::Backend;
    use crate::block::BLOCK;
    use crate::dispatch::Active;
    use dice::Dice;

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
            let sources: Vec<(f64, &[i32; BLOCK])> =
                steps.iter().map(|&step| step as f64 * scale).zip(&rows).collect();
            for backend in Backend::available() {
                let mut f = [f64::NAN; BLOCK];
                Active::new(backend).unwrap().grid_banded(&sources, &mut f);
                for (at, f) in f.iter().enumerate() {
                    let products =
                        steps.iter().zip(&rows).map(|(&c, row)| i128::from(c) * i128::from(row[at]));
                    let exact: i128 = products.sum();
                    assert_eq!((f / scale) as i128, exact, "{lags} lags on {backend}");
                    assert_eq!((f / scale).fract(), 0.0);
                }
            }
        }
    }
}
