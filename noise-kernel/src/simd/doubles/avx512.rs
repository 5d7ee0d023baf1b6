//! One register.

use super::{Doubles, EIGHT};
use crate::simd::avx512::Avx512;
use std::arch::x86_64::*;

/// All calls of intrinsics in this file.
macro_rules! have {
    ($call:expr) => {
        // SAFETY: an `Avx512` exists only where AVX-512 F, BW, DQ and VL were found (`Avx512::new`); loads and stores are of
        // whole arrays.
        unsafe { $call }
    };
}

const SIGN: u64 = 1 << 63;
const EXPONENT: u64 = 0x7ff0_0000_0000_0000;

/// Words of `high` over those of `low`, of lanes 8·`half` on.
#[inline(always)]
fn joined(high: __m512i, low: __m512i, half: usize) -> __m512i {
    let order = if half == 0 {
        have!(_mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23))
    } else {
        have!(_mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
    };
    have!(_mm512_permutex2var_epi32(low, order, high))
}

#[inline(always)]
fn load(words: &[f32; 16]) -> __m512i {
    have!(_mm512_castps_si512(_mm512_loadu_ps(words.as_ptr())))
}

impl Doubles for Avx512 {
    type D = __m512d;
    type W = __m512i;

    #[inline(always)]
    fn splat_d(self, value: f64) -> __m512d {
        have!(_mm512_set1_pd(value))
    }
    #[inline(always)]
    fn load_d(self, from: &[f64; EIGHT]) -> __m512d {
        have!(_mm512_loadu_pd(from.as_ptr()))
    }
    #[inline(always)]
    fn store_d(self, values: __m512d, to: &mut [f64; EIGHT]) {
        have!(_mm512_storeu_pd(to.as_mut_ptr(), values));
    }
    #[inline(always)]
    fn load_whole(self, from: &[i32; EIGHT]) -> __m512d {
        have!(_mm512_cvtepi32_pd(_mm256_loadu_si256(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn store_low(self, [first, second]: [__m512d; 2], to: &mut [i32; 2 * EIGHT]) {
        let even = have!(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
        let [first, second] = [self.words(first), self.words(second)];
        have!(_mm512_storeu_si512(to.as_mut_ptr().cast(), _mm512_permutex2var_epi32(first, even, second)));
    }

    #[inline(always)]
    fn with_upper(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> __m512i {
        have!(_mm512_srli_epi64::<16>(joined(load(high), load(shared), half)))
    }
    #[inline(always)]
    fn with_lower(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> __m512i {
        let lower = have!(_mm512_slli_epi32::<16>(load(shared)));
        have!(_mm512_srli_epi64::<16>(joined(load(high), lower, half)))
    }
    #[inline(always)]
    fn masked(self, words: __m512i, and: u64, or: u64) -> __m512d {
        let [and, or] = [and, or].map(|word| have!(_mm512_set1_epi64(word as i64)));
        // (a AND b) OR c.
        have!(_mm512_castsi512_pd(_mm512_ternarylogic_epi64::<0xea>(words, and, or)))
    }
    #[inline(always)]
    fn words(self, values: __m512d) -> __m512i {
        have!(_mm512_castpd_si512(values))
    }
    #[inline(always)]
    fn right_d<const BITS: u32>(self, words: __m512i) -> __m512i {
        have!(_mm512_srli_epi64::<BITS>(words))
    }
    #[inline(always)]
    fn lookup(self, table: &[f64; 16], words: __m512i) -> __m512d {
        let [low, high] = [&table[..8], &table[8..]].map(|half| have!(_mm512_loadu_pd(half.as_ptr())));
        have!(_mm512_permutex2var_pd(low, words, high))
    }
    #[inline(always)]
    fn ends(self, words: __m512i) -> u8 {
        let less = have!(_mm512_sub_epi64(words, _mm512_set1_epi64(1)));
        have!(_mm512_cmpge_epu64_mask(less, _mm512_set1_epi64((1 << 48) - 2)))
    }

    #[inline(always)]
    fn exponent(self, a: __m512d) -> __m512d {
        have!(_mm512_getexp_pd(a))
    }
    #[inline(always)]
    fn mantissa(self, a: __m512d) -> __m512d {
        have!(_mm512_getmant_pd::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_ZERO>(a))
    }
    #[inline(always)]
    fn twice_inverse_power(self, a: __m512d) -> __m512d {
        let exponent = have!(_mm512_set1_epi64(EXPONENT as i64));
        have!(_mm512_castsi512_pd(_mm512_andnot_si512(self.words(a), exponent)))
    }

    #[inline(always)]
    fn add_d(self, a: __m512d, b: __m512d) -> __m512d {
        have!(_mm512_add_pd(a, b))
    }
    #[inline(always)]
    fn sub_d(self, a: __m512d, b: __m512d) -> __m512d {
        have!(_mm512_sub_pd(a, b))
    }
    #[inline(always)]
    fn mul_d(self, a: __m512d, b: __m512d) -> __m512d {
        have!(_mm512_mul_pd(a, b))
    }
    #[inline(always)]
    fn sqrt_d(self, a: __m512d) -> __m512d {
        have!(_mm512_sqrt_pd(a))
    }
    #[inline(always)]
    fn fused_d(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        have!(_mm512_fmadd_pd(a, b, c))
    }
    #[inline(always)]
    fn near_d(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        have!(_mm512_fmadd_pd(a, b, c))
    }
    #[inline(always)]
    fn near_less(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        have!(_mm512_fnmadd_pd(a, b, c))
    }
    #[inline(always)]
    fn near_minus(self, a: __m512d, b: __m512d, c: __m512d) -> __m512d {
        have!(_mm512_fmsub_pd(a, b, c))
    }
    #[inline(always)]
    fn product_less_one(self, a: __m512d, b: __m512d) -> __m512d {
        have!(_mm512_fmsub_pd(a, b, _mm512_set1_pd(1.0)))
    }

    #[inline(always)]
    fn abs_max(self, a: __m512d, b: __m512d) -> __m512d {
        // The larger absolute value, with sign 0.
        have!(_mm512_range_pd::<0b1011>(a, b))
    }
    #[inline(always)]
    fn not_below(self, a: __m512d, b: __m512d) -> u8 {
        let sign = have!(_mm512_set1_epi64(SIGN as i64));
        let size = have!(_mm512_castsi512_pd(_mm512_andnot_si512(sign, self.words(a))));
        have!(_mm512_cmp_pd_mask::<_CMP_NLT_UQ>(size, b))
    }
    #[inline(always)]
    fn choose_d(self, mask: u8, then: __m512d, otherwise: __m512d) -> __m512d {
        have!(_mm512_mask_blend_pd(mask, otherwise, then))
    }
}
