//! Eight lanes: AVX2 and FMA.

use super::Simd;
use crate::memory::Line;
use std::arch::x86_64::*;
use std::hint::black_box;

/// Rotations by whole bytes are one shuffle. The shuffles' indices are kept from the compiler, which would otherwise
/// rewrite them into more instructions than they save.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    by_16: __m256i,
    by_8: __m256i,
}

/// All calls of intrinsics in this file.
macro_rules! have {
    ($call:expr) => {
        // SAFETY: an `Avx2` exists only where AVX2 and FMA were found ([`Avx2::new`]); loads and stores are of
        // `LANES` values within arrays whose bounds were checked, and what is streamed begins at a
        // multiple of its size, since a `Line` does.
        unsafe { $call }
    };
}

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2 and FMA.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        const BY_16: [u8; 16] = [2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13];
        const BY_8: [u8; 16] = [3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14];
        let index =
            |bytes: [u8; 16]| have!(_mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())));
        black_box(Self { by_16: index(BY_16), by_8: index(BY_8) })
    }
}

impl Simd for Avx2 {
    const LANES: usize = 8;
    type U = __m256i;
    type F = __m256;

    #[inline(always)]
    fn splat(self, word: u32) -> __m256i {
        have!(_mm256_set1_epi32(word as i32))
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> __m256 {
        have!(_mm256_set1_ps(value))
    }
    #[inline(always)]
    fn lane_numbers(self) -> __m256i {
        have!(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }
    #[inline(always)]
    fn load_f(self, from: &[f32; 16], at: usize) -> __m256 {
        have!(_mm256_loadu_ps(from[at..at + 8].as_ptr()))
    }
    #[inline(always)]
    fn store_f(self, values: __m256, to: &mut [f32; 16], at: usize) {
        have!(_mm256_storeu_ps(to[at..at + 8].as_mut_ptr(), values));
    }
    #[inline(always)]
    fn stream_f(self, values: __m256, to: &mut Line, at: usize) {
        const { assert!(align_of::<Line>().is_multiple_of(32)) };
        assert!(at.is_multiple_of(8));
        let to = to.0[at..at + 8].as_mut_ptr();
        #[cfg(not(miri))]
        have!(_mm256_stream_ps(to, values));
        // The streaming store is assembly, which Miri can't run. This one needs the same alignment.
        #[cfg(miri)]
        have!(_mm256_store_ps(to, values));
    }
    #[inline(always)]
    fn fence(self) {
        // Miri's stores need none.
        #[cfg(not(miri))]
        have!(_mm_sfence());
    }
    #[inline(always)]
    fn prefetch(self, from: &[f32; 16]) {
        have!(_mm_prefetch::<_MM_HINT_T0>(from.as_ptr().cast()));
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        have!(_mm256_add_epi32(a, b))
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        have!(_mm256_xor_si256(a, b))
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        have!(_mm256_and_si256(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        have!(_mm256_or_si256(a, b))
    }
    #[inline(always)]
    fn left<const BITS: i32>(self, a: __m256i) -> __m256i {
        have!(_mm256_slli_epi32::<BITS>(a))
    }
    #[inline(always)]
    fn right<const BITS: i32>(self, a: __m256i) -> __m256i {
        have!(_mm256_srli_epi32::<BITS>(a))
    }
    #[inline(always)]
    fn right_signed<const BITS: i32>(self, a: __m256i) -> __m256i {
        have!(_mm256_srai_epi32::<BITS>(a))
    }
    #[inline(always)]
    fn rotate_16(self, a: __m256i) -> __m256i {
        have!(_mm256_shuffle_epi8(a, self.by_16))
    }
    #[inline(always)]
    fn rotate_12(self, a: __m256i) -> __m256i {
        self.or(self.left::<12>(a), self.right::<20>(a))
    }
    #[inline(always)]
    fn rotate_8(self, a: __m256i) -> __m256i {
        have!(_mm256_shuffle_epi8(a, self.by_8))
    }
    #[inline(always)]
    fn rotate_7(self, a: __m256i) -> __m256i {
        self.or(self.left::<7>(a), self.right::<25>(a))
    }
    #[inline(always)]
    fn any_high(self, a: __m256i) -> bool {
        have!(_mm256_movemask_ps(_mm256_castsi256_ps(a)) != 0)
    }

    #[inline(always)]
    fn to_f(self, a: __m256i) -> __m256 {
        have!(_mm256_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: __m256) -> __m256i {
        have!(_mm256_castps_si256(a))
    }
    #[inline(always)]
    fn floats(self, a: __m256i) -> __m256 {
        have!(_mm256_castsi256_ps(a))
    }
    #[inline(always)]
    fn add_f(self, a: __m256, b: __m256) -> __m256 {
        have!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: __m256, b: __m256) -> __m256 {
        have!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: __m256, b: __m256) -> __m256 {
        have!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        have!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        have!(_mm256_sqrt_ps(a))
    }
    #[inline(always)]
    fn choose(self, chooser: __m256i, high: __m256, low: __m256) -> __m256 {
        have!(_mm256_blendv_ps(low, high, _mm256_castsi256_ps(chooser)))
    }

    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn fused_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn near_fused(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
}
