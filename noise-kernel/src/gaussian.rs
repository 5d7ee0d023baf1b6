//! Three uniform words to two standard normals: Box–Muller in binary32, branch-free.
//!
//! Coefficients come from `tools/minimax.py`. Every operation rounds once, in the order written.

const TWO_32: f32 = 4_294_967_296.0;
const TWO_MINUS_64: f32 = 1.0 / (TWO_32 * TWO_32);
/// Bits of the binary32 nearest to √½ from below: mantissas are taken in [√½, √2).
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
const ONE_BITS: u32 = 0x3f80_0000;
/// ln 2 in two parts; the high one has 9 significant bits, so that k·LN2_HIGH is exact for |k| ≤ 65.
const LN2_HIGH: f32 = f32::from_bits(0x3f31_8000);
const LN2_LOW: f32 = f32::from_bits(0xb95e_8083);
/// π·2⁻³².
const ANGLE_STEP: f32 = f32::from_bits(0x3049_0fdb);

/// log1p(f) = f − f²/2 + f³·P(f) on [√½ − 1, √2 − 1], highest power first.
const LOG: [f32; 9] = [
    f32::from_bits(0x3d8a_2b9b),
    f32::from_bits(0xbdef_1dd8),
    f32::from_bits(0x3df3_7833),
    f32::from_bits(0xbdfe_110c),
    f32::from_bits(0x3e11_9bb5),
    f32::from_bits(0xbe2a_ae26),
    f32::from_bits(0x3e4c_d25b),
    f32::from_bits(0xbe80_0003),
    f32::from_bits(0x3eaa_aaa4),
];
/// sin y = y + y³·S(y²) on [−π/4, π/4], highest power first.
const SIN: [f32; 3] = [f32::from_bits(0xb94c_a1f1), f32::from_bits(0x3c08_839d), f32::from_bits(0xbe2a_aaa3)];
/// cos y = 1 − y²/2 + y⁴·K(y²) on [−π/4, π/4], highest power first.
const COS: [f32; 3] = [f32::from_bits(0x37cc_f5ce), f32::from_bits(0xbab6_061a), f32::from_bits(0x3d2a_aaa5)];

/// Two independent standard normals from 96 uniform bits: (a, b) make the radius, c the angle.
#[inline(always)]
pub(crate) fn pair(a: u32, b: u32, c: u32) -> (f32, f32) {
    let (w, top) = uniform(a, b);
    let r = (2.0 * minus_log(w, top)).sqrt();
    let (quadrant, y) = angle(c);
    let (sin, cos) = sin_cos(quadrant, y);
    (r * cos, r * sin)
}

/// u = (2³²a + b + ½)·2⁻⁶⁴ as (w, top), w in (0, ½]: u is w, or 1 − w where `top` is not 0. Above one half it is
/// 1 − u that keeps its precision near u = 1.
#[inline(always)]
fn uniform(a: u32, b: u32) -> (f32, u32) {
    let top = ((a as i32) >> 31) as u32;
    let (a, b) = (a ^ top, b ^ top);
    // a is below 2³¹ here, so the signed conversion (one instruction) is the unsigned one.
    (((a as i32 as f32 * TWO_32 + b as f32) + 0.5) * TWO_MINUS_64, top)
}

/// −ln u, in (0, 65·ln 2]: f < 0 where k = 0, and elsewhere |log1p f| ≤ ½·ln 2 < −k·ln 2.
#[inline(always)]
fn minus_log(w: f32, top: u32) -> f32 {
    let u = if top != 0 { 1.0 - w } else { w };

    let shifted = u.to_bits().wrapping_add(ONE_BITS - SQRT_HALF_BITS);
    let k = (shifted >> 23) as i32 - 127;
    let m = f32::from_bits((shifted & 0x007f_ffff) + SQRT_HALF_BITS);
    // Where u is rounded, f = m − 1 comes from w instead, exactly: k is 0 or −1 there.
    let from_w = if k == 0 { -w } else { 1.0 - (w + w) };
    let f = if top != 0 { from_w } else { m - 1.0 };

    let mut p = LOG[0];
    for c in &LOG[1..] {
        p = p * f + c;
    }
    let k = k as f32;
    let square = f * f;
    let mut y = (square * f) * p;
    y += k * LN2_LOW;
    y -= 0.5 * square;
    -((y + f) + k * LN2_HIGH)
}

/// The angle 2π(c + ½)/2³² as a number of quarter turns and the rest, in [−π/4, π/4].
#[inline(always)]
fn angle(c: u32) -> (u32, f32) {
    let quadrant = c.wrapping_add(0x2000_0000) >> 30;
    let within = (((c << 2) as i32) >> 1) | 1;
    (quadrant, within as f32 * ANGLE_STEP)
}

/// Sine and cosine of `quadrant` quarter turns and y.
#[inline(always)]
fn sin_cos(quadrant: u32, y: f32) -> (f32, f32) {
    let s = y * y;
    let sin = y + (y * s) * ((SIN[0] * s + SIN[1]) * s + SIN[2]);
    let cos = (1.0 - 0.5 * s) + (s * s) * ((COS[0] * s + COS[1]) * s + COS[2]);
    // A quarter turn maps (cos, sin) to (−sin, cos); half a turn negates both.
    let (cos, sin) = if quadrant & 1 != 0 { (sin, cos) } else { (cos, sin) };
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 30;
    let sin_sign = (quadrant & 2) << 30;
    (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ cos_sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle_normal;

    /// Words near every edge of the transform, and many others.
    fn words() -> Vec<(u32, u32, u32)> {
        let mut edges: Vec<u64> = vec![0, 1, u64::MAX, 1 << 63, SQRT_HALF_X, SQRT_HALF_X / 2];
        edges.extend((0..64).map(|i| 1 << i));
        edges.extend((0..64).map(|i| u64::MAX >> i));
        let near = |x: u64| (0..5).map(move |i| x.wrapping_add(i).wrapping_sub(2));
        let octants = (0..8u32).map(|i| i << 29);
        let angles: Vec<u32> =
            octants.flat_map(|c| (0..5).map(move |i| c.wrapping_add(i).wrapping_sub(2))).collect();
        let mut words = Vec::new();
        for x in edges.into_iter().flat_map(near) {
            for &c in &angles {
                words.push(((x >> 32) as u32, x as u32, c));
            }
        }
        let mut x = 1u64;
        for _ in 0..2_000_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let y = x ^ (x >> 29);
            words.push(((y >> 32) as u32, y as u32, (y.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32));
        }
        words
    }

    const SQRT_HALF_X: u64 = 0xb504_f333_f9de_6484;

    fn ulp(x: f64) -> f64 {
        f64::from(f32::from_bits((x.abs() as f32).to_bits() + 1)) - f64::from(x.abs() as f32)
    }

    #[test]
    fn the_two_transforms_agree_to_the_bit() {
        for (a, b, c) in words() {
            let (x, y) = (pair(a, b, c), oracle_normal::pair(a, b, c));
            assert_eq!((x.0.to_bits(), x.1.to_bits()), (y.0.to_bits(), y.1.to_bits()), "{a:x} {b:x} {c:x}");
        }
    }

    #[test]
    fn each_step_is_within_two_ulps() {
        let mut worst = [0f64; 5];
        let mut see = |step: usize, ours: f32, exact: f64| {
            worst[step] = worst[step].max((f64::from(ours) - exact).abs() / ulp(exact));
        };
        for (a, b, c) in words() {
            let x = u128::from(a) << 32 | u128::from(b);
            let (w, top) = uniform(a, b);
            let near = if top == 0 { x } else { (1 << 64) - 1 - x };
            see(0, w, (2 * near + 1) as f64 / 2f64.powi(65));
            let exact = if top == 0 { -f64::from(w).ln() } else { -(-f64::from(w)).ln_1p() };
            let l = minus_log(w, top);
            assert!(l > 0.0 && f64::from(l) <= 45.06, "{l}");
            see(1, l, exact);

            let (quadrant, y) = angle(c);
            let turns = (f64::from(c) + 0.5) / 2f64.powi(32) - f64::from(quadrant) / 4.0;
            see(2, y, (turns - turns.round()) * std::f64::consts::TAU);
            let (sin, cos) = sin_cos(0, y);
            see(3, sin, f64::from(y).sin());
            see(4, cos, f64::from(y).cos());
            let (x, y) = pair(a, b, c);
            assert!(f64::from(x.abs().max(y.abs())) <= crate::LARGEST_NORMAL);
        }
        println!(
            "ulps: w {} log {} angle {} sine {} cosine {}",
            worst[0], worst[1], worst[2], worst[3], worst[4]
        );
        let allowed = [1.1, 1.5, 1.8, 1.0, 1.4];
        assert!(worst.iter().zip(allowed).all(|(w, a)| *w < a), "{worst:?}");
    }

    #[test]
    fn all_normals_are_near_the_exact_ones() {
        let mut worst = 0f64;
        for (a, b, c) in words() {
            let x = u128::from(a) << 32 | u128::from(b);
            let above = (2 * ((1u128 << 64) - 1 - x) + 1) as f64 / 2f64.powi(65);
            let below = (2 * x + 1) as f64 / 2f64.powi(65);
            let log = if above < 0.5 { (-above).ln_1p() } else { below.ln() };
            let (r, angle) =
                ((-2.0 * log).sqrt(), (f64::from(c) + 0.5) / 2f64.powi(32) * std::f64::consts::TAU);
            let (cosine, sine) = pair(a, b, c);
            let error =
                (f64::from(cosine) - r * angle.cos()).abs().max((f64::from(sine) - r * angle.sin()).abs());
            worst = worst.max(error / r);
        }
        println!("largest error over radius: {worst:e}");
        assert!(worst < 4e-7, "{worst:e}");
    }

    #[test]
    fn the_extremes_are_what_the_specification_says() {
        let (cosine, _) = pair(0, 0, 0);
        assert!((f64::from(cosine) - (130.0 * std::f64::consts::LN_2).sqrt()).abs() < 1e-6);
        let (cosine, _) = pair(u32::MAX, u32::MAX, 0);
        assert!((f64::from(cosine) / 2f64.powi(-32) - 1.0).abs() < 1e-6);
    }
}
