//! e^x for x ≤ 0 over many numbers at once, without branches, so that compilers use their widest registers.

use super::lanes::Lanes;

/// Below this e^x is no longer a normal f64; the result stays at e^LEAST ≈ 3e-308.
const LEAST: f64 = -708.0;
/// Adding 1.5·2⁵² rounds to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// Coefficients of e^r for |r| ≤ ½ ln 2 as 1 + Σ of these times r, r², …: Chebyshev interpolation, to 1.1e-10.
const SERIES: [f64; 7] = [
    1.0,
    0.500_000_004_711_778_6,
    0.166_666_667_189_975_4,
    0.041_666_352_896_649_515,
    0.008_333_298_483_740_934,
    0.001_394_110_844_443_401_3,
    0.000_198_992_739_702_660_23,
];

/// Returns e^x for −708 ≤ x ≤ 709, with a relative error below 2e-10, far below the error of samples; e^−708 for smaller
/// x. It splits x = n·ln 2 + r, and puts n into the exponent.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let x = if x < LEAST { LEAST } else { x };
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let r = x - (rounded - ROUND) * std::f64::consts::LN_2;
    let [a, b, c, d, e, f, g] = SERIES;
    let r2 = r * r;
    let low = (1.0 + a * r) + r2 * (b + c * r);
    let high = (d + e * r) + r2 * (f + g * r);
    let scale = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1023 << 52));
    (low + r2 * r2 * high) * scale
}

/// Computes e^{scale·(x − top)} of each x ≤ top.
pub(super) fn exp_below(to: &mut [Lanes], all: &[Lanes], top: f64, scale: f64) {
    let pairs = to.as_flattened_mut().iter_mut().zip(all.as_flattened());
    pairs.for_each(|(to, x)| *to = exp(scale * (x - top)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_exponential_over_its_whole_range() {
        let mut worst = 0.0_f64;
        for i in 0..2_000_000 {
            let x = -708.0 * f64::from(i) / 2e6 + 1e-7 * f64::from(i % 97);
            worst = worst.max((exp(x) / x.exp() - 1.0).abs());
        }
        assert!(worst < 2e-10, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e9) < 1e-300 && exp(f64::NEG_INFINITY) > 0.0);
    }
}
