//! e^x for x ≤ 0 over many numbers at once, without branches, so that compilers use their widest registers.

/// Below this e^x is no longer a normal f64; the result stays at e^LEAST ≈ 3e-308.
const LEAST: f64 = -708.0;
/// Adding 1.5·2⁵² rounds to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts: the first has zeros enough at its end for n·LN2_HIGH to be exact.
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// e^x for −708 ≤ x ≤ 709, relative error below 1e-14; e^−708 for anything less.
///
/// x = n·ln 2 + r with |r| ≤ ½ ln 2, Taylor's series of e^r to r¹¹, and n put into the exponent.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let x = if x < LEAST { LEAST } else { x };
    let rounded = x * std::f64::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let low = 1.0 + r + r * r * (0.5 + r * (1.0 / 6.0));
    let r2 = r * r;
    let r4 = r2 * r2;
    let a = 1.0 / 24.0 + r * (1.0 / 120.0);
    let b = 1.0 / 720.0 + r * (1.0 / 5040.0);
    let c = 1.0 / 40_320.0 + r * (1.0 / 362_880.0);
    let d = 1.0 / 3_628_800.0 + r * (1.0 / 39_916_800.0);
    let high = (a + r2 * b) + r4 * (c + r2 * d);
    let scale = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1023 << 52));
    (low + r4 * high) * scale
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
        assert!(worst < 1e-14, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e9) < 1e-300 && exp(f64::NEG_INFINITY) > 0.0);
    }
}
