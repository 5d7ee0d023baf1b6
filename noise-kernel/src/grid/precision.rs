//! The error bound of approximate normals, and what is decided with it, beside 300 bits.
//!
//! RUSTLE_LONG draws a hundred times as many: 10⁷ decisions.

use super::decide::{Uncertain, WholeBlock};
use super::exact::{Digits, ExactNormal, midpoint, pair};
use super::normals::Normals;
use super::rounding::{Dyadic, ExactSum};
use super::words::FirstBits;
use crate::Backend;
use crate::block::BLOCK;
use crate::dispatch::Active;
use dice::Dice;

const LAST: u64 = (1 << 48) - 1;

fn long() -> u64 {
    if std::env::var_os("RUSTLE_LONG").is_some() { 100 } else { 1 }
}

/// 256 pairs, with the first 48 bits of both uniforms of each.
struct Pairs {
    radius: [u64; 256],
    turn: [u64; 256],
    bits: FirstBits,
}

/// Random ones, or near powers of two, octants and the ends.
fn pairs(dice: &mut Dice, edges: bool) -> Pairs {
    let mut word = || {
        let near = (1u64 << dice.below(49)).wrapping_add(dice.below(5)).wrapping_sub(3) & LAST;
        let octant = (dice.below(17) << 44).wrapping_add(dice.below(5)).wrapping_sub(2) & LAST;
        match dice.below(4) {
            0 if edges => near,
            1 if edges => LAST - near,
            2 if edges => octant,
            _ => dice.roll() & LAST,
        }
    };
    let radius = std::array::from_fn(|_| word());
    let turn = std::array::from_fn(|_| word());
    let mut bits = FirstBits::ZERO;
    for index in 0..256 {
        let row = index / 16;
        let lane = index % 16;
        let float = |word: u64| f32::from_bits(word as u32);
        bits.upper[row / 8][row % 8 * 2][lane] = float(radius[index] >> 16);
        bits.upper[row / 8][row % 8 * 2 + 1][lane] = float(turn[index] >> 16);
        bits.shared[row][lane] = float(radius[index] << 16 | turn[index] & 0xffff);
    }
    Pairs { radius, turn, bits }
}

/// The normals of some bits, with the error of pair `index` and the pair to 300 bits, where its words are followed by
/// these.
struct Comparison<'a> {
    pairs: &'a Pairs,
    normals: &'a Normals,
}

impl Comparison<'_> {
    fn exact(&self, index: usize, further: [[u32; 8]; 2]) -> [ExactNormal; 2] {
        let u = midpoint(self.pairs.radius[index], &further[0]);
        let v = midpoint(self.pairs.turn[index], &further[1]);
        let pair = |digits| pair(u, v, digits).unwrap();
        let all = pair(Digits::All);
        for (some, all) in pair(Digits::Some).iter().zip(&all) {
            let apart = difference(some, all);
            assert!(apart <= 2f64.powi(some.error) + 2f64.powi(all.error), "{some:?}, {all:?}");
        }
        all
    }

    fn approximate(&self, index: usize) -> [f64; 2] {
        let at = index / 16 * 32 + index % 16;
        [self.normals.z[at], self.normals.z[at + 16]]
    }
}

/// |a − b|.
fn difference(a: &ExactNormal, b: &ExactNormal) -> f64 {
    let mut sum = ExactSum::new();
    sum.add(Dyadic::new(1.0), a);
    sum.add(Dyadic::new(-1.0), b);
    sum.near().abs()
}

/// |exact − approximate|.
fn apart(exact: &ExactNormal, approximate: f64) -> f64 {
    let mut sum = ExactSum::new();
    sum.add(Dyadic::new(1.0), exact);
    sum.subtract(approximate);
    sum.near().abs()
}

fn normals(backend: Backend, pairs: &Pairs) -> Normals {
    let mut normals = Normals::ZERO;
    Active::new(backend).unwrap().grid_normals(&pairs.bits, &mut normals);
    normals
}

#[test]
fn normals_are_within_their_bound_whatever_bits_follow() {
    let mut dice = Dice::new(21);
    let mut largest: f64 = 0.0;
    let mut arithmetic: f64 = 0.0;
    for round in 0..12 * long() {
        let pairs = pairs(&mut dice, round % 3 > 0);
        for backend in Backend::available() {
            let normals = normals(backend, &pairs);
            let compared = Comparison { pairs: &pairs, normals: &normals };
            for index in 0..256 {
                let bound = normals.error[index];
                let a = pairs.radius[index];
                assert_eq!(bound.is_infinite(), a == 0 || a == LAST, "{a:x}");
                let middle = [0x8000_0000, 0, 0, 0, 0, 0, 0, 0];
                let corner = |dice: &mut Dice| [if a > 0 && dice.below(2) == 0 { 0 } else { u32::MAX }; 8];
                let corners = [corner(&mut dice), corner(&mut dice)];
                let ends = compared.exact(index, corners);
                let middles = compared.exact(index, [middle, middle]);
                let radius = middles.map(|z| apart(&z, 0.0)).iter().map(|x| x * x).sum::<f64>().sqrt();
                for (side, approximate) in compared.approximate(index).into_iter().enumerate() {
                    let rounding = apart(&middles[side], approximate) / radius;
                    arithmetic = arithmetic.max(rounding);
                    if bound.is_finite() {
                        largest = largest.max(apart(&ends[side], approximate) / bound);
                    }
                }
            }
        }
    }
    let ulps = arithmetic * 2f64.powi(52);
    println!("largest share of the bound {largest:.3}, arithmetic {ulps:.2}·2^-52 of the radius");
    assert!(largest <= 1.0 && ulps <= 2.5, "{largest} of the bound, {ulps}");
    // Bits that follow matter: a bound without their part would be exceeded.
    assert!(largest > 0.8, "{largest}");
}

/// What one value of one draw comes to.
struct Decision {
    whole: i32,
    is_certain: bool,
    exact: i32,
}

/// Rounds s·z − f of a block.
fn decide(backend: Backend, s: f64, normals: &Normals, f: &[f64; BLOCK]) -> (WholeBlock, Uncertain) {
    let mut n = [0; BLOCK];
    let mut open = [0; BLOCK / 8];
    Active::new(backend).unwrap().grid_decide::<true>(s, normals, f, &mut n, &mut open);
    (n, open)
}

fn is_open(open: &Uncertain, at: usize) -> bool {
    open[at / 8] >> (at % 8) & 1 == 1
}

/// Values s·z − f with f such that they lie near the middle between two whole numbers, as near as the bound is wide.
fn decisions(dice: &mut Dice, backend: Backend, s: f64, mut each: impl FnMut(Decision)) {
    let pairs = pairs(dice, false);
    let normals = normals(backend, &pairs);
    let compared = Comparison { pairs: &pairs, normals: &normals };
    let f = std::array::from_fn(|at| {
        let z = normals.z[at];
        let near = (dice.below(4_001) as f64 / 1_000.0 - 2.0) * s * normals.error[at / 32 * 16 + at % 16];
        s * z - ((s * z).floor() + 0.5) + near
    });
    let (n, open) = decide(backend, s, &normals, &f);
    for index in 0..256 {
        let further = std::array::from_fn(|_| std::array::from_fn(|_| dice.roll() as u32));
        let exact = compared.exact(index, further);
        for (side, z) in exact.iter().enumerate() {
            let at = index / 16 * 32 + 16 * side + index % 16;
            let mut sum = ExactSum::new();
            sum.add(Dyadic::new(s), z);
            sum.subtract(f[at]);
            // Far from f, whole parts are beyond a row's 32 bits: compared are the lowest.
            let exact = sum.rounded().unwrap() as i32;
            each(Decision { whole: n[at], is_certain: !is_open(&open, at), exact });
        }
    }
}

#[test]
fn what_is_certain_is_what_exact_arithmetic_decides() {
    let mut dice = Dice::new(22);
    let mut open = 0;
    let mut wrong = 0;
    for power in (6..=36).step_by(2) {
        for backend in Backend::available().into_iter().cycle().take(13 * long() as usize) {
            decisions(
                &mut dice,
                backend,
                2f64.powi(power) * 0.93,
                |Decision { whole, is_certain, exact }| {
                    assert!(!is_certain || whole == exact, "2^{power} on {backend}: {whole}, {exact}");
                    open += u32::from(!is_certain);
                    wrong += u32::from(!is_certain && whole != exact);
                },
            );
        }
    }
    println!("{open} left open, {wrong} of them rounded to another number by binary64");
    assert!(open > 1_000 && wrong > 50, "{open} open, {wrong} wrong: too easy");
}

/// About s·2^−43.4 of all draws are left open: no fewer, or the bound is not there, and not many more.
#[test]
fn as_many_draws_are_left_open_as_the_bound_says() {
    let mut dice = Dice::new(23);
    let s = 0.9 * 2f64.powi(33);
    let mut left = 0u32;
    let blocks = 2_000;
    for _ in 0..blocks {
        let normals = normals(Backend::Auto, &pairs(&mut dice, false));
        // The whole part is taken away: s is beyond what a row may hold.
        let (_, open) = decide(Backend::Auto, s, &normals, &normals.z.map(|z| (s * z).floor()));
        left += open.iter().map(|mask| mask.count_ones()).sum::<u32>();
    }
    let share = f64::from(left) / f64::from(blocks * 512) / (s * 2f64.powf(-43.4));
    println!("{left} open, {share:.3} of what is expected");
    assert!((0.75..1.25).contains(&share), "{share}");
}

/// The largest rows are certain where they are in range, and never beyond.
#[test]
fn what_is_out_of_range_is_open() {
    for backend in Backend::available() {
        let normals = Normals::ZERO;
        let largest = f64::from(i32::MAX);
        for (f, is_certain) in [
            (largest, true),
            (-largest, true),
            (largest + 1.0, false),
            (-largest - 1.0, false),
            (1e300, false),
            (f64::NAN, false),
        ] {
            let (n, open) = decide(backend, 1.0, &normals, &[f; BLOCK]);
            assert!(open.iter().all(|mask| *mask == if is_certain { 0 } else { 255 }), "{f} on {backend}");
            assert!(!is_certain || n.iter().all(|n| f64::from(*n) == -f), "{f} on {backend}");
        }
    }
}
