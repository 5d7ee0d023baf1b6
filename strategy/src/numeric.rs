//! Sums over slices that the compiler may keep in vector registers.
//!
//! A plain f64 sum has one order and so one chain of additions; eight partial sums, added in a fixed order at
//! the end, are as deterministic and several times as fast.

const LANES: usize = 8;

/// Σ a_i·b_i over the shorter length.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let length = a.len().min(b.len());
    let a = &a[..length];
    let b = &b[..length];
    let mut sums = [0.0; LANES];
    let (whole_a, rest_a) = a.as_chunks::<LANES>();
    let (whole_b, rest_b) = b.as_chunks::<LANES>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum();
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + rest
}

/// to_i += factor·what_i.
pub(crate) fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(t, w)| *t += factor * w);
}
