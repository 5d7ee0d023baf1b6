//! The few vector operations that the noise needs, once for each instruction set.
//!
//! [`Simd`] is the algorithm's whole view of a processor: 32-bit words and binary32 values side by side in lanes.
//! `chacha`, `gaussian`, `blt`, `partial_sums` and `triangular` are written once over it; `dispatch` compiles them
//! once for each implementation. A value of an implementing type is the proof that the processor has the
//! instructions.

use crate::memory::Line;

pub(crate) mod doubles;
pub(crate) mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;

/// Each operation acts on all lanes. Floating-point operations round once, to nearest, ties to even.
pub(crate) trait Simd: Copy {
    /// Lanes of a vector: 1, 4, 8 or 16.
    const LANES: usize;
    /// Words, modulo 2³².
    type U: Copy;
    /// Binary32 values.
    type F: Copy;

    fn splat(self, word: u32) -> Self::U;
    fn splat_f(self, value: f32) -> Self::F;
    /// 0, 1, 2, …
    fn lane_numbers(self) -> Self::U;
    /// The lanes `from[at..at + LANES]`.
    fn load_f(self, from: &[f32; 16], at: usize) -> Self::F;
    fn store_f(self, values: Self::F, to: &mut [f32; 16], at: usize);
    /// The same past the caches where the processor can: for memory that is not read soon. Other threads see it only
    /// after [`Simd::fence`].
    fn stream_f(self, values: Self::F, to: &mut Line, at: usize);
    /// Ends a run of [`Simd::stream_f`].
    fn fence(self);
    /// Fetches what will be read soon.
    fn prefetch(self, from: &[f32; 16]);

    fn add(self, a: Self::U, b: Self::U) -> Self::U;
    fn xor(self, a: Self::U, b: Self::U) -> Self::U;
    fn and(self, a: Self::U, b: Self::U) -> Self::U;
    fn or(self, a: Self::U, b: Self::U) -> Self::U;
    fn left<const BITS: i32>(self, a: Self::U) -> Self::U;
    fn right<const BITS: i32>(self, a: Self::U) -> Self::U;
    /// Shifts right and fills with the highest bit.
    fn right_signed<const BITS: i32>(self, a: Self::U) -> Self::U;
    fn rotate_16(self, a: Self::U) -> Self::U;
    fn rotate_12(self, a: Self::U) -> Self::U;
    fn rotate_8(self, a: Self::U) -> Self::U;
    fn rotate_7(self, a: Self::U) -> Self::U;
    /// True where the highest bit of any lane is set.
    fn any_high(self, a: Self::U) -> bool;

    /// The words as signed integers, rounded to binary32.
    fn to_f(self, a: Self::U) -> Self::F;
    fn bits(self, a: Self::F) -> Self::U;
    fn floats(self, a: Self::U) -> Self::F;
    fn add_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub_f(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul_f(self, a: Self::F, b: Self::F) -> Self::F;
    /// a·b + c, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn sqrt(self, a: Self::F) -> Self::F;
    /// `high` where the highest bit of `chooser` is set, elsewhere `low`.
    fn choose(self, chooser: Self::U, high: Self::F, low: Self::F) -> Self::F;

    /// a·b + c of single values, for loops that the compiler turns into vectors.
    fn fused(a: f32, b: f32, c: f32) -> f32;
    /// a·b + c in binary64, rounded once.
    fn fused_f64(a: f64, b: f64, c: f64) -> f64;
    /// a·b + c in binary64, rounded once or, where that would be a call, twice: for sums that are exact or have a bound.
    fn near_fused(a: f64, b: f64, c: f64) -> f64;
}
