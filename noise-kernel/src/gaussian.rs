//! Uniform words to standard normals: Box–Muller in binary32, branch-free.
//!
//! Coefficients come from `tools/minimax.py`. Every operation rounds once, in the order written.

use crate::simd::Simd;

const TWO_32: f32 = 4_294_967_296.0;
const TWO_MINUS_32: f32 = 1.0 / TWO_32;
const TWO_MINUS_64: f32 = TWO_MINUS_32 * TWO_MINUS_32;
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

/// Folded words below this have too few bits to give a radius to binary32's precision, and are refined.
pub(crate) const COARSE: u32 = 1 << 20;

/// u = (a + ½)·2⁻³² as w in (0, ½]: u is w, or 1 − w where the highest bit of a is set. Above one half it is 1 − u
/// that keeps its precision near u = 1. The second result has its highest bit set where w must come from
/// [`refined`] instead.
#[inline(always)]
pub(crate) fn uniform<S: Simd>(s: S, a: S::U) -> (S::F, S::U) {
    let folded = s.xor(a, s.right_signed::<31>(a));
    let w = s.mul_f(s.add_f(s.to_f(folded), s.splat_f(0.5)), s.splat_f(TWO_MINUS_32));
    (w, s.add(folded, s.splat(COARSE.wrapping_neg())))
}

/// w from 64 bits, u = (2³²a + e + ½)·2⁻⁶⁴, where a, folded, is below [`COARSE`]; `None` elsewhere.
pub(crate) fn refined(a: u32, extension: impl FnOnce() -> u32) -> Option<f32> {
    let top = (a as i32 >> 31) as u32;
    let folded = a ^ top;
    (folded < COARSE).then(|| {
        let extension = extension() ^ top;
        ((folded as f32 * TWO_32 + extension as f32) + 0.5) * TWO_MINUS_64
    })
}

/// The same expression for each of `N` vectors. A macro, since a closure would not inherit the shell's instructions.
macro_rules! each {
    (|$i:ident| $value:expr) => {{
        let $i = 0;
        let mut all = [$value; N];
        for $i in 1..N {
            all[$i] = $value;
        }
        all
    }};
}

/// The parts of −ln u, u = m·2ᵏ with m in [√½, √2): f = m − 1, and k. u is w, or 1 − w where the highest bit of
/// `top` is set.
#[inline(always)]
pub(crate) fn split<S: Simd>(s: S, w: S::F, top: S::U) -> (S::F, S::F) {
    let one = s.splat_f(1.0);
    let u = s.choose(top, s.sub_f(one, w), w);
    let shifted = s.add(s.bits(u), s.splat(ONE_BITS - SQRT_HALF_BITS));
    let k = s.add(s.right::<23>(shifted), s.splat(127u32.wrapping_neg()));
    let m = s.floats(s.add(s.and(shifted, s.splat(0x007f_ffff)), s.splat(SQRT_HALF_BITS)));
    // Where u is rounded, f comes from w instead, exactly: k is 0 or −1 there.
    let negated = s.floats(s.xor(s.bits(w), s.splat(1 << 31)));
    let doubled = s.fma(s.splat_f(-2.0), w, one);
    let from_w = s.choose(k, doubled, negated);
    (s.choose(top, from_w, s.sub_f(m, one)), s.to_f(k))
}

/// √(−2 ln u). ln u is in [−65·ln 2, 0): f < 0 where k = 0, and elsewhere |log1p f| ≤ ½·ln 2 < −k·ln 2. Several
/// vectors take each step together, so that none waits for the step before.
#[inline(always)]
pub(crate) fn radius<S: Simd, const N: usize>(s: S, f: [S::F; N], k: [S::F; N]) -> [S::F; N] {
    let mut p = [s.splat_f(LOG[0]); N];
    for &coefficient in &LOG[1..] {
        p = each!(|i| s.fma(p[i], f[i], s.splat_f(coefficient)));
    }
    let square = each!(|i| s.mul_f(f[i], f[i]));
    let y = each!(|i| s.mul_f(s.mul_f(square[i], f[i]), p[i]));
    let y = each!(|i| s.fma(k[i], s.splat_f(LN2_LOW), y[i]));
    let y = each!(|i| s.fma(s.splat_f(-0.5), square[i], y[i]));
    let log = each!(|i| s.fma(k[i], s.splat_f(LN2_HIGH), s.add_f(y[i], f[i])));
    each!(|i| s.sqrt(s.mul_f(s.splat_f(-2.0), log[i])))
}

/// Cosine and sine of 2π(c + ½)/2³²: of the rest within a quarter turn, in [−π/4, π/4], then turned by the quarters.
#[inline(always)]
pub(crate) fn cos_sin<S: Simd, const N: usize>(s: S, c: [S::U; N]) -> ([S::F; N], [S::F; N]) {
    let within = each!(|i| s.or(s.right_signed::<1>(s.left::<2>(c[i])), s.splat(1)));
    let y = each!(|i| s.mul_f(s.to_f(within[i]), s.splat_f(ANGLE_STEP)));
    let square = each!(|i| s.mul_f(y[i], y[i]));
    let [s0, s1, s2] = [s.splat_f(SIN[0]), s.splat_f(SIN[1]), s.splat_f(SIN[2])];
    let p = each!(|i| s.fma(s.fma(s0, square[i], s1), square[i], s2));
    let sine = each!(|i| s.fma(s.mul_f(y[i], square[i]), p[i], y[i]));
    let [c0, c1, c2] = [s.splat_f(COS[0]), s.splat_f(COS[1]), s.splat_f(COS[2])];
    let p = each!(|i| s.fma(s.fma(c0, square[i], c1), square[i], c2));
    let cosine = each!(|i| s.fma(s.splat_f(-0.5), square[i], s.splat_f(1.0)));
    let cosine = each!(|i| s.fma(s.mul_f(square[i], square[i]), p[i], cosine[i]));

    // A quarter turn maps (cos, sin) to (−sin, cos); half a turn negates both. The number of quarter turns is in
    // the highest two bits.
    let turns = each!(|i| s.add(c[i], s.splat(0x2000_0000)));
    let odd = each!(|i| s.left::<1>(turns[i]));
    let turned_cosine = each!(|i| s.choose(odd[i], sine[i], cosine[i]));
    let turned_sine = each!(|i| s.choose(odd[i], cosine[i], sine[i]));
    let high = s.splat(1 << 31);
    let cosine_sign = each!(|i| s.and(s.add(turns[i], s.splat(0x4000_0000)), high));
    let sine_sign = each!(|i| s.and(turns[i], high));
    (
        each!(|i| s.floats(s.xor(s.bits(turned_cosine[i]), cosine_sign[i]))),
        each!(|i| s.floats(s.xor(s.bits(turned_sine[i]), sine_sign[i]))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle_normal;
    use crate::simd::scalar::Scalar;

    /// A pair as a block makes it, one lane wide.
    fn pair(a: u32, extension: u32, c: u32) -> (f32, f32) {
        let (w, coarse) = uniform(Scalar, a);
        let refined = refined(a, || extension);
        assert_eq!(refined.is_some(), coarse >> 31 == 1, "{a:x}");
        let (f, k) = split(Scalar, refined.unwrap_or(w), a);
        let [r] = radius(Scalar, [f], [k]);
        let ([cosine], [sine]) = cos_sin(Scalar, [c]);
        (r * cosine, r * sine)
    }

    /// The 64 bits that stand for u: where a is enough, the middle of what it leaves open.
    fn bits(a: u32, extension: u32) -> u64 {
        let enough = refined(a, || extension).is_none();
        u64::from(a) << 32 | u64::from(if enough { 1 << 31 } else { extension })
    }

    /// (a, extension, c) near every edge of the transform, and many others.
    fn words() -> Vec<(u32, u32, u32)> {
        let mut edges: Vec<u64> = vec![0, 1, u64::MAX, 1 << 63, SQRT_HALF_X, SQRT_HALF_X / 2];
        edges.extend((0..64).map(|i| 1 << i));
        edges.extend((0..64).map(|i| u64::MAX >> i));
        edges.extend([u64::from(COARSE) << 32, !(u64::from(COARSE) << 32)]);
        let near = |x: u64| {
            [0u64, 1, 2, 1 << 32, 2 << 32]
                .into_iter()
                .flat_map(move |by| [x.wrapping_add(by), x.wrapping_sub(by)])
        };
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
        for i in 0..2_000_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let y = x ^ (x >> 29);
            // One in eight among those that need their extension.
            let a = (y >> 32) as u32 >> if i % 8 == 0 { 13 } else { 0 };
            words.push((a, y as u32, (y.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32));
        }
        words
    }

    const SQRT_HALF_X: u64 = 0xb504_f333_f9de_6484;

    fn ulp(x: f64) -> f64 {
        f64::from(f32::from_bits((x.abs() as f32).to_bits() + 1)) - f64::from(x.abs() as f32)
    }

    #[test]
    fn the_two_transforms_agree_to_the_bit() {
        for (a, e, c) in words() {
            let x = pair(a, e, c);
            let y = oracle_normal::pair(a, || e, c);
            assert_eq!((x.0.to_bits(), x.1.to_bits()), (y.0.to_bits(), y.1.to_bits()), "{a:x} {e:x} {c:x}");
        }
    }

    #[test]
    fn each_step_is_within_a_few_ulps() {
        let mut worst = [0f64; 4];
        let mut see = |step: usize, ours: f32, exact: f64| {
            worst[step] = worst[step].max((f64::from(ours) - exact).abs() / ulp(exact));
        };
        for (a, e, c) in words() {
            let x = u128::from(bits(a, e));
            let top = a >> 31 == 1;
            let near = if top { (1 << 64) - 1 - x } else { x };
            let w = refined(a, || e).unwrap_or(uniform(Scalar, a).0);
            see(0, w, (2 * near + 1) as f64 / 2f64.powi(65));
            let exact = if top { -(-f64::from(w)).ln_1p() } else { -f64::from(w).ln() };
            let (f, k) = split(Scalar, w, a);
            let [r] = radius(Scalar, [f], [k]);
            assert!(r > 0.0 && f64::from(r) <= crate::LARGEST_NORMAL, "{r}");
            see(1, r, (2.0 * exact).sqrt());

            let turns = (f64::from(c) + 0.5) / 2f64.powi(32);
            let quarters = (turns * 4.0).round();
            let rest = (turns - quarters / 4.0) * std::f64::consts::TAU;
            let (exact_cosine, exact_sine) = match quarters as u32 % 4 {
                0 => (rest.cos(), rest.sin()),
                1 => (-rest.sin(), rest.cos()),
                2 => (-rest.cos(), -rest.sin()),
                _ => (rest.sin(), -rest.cos()),
            };
            let ([cosine], [sine]) = cos_sin(Scalar, [c]);
            see(2, cosine, exact_cosine);
            see(3, sine, exact_sine);
            let (x, y) = pair(a, e, c);
            assert!(f64::from(x.abs().max(y.abs())) <= crate::LARGEST_NORMAL);
        }
        println!(
            "ulps: w {:.3} radius {:.3} cosine {:.3} sine {:.3}",
            worst[0], worst[1], worst[2], worst[3]
        );
        let allowed = [0.76, 0.97, 2.7, 2.7];
        assert!(worst.iter().zip(allowed).all(|(w, a)| *w < a), "{worst:?}");
    }

    #[test]
    fn all_normals_are_near_the_exact_ones() {
        let mut worst = 0f64;
        for (a, e, c) in words() {
            let x = u128::from(bits(a, e));
            let above = (2 * ((1u128 << 64) - 1 - x) + 1) as f64 / 2f64.powi(65);
            let below = (2 * x + 1) as f64 / 2f64.powi(65);
            let log = if above < 0.5 { (-above).ln_1p() } else { below.ln() };
            let r = (-2.0 * log).sqrt();
            let angle = (f64::from(c) + 0.5) / 2f64.powi(32) * std::f64::consts::TAU;
            let (cosine, sine) = pair(a, e, c);
            let error =
                (f64::from(cosine) - r * angle.cos()).abs().max((f64::from(sine) - r * angle.sin()).abs());
            worst = worst.max(error / r);
        }
        println!("largest error over radius: {worst:e}");
        assert!(worst < 1.9e-7, "{worst:e}");
    }

    /// Where 32 bits make the radius, the next value of a is hardly further than binary32's own steps.
    #[test]
    fn radii_from_32_bits_are_close_to_each_other() {
        let mut widest = 0f64;
        for folded in (0..11).map(|i| COARSE << i) {
            for a in [folded, !folded] {
                let exact = |a: u32| {
                    let u = (f64::from(a) + 0.5) / 2f64.powi(32);
                    if a >> 31 == 1 { (-2.0 * (-(1.0 - u)).ln_1p()).sqrt() } else { (-2.0 * u.ln()).sqrt() }
                };
                let here = exact(a);
                let next = exact(if a >> 31 == 1 { a - 1 } else { a + 1 });
                widest = widest.max((here - next).abs() / here);
            }
        }
        println!("largest step over radius: {widest:e}");
        assert!(widest < 4.8e-7, "{widest:e}");
    }

    #[test]
    fn the_extremes_are_what_the_specification_says() {
        let (cosine, _) = pair(0, 0, 0);
        assert!((f64::from(cosine) - (130.0 * std::f64::consts::LN_2).sqrt()).abs() < 1e-6);
        let (cosine, _) = pair(u32::MAX, u32::MAX, 0);
        assert!((f64::from(cosine) / 2f64.powi(-32) - 1.0).abs() < 1e-6);
    }
}
