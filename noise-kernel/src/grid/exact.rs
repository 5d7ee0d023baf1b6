//! A pair of normals to 300 bits and more, from 304 bits of each of its uniforms: the slow way, which decides what the
//! fast one can't.
//!
//! With u and v the numbers whose first 304 bits are known, and these bits taken for the middle of what they leave open:
//! r = √(−2 ln u) by the series of atanh, Newton's root and whole quotients; cos 2πv and sin 2πv by Taylor's series.
//!
//! # The error
//!
//! Every sum of a series has fewer than 160 terms, each short by less than 2⁻³⁸³, and ln 2 is taken up to 305 times, so
//! that −2 ln u is off by less than 2⁻³⁷² beside what u leaves open: at most 3·2⁻³⁰⁵/u, where U is not 0. |√a − √b| ≤
//! |a − b|/√a makes that (3·2⁻³⁰⁵/u + 2⁻³⁷²)/r ≤ 2⁻³⁰³/(ur) for r. v leaves 2π·2⁻³⁰⁵·r open, r ≤ 21, and the rest is off
//! by less than 2⁻³⁷⁰. In all: less than 2⁻³⁰³/(ur) + 2⁻²⁹⁷ + 2⁻³⁷⁰.
//!
//! [`Digits::Some`] ends each series where its terms are below 2⁻¹²⁸. What is left out of atanh's, whose terms fall to less than
//! a thirtieth, is below 2⁻¹²⁷, and four times that of −2 ln u: 2⁻¹²⁵/r of r. Taylor's alternate and fall: 2⁻¹²⁸, which r makes
//! 2⁻¹²³. Together with the above, less than 2⁻³⁰³/(ur) + 2⁻¹²⁵/r + 2⁻¹²³ + 2⁻²⁹⁷ + 2⁻³⁷⁰.

use super::fixed::{FRACTION, Fixed};

/// Bits of each uniform that are known.
const KNOWN: u32 = 304;
/// 2⁶⁴·√½: mantissas are taken in about [√½, √2).
const ROOT_HALF: u64 = 0xb504_f333_f9de_6484;

/// A normal, and a bound on how far it is off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExactNormal {
    pub negative: bool,
    pub magnitude: Fixed,
    /// The real number lies less than 2 to this power away.
    pub error: i32,
}

/// Digits of a normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digits {
    /// About 120 bits, which decide nearly all: a third of the work.
    Some,
    /// All that the known bits allow.
    All,
}

impl Digits {
    /// Whether a term of a series is left out.
    fn leave_out(self, term: Fixed) -> bool {
        match self {
            Digits::Some => term.0[4..].iter().all(|&limb| limb == 0),
            Digits::All => term.is_zero(),
        }
    }
}

/// The middle of the numbers in [0, 1) that begin with these 304 bits.
pub(crate) fn midpoint(first: u64, further: &[u32; 8]) -> Fixed {
    let mut value = Fixed::ZERO;
    let mut put = |bits: u64, at: u32| {
        let wide = u128::from(bits) << (at % 64);
        value.0[(at / 64) as usize] |= wide as u64;
        value.0[(at / 64) as usize + 1] |= (wide >> 64) as u64;
    };
    put(first, FRACTION - 48);
    for (k, &word) in (1..).zip(further) {
        put(u64::from(word), FRACTION - 48 - 32 * k);
    }
    put(1, FRACTION - KNOWN - 1);
    value
}

/// The pair of normals of u and v, as [`midpoint`] gives them: r·cos 2πv and r·sin 2πv. `None` where all known bits of u
/// are 0, which happens once in 2³⁰⁴ pairs.
pub(crate) fn pair(u: Fixed, v: Fixed, digits: Digits) -> Option<[ExactNormal; 2]> {
    let zeros_of_u = u.leading_zeros();
    let radius = minus_twice_log(u, digits).root();
    if zeros_of_u >= 64 + KNOWN || radius.is_zero() {
        return None;
    }
    // 1/u ≤ 2^(zeros_of_u − 63), and the same for r.
    let open = (zeros_of_u + radius.leading_zeros()) as i32 - 126 - 303;
    let left_out = match digits {
        Digits::Some => (radius.leading_zeros() as i32 - 63 - 125).max(-123),
        Digits::All => -297,
    };
    let error = open.max(left_out) + 2;
    let scaled =
        |(negative, value): (bool, Fixed)| ExactNormal { negative, magnitude: radius.times(value), error };
    Some(cos_sin(v, digits).map(scaled))
}

/// −2 ln u for u in (0, 1).
fn minus_twice_log(u: Fixed, digits: Digits) -> Fixed {
    let mut halvings = u.leading_zeros() - 64;
    if u.shifted_left(halvings).0[5] < ROOT_HALF {
        halvings += 1;
    }
    let m = u.shifted_left(halvings);
    let of_power = Fixed::LN_2.times_whole(u64::from(halvings));
    let log = if m.0[6] == 0 {
        of_power.plus(twice_atanh(Fixed::ONE.minus(m).over(Fixed::ONE.plus(m)), digits))
    } else {
        of_power.minus(twice_atanh(m.minus(Fixed::ONE).over(Fixed::ONE.plus(m)), digits))
    };
    log.shifted_left(1)
}

/// 2·atanh x = ln((1 + x)/(1 − x)), for x below ¼.
fn twice_atanh(x: Fixed, digits: Digits) -> Fixed {
    let square = x.times(x);
    let mut power = x;
    let mut sum = x;
    for k in (3..).step_by(2) {
        power = power.times(square);
        if digits.leave_out(power) {
            break;
        }
        sum = sum.plus(power.over_whole(k));
    }
    sum.shifted_left(1)
}

/// cos 2πv and sin 2πv as sign and magnitude, for v in (0, 1): by the nearest quarter turn and the angle from there.
fn cos_sin(v: Fixed, digits: Digits) -> [(bool, Fixed); 2] {
    let quarters = v.shifted_left(2);
    let half = Fixed([0, 0, 0, 0, 0, 1 << 63, 0]);
    let nearest = quarters.plus(half).0[6];
    let whole = Fixed([0, 0, 0, 0, 0, 0, nearest]);
    let before = quarters.0[6] < nearest;
    let apart = if before { whole.minus(quarters) } else { quarters.minus(whole) };
    let angle = apart.times(Fixed::HALF_PI);
    let square = angle.times(angle);
    let cosine = alternating(Fixed::ONE, square, 1, digits);
    let sine = alternating(angle, square, 2, digits);
    match nearest % 4 {
        0 => [(false, cosine), (before, sine)],
        1 => [(!before, sine), (false, cosine)],
        2 => [(true, cosine), (!before, sine)],
        _ => [(before, sine), (true, cosine)],
    }
}

/// first − first·square/(k(k + 1)) + first·square²/(k(k + 1)(k + 2)(k + 3)) − …
fn alternating(first: Fixed, square: Fixed, k: u32, digits: Digits) -> Fixed {
    let mut term = first;
    let mut sums = [first, Fixed::ZERO];
    let mut k = k;
    for side in [1, 0].into_iter().cycle() {
        term = term.times(square).over_whole(k * (k + 1));
        if digits.leave_out(term) {
            break;
        }
        sums[side] = sums[side].plus(term);
        k += 2;
    }
    sums[0].minus(sums[1])
}
