//! F of a BLT of any number of buffers and the state that a row leaves; sums of an inverse mechanism.

#![allow(clippy::needless_range_loop)] // values of several arrays go by one number

use super::decide::{Values, WholeBlock};
use super::normals::Normals;
use crate::block::BLOCK;
use crate::simd::Simd;

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
pub(crate) fn blt_advance<S: Simd>(theta: &[f64], state: &mut [Values], n: &WholeBlock) {
    for (buffer, &theta) in state.iter_mut().zip(theta) {
        for i in 0..BLOCK {
            buffer[i] = S::fused_f64(theta, buffer[i], f64::from(n[i]));
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
