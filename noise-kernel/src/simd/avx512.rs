//! Sixteen lanes: AVX-512 F, BW, DQ and VL.

use super::Simd;
use crate::memory::Line;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// All calls of intrinsics in this file.
macro_rules! have {
    ($call:expr) => {
        // SAFETY: an `Avx512` exists only where AVX-512 F, BW, DQ and VL were found ([`Avx512::new`]); loads and
        // stores are of `LANES` values within arrays whose bounds were checked, and what is streamed begins at a
        // multiple of its size, since a `Line` does.
        unsafe { $call }
    };
}

impl Avx512 {
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    type U = __m512i;
    type F = __m512;

    #[inline(always)]
    fn splat(self, word: u32) -> __m512i {
        have!(_mm512_set1_epi32(word as i32))
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> __m512 {
        have!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn lane_numbers(self) -> __m512i {
        have!(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
    }
    #[inline(always)]
    fn load_f(self, from: &[f32; 16], at: usize) -> __m512 {
        have!(_mm512_loadu_ps(from[at..at + 16].as_ptr()))
    }
    #[inline(always)]
    fn store_f(self, values: __m512, to: &mut [f32; 16], at: usize) {
        have!(_mm512_storeu_ps(to[at..at + 16].as_mut_ptr(), values));
    }
    #[inline(always)]
    fn stream_f(self, values: __m512, to: &mut Line, at: usize) {
        const { assert!(align_of::<Line>().is_multiple_of(64)) };
        assert!(at.is_multiple_of(16));
        have!(_mm512_stream_ps(to.0[at..at + 16].as_mut_ptr(), values));
    }
    #[inline(always)]
    fn fence(self) {
        have!(_mm_sfence());
    }
    #[inline(always)]
    fn prefetch(self, from: &[f32; 16]) {
        have!(_mm_prefetch::<_MM_HINT_T0>(from.as_ptr().cast()));
    }

    #[inline(always)]
    fn add(self, a: __m512i, b: __m512i) -> __m512i {
        have!(_mm512_add_epi32(a, b))
    }
    #[inline(always)]
    fn xor(self, a: __m512i, b: __m512i) -> __m512i {
        have!(_mm512_xor_si512(a, b))
    }
    #[inline(always)]
    fn and(self, a: __m512i, b: __m512i) -> __m512i {
        have!(_mm512_and_si512(a, b))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        have!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn left<const BITS: i32>(self, a: __m512i) -> __m512i {
        have!(_mm512_sllv_epi32(a, _mm512_set1_epi32(BITS)))
    }
    #[inline(always)]
    fn right<const BITS: i32>(self, a: __m512i) -> __m512i {
        have!(_mm512_srlv_epi32(a, _mm512_set1_epi32(BITS)))
    }
    #[inline(always)]
    fn right_signed<const BITS: i32>(self, a: __m512i) -> __m512i {
        have!(_mm512_srav_epi32(a, _mm512_set1_epi32(BITS)))
    }
    #[inline(always)]
    fn rotate_16(self, a: __m512i) -> __m512i {
        have!(_mm512_rol_epi32::<16>(a))
    }
    #[inline(always)]
    fn rotate_12(self, a: __m512i) -> __m512i {
        have!(_mm512_rol_epi32::<12>(a))
    }
    #[inline(always)]
    fn rotate_8(self, a: __m512i) -> __m512i {
        have!(_mm512_rol_epi32::<8>(a))
    }
    #[inline(always)]
    fn rotate_7(self, a: __m512i) -> __m512i {
        have!(_mm512_rol_epi32::<7>(a))
    }
    #[inline(always)]
    fn any_high(self, a: __m512i) -> bool {
        have!(_mm512_movepi32_mask(a) != 0)
    }

    #[inline(always)]
    fn to_f(self, a: __m512i) -> __m512 {
        have!(_mm512_cvtepi32_ps(a))
    }
    #[inline(always)]
    fn bits(self, a: __m512) -> __m512i {
        have!(_mm512_castps_si512(a))
    }
    #[inline(always)]
    fn floats(self, a: __m512i) -> __m512 {
        have!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn add_f(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: __m512, b: __m512) -> __m512 {
        have!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        have!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        have!(_mm512_sqrt_ps(a))
    }
    #[inline(always)]
    fn choose(self, chooser: __m512i, high: __m512, low: __m512) -> __m512 {
        have!(_mm512_mask_blend_ps(_mm512_movepi32_mask(chooser), low, high))
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
