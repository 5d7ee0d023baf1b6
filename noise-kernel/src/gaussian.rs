//! Three uniform words to two standard normals: Box–Muller in binary32, branch-free.
//!
//! Coefficients come from `tools/minimax.py`. Every operation rounds once, in the order written.

const TWO_32: f32 = 4_294_967_296.0;
const TWO_MINUS_64: f32 = 1.0 / (TWO_32 * TWO_32);
/// Bits of the binary32 nearest to √½ from below: mantissas are taken in [√½, √2).
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
const ONE_BITS: u32 = 0x3f80_0000;
/// ln 2 in two parts; the high one has 9 significant bits, so that k·LN2_HIGH is exact for |k| ≤ 65.
const LN2_HIGH: f32 = 0.693_359_375;
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
const SIN: [f32; 3] =
    [f32::from_bits(0xb94c_a1f1), f32::from_bits(0x3c08_839d), f32::from_bits(0xbe2a_aaa3)];
/// cos y = 1 − y²/2 + y⁴·K(y²) on [−π/4, π/4], highest power first.
const COS: [f32; 3] =
    [f32::from_bits(0x37cc_f5ce), f32::from_bits(0xbab6_061a), f32::from_bits(0x3d2a_aaa5)];

/// Two independent standard normals from 96 uniform bits: (a, b) make the radius, c the angle.
#[inline(always)]
pub(crate) fn pair(a: u32, b: u32, c: u32) -> (f32, f32) {
    let r = (2.0 * minus_log_uniform(a, b)).sqrt();
    let (sin, cos) = sin_cos_turn(c);
    (r * cos, r * sin)
}

/// −ln u for u = (2³²a + b + ½)·2⁻⁶⁴, precise at both ends: always in (0, 65·ln 2].
#[inline(always)]
pub(crate) fn minus_log_uniform(a: u32, b: u32) -> f32 {
    // Above one half work with w = 1 − u, which is what stays exact near u = 1.
    let top = ((a as i32) >> 31) as u32;
    let (a, b) = (a ^ top, b ^ top);
    // a is below 2³¹ here, so the signed conversion (one instruction) is the unsigned one.
    let w = ((a as i32 as f32 * TWO_32 + b as f32) + 0.5) * TWO_MINUS_64;
    let u = if top != 0 { 1.0 - w } else { w };

    let shifted = u.to_bits().wrapping_add(ONE_BITS - SQRT_HALF_BITS);
    let k = (shifted >> 23) as i32 - 127;
    let m = f32::from_bits((shifted & 0x007f_ffff) + SQRT_HALF_BITS);
    let f = if top != 0 && k == 0 { -w } else { m - 1.0 };

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

/// Sine and cosine of the angle 2π(c + ½)/2³².
#[inline(always)]
pub(crate) fn sin_cos_turn(c: u32) -> (f32, f32) {
    let quadrant = c.wrapping_add(0x2000_0000) >> 30;
    let within = (((c << 2) as i32) >> 1) | 1;
    let y = within as f32 * ANGLE_STEP;
    let s = y * y;
    let sin = y + (y * s) * ((SIN[0] * s + SIN[1]) * s + SIN[2]);
    let cos = (1.0 - 0.5 * s) + (s * s) * ((COS[0] * s + COS[1]) * s + COS[2]);
    // A quarter turn maps (cos, sin) to (−sin, cos); half a turn negates both.
    let (cos, sin) = if quadrant & 1 != 0 { (sin, cos) } else { (cos, sin) };
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 30;
    let sin_sign = (quadrant & 2) << 30;
    (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ cos_sign))
}
