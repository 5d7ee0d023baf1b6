//! The two power series whose coefficients square-root strategies use.
//!
//! They are kept here, not taken from `strategy`, because the bits of the noise depend on the last bit of each
//! coefficient: the order of these operations is part of the stream's version.

/// r_0 = 1, r_k = r_{k−1}·(2k−1)/(2k): the first `bands` coefficients of (1−x)^{−1/2}.
pub(crate) fn square_root(bands: usize) -> Vec<f64> {
    recurrence(bands, |k| (2.0 * k - 1.0) / (2.0 * k))
}

/// s_0 = 1, s_k = s_{k−1}·(2k−3)/(2k): the first `bands` coefficients of (1−x)^{1/2}.
pub(crate) fn inverse_square_root(bands: usize) -> Vec<f64> {
    recurrence(bands, |k| (2.0 * k - 3.0) / (2.0 * k))
}

fn recurrence(bands: usize, factor: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut last = 1.0;
    (0..bands)
        .map(|k| {
            if k > 0 {
                last *= factor(k as f64);
            }
            last
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_coefficients_are_the_known_ones() {
        assert_eq!(square_root(4), [1.0, 0.5, 0.375, 0.3125]);
        assert_eq!(inverse_square_root(4), [1.0, -0.5, -0.125, -0.0625]);
        assert!(square_root(0).is_empty());
    }
}
