//! Eight binary64 values at once, for rows on a grid.
//!
//! [`Doubles`] is the algorithm's view of binary64: `grid::normals`, `grid::decide` and `grid::rows` are written once over
//! it. Nothing that is served depends on how an operation marked *near* rounds, only on its bound.

use super::Simd;

mod lanes;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

/// Values side by side, whatever the lanes of words are.
pub(crate) const EIGHT: usize = 8;

/// Each operation acts on eight lanes and rounds once, to nearest, ties to even, but for those marked *near*.
pub(crate) trait Doubles: Simd {
    /// Eight binary64 values.
    type D: Copy;
    /// Eight words of 64 bits.
    type W: Copy;

    fn splat_d(self, value: f64) -> Self::D;
    fn load_d(self, from: &[f64; EIGHT]) -> Self::D;
    fn store_d(self, values: Self::D, to: &mut [f64; EIGHT]);
    /// Whole numbers of 32 bits.
    fn load_whole(self, from: &[i32; EIGHT]) -> Self::D;
    /// The lowest 32 bits of each value's representation.
    fn store_low(self, values: [Self::D; 2], to: &mut [i32; 2 * EIGHT]);

    /// high·2¹⁶ + the upper half of `shared`, of lanes 8·`half` on.
    fn with_upper(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> Self::W;
    /// high·2¹⁶ + the lower half of `shared`, of lanes 8·`half` on.
    fn with_lower(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> Self::W;
    /// The values whose representation is (words AND `and`) OR `or`.
    fn masked(self, words: Self::W, and: u64, or: u64) -> Self::D;
    /// The representations.
    fn words(self, values: Self::D) -> Self::W;
    fn right_d<const BITS: u32>(self, words: Self::W) -> Self::W;
    /// The entries that the lowest four bits name.
    fn lookup(self, table: &[f64; 16], words: Self::W) -> Self::D;
    /// Lanes whose word is 0 or 2⁴⁸ − 1, of words below 2⁴⁸.
    fn ends(self, words: Self::W) -> u8;

    /// The exponent e of a positive normal number m·2ᵉ, m in [1, 2).
    fn exponent(self, a: Self::D) -> Self::D;
    /// Its m.
    fn mantissa(self, a: Self::D) -> Self::D;
    /// 2^(1 − e).
    fn twice_inverse_power(self, a: Self::D) -> Self::D;

    fn add_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn sub_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn mul_d(self, a: Self::D, b: Self::D) -> Self::D;
    fn sqrt_d(self, a: Self::D) -> Self::D;
    /// a·b + c, rounded once.
    fn fused_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// *Near* a·b + c: rounded once or twice.
    fn near_d(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// *Near* c − a·b.
    fn near_less(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// *Near* a·b − c.
    fn near_minus(self, a: Self::D, b: Self::D, c: Self::D) -> Self::D;
    /// *Near* a·b − 1, for a product within 2⁻⁴ of 1 and b of at most 26 bits: off by 2⁻⁵³ of the result and 2⁻⁷⁵.
    fn product_less_one(self, a: Self::D, b: Self::D) -> Self::D;

    /// The larger of two absolute values.
    fn abs_max(self, a: Self::D, b: Self::D) -> Self::D;
    /// Lanes where |a| < b does not hold.
    fn not_below(self, a: Self::D, b: Self::D) -> u8;
    /// `then` in the lanes of the mask, and elsewhere `otherwise`.
    fn choose_d(self, mask: u8, then: Self::D, otherwise: Self::D) -> Self::D;
}
