//! Two registers.

use super::{Doubles, EIGHT};
use crate::simd::avx2::Avx2;
use std::arch::x86_64::*;

/// All calls of intrinsics in this file.
macro_rules! have {
    ($call:expr) => {
        // SAFETY: an `Avx2` exists only where AVX2 and FMA were found (`Avx2::new`); loads and stores are of parts of arrays
        // whose bounds were checked, and gathers are of entries 0 to 15 of 16.
        unsafe { $call }
    };
}

/// The same expression for both registers.
macro_rules! both {
    (|$i:ident| $value:expr) => {{
        let first = {
            let $i = 0usize;
            have!($value)
        };
        let $i = 1usize;
        [first, have!($value)]
    }};
}

const SIGN: u64 = 1 << 63;
const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
const MANTISSA: u64 = (1 << 52) - 1;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const TWO_52: u64 = 0x4330_0000_0000_0000;

#[inline(always)]
fn splat(word: u64) -> __m256i {
    have!(_mm256_set1_epi64x(word as i64))
}

/// Lanes 4·`at` to 4·`at` + 3, each in 64 bits.
#[inline(always)]
fn widened(words: &[f32; 16], at: usize) -> __m256i {
    have!(_mm256_cvtepu32_epi64(_mm_loadu_si128(words[4 * at..4 * at + 4].as_ptr().cast())))
}

impl Doubles for Avx2 {
    type D = [__m256d; 2];
    type W = [__m256i; 2];

    #[inline(always)]
    fn splat_d(self, value: f64) -> [__m256d; 2] {
        [have!(_mm256_set1_pd(value)); 2]
    }
    #[inline(always)]
    fn load_d(self, from: &[f64; EIGHT]) -> [__m256d; 2] {
        both!(|i| _mm256_loadu_pd(from[4 * i..4 * i + 4].as_ptr()))
    }
    #[inline(always)]
    fn store_d(self, values: [__m256d; 2], to: &mut [f64; EIGHT]) {
        both!(|i| _mm256_storeu_pd(to[4 * i..4 * i + 4].as_mut_ptr(), values[i]));
    }
    #[inline(always)]
    fn load_whole(self, from: &[i32; EIGHT]) -> [__m256d; 2] {
        both!(|i| _mm256_cvtepi32_pd(_mm_loadu_si128(from[4 * i..4 * i + 4].as_ptr().cast())))
    }
    #[inline(always)]
    fn store_low(self, values: [[__m256d; 2]; 2], to: &mut [i32; 2 * EIGHT]) {
        for (to, [low, high]) in to.as_chunks_mut::<EIGHT>().0.iter_mut().zip(values) {
            let even = have!(_mm256_shuffle_ps::<0x88>(_mm256_castpd_ps(low), _mm256_castpd_ps(high)));
            let whole = have!(_mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(even)));
            have!(_mm256_storeu_si256(to.as_mut_ptr().cast(), whole));
        }
    }

    #[inline(always)]
    fn with_upper(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> [__m256i; 2] {
        both!(|i| _mm256_or_si256(
            _mm256_slli_epi64::<16>(widened(high, 2 * half + i)),
            _mm256_srli_epi64::<16>(widened(shared, 2 * half + i))
        ))
    }
    #[inline(always)]
    fn with_lower(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> [__m256i; 2] {
        both!(|i| _mm256_blend_epi16::<0x11>(
            _mm256_slli_epi64::<16>(widened(high, 2 * half + i)),
            widened(shared, 2 * half + i)
        ))
    }
    #[inline(always)]
    fn masked(self, words: [__m256i; 2], and: u64, or: u64) -> [__m256d; 2] {
        both!(|i| _mm256_castsi256_pd(_mm256_or_si256(_mm256_and_si256(words[i], splat(and)), splat(or))))
    }
    #[inline(always)]
    fn words(self, values: [__m256d; 2]) -> [__m256i; 2] {
        both!(|i| _mm256_castpd_si256(values[i]))
    }
    #[inline(always)]
    fn right_d<const BITS: u32>(self, words: [__m256i; 2]) -> [__m256i; 2] {
        both!(|i| _mm256_srl_epi64(words[i], _mm_cvtsi32_si128(BITS as i32)))
    }
    #[inline(always)]
    fn lookup(self, table: &[f64; 16], words: [__m256i; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_i64gather_pd::<8>(table.as_ptr(), _mm256_and_si256(words[i], splat(15))))
    }
    #[inline(always)]
    fn ends(self, words: [__m256i; 2]) -> u8 {
        let [low, high] = both!(|i| _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_or_si256(
            _mm256_cmpeq_epi64(words[i], _mm256_setzero_si256()),
            _mm256_cmpeq_epi64(words[i], splat((1 << 48) - 1))
        ))));
        (low | high << 4) as u8
    }

    #[inline(always)]
    fn exponent(self, a: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| {
            let biased = _mm256_srli_epi64::<52>(_mm256_castpd_si256(a[i]));
            let wide = _mm256_castsi256_pd(_mm256_or_si256(biased, splat(TWO_52)));
            _mm256_sub_pd(wide, _mm256_set1_pd((1u64 << 52) as f64 + 1023.0))
        })
    }
    #[inline(always)]
    fn mantissa(self, a: [__m256d; 2]) -> [__m256d; 2] {
        self.masked(self.words(a), MANTISSA, ONE)
    }
    #[inline(always)]
    fn twice_inverse_power(self, a: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_castsi256_pd(_mm256_andnot_si256(_mm256_castpd_si256(a[i]), splat(EXPONENT))))
    }

    #[inline(always)]
    fn add_d(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_add_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn sub_d(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_sub_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn mul_d(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_mul_pd(a[i], b[i]))
    }
    #[inline(always)]
    fn sqrt_d(self, a: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_sqrt_pd(a[i]))
    }
    #[inline(always)]
    fn fused_d(self, a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_fmadd_pd(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn near_d(self, a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_fmadd_pd(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn near_less(self, a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_fnmadd_pd(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn near_minus(self, a: [__m256d; 2], b: [__m256d; 2], c: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_fmsub_pd(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn product_less_one(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        both!(|i| _mm256_fmsub_pd(a[i], b[i], _mm256_set1_pd(1.0)))
    }

    #[inline(always)]
    fn abs_max(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        let sign = have!(_mm256_castsi256_pd(splat(SIGN)));
        both!(|i| _mm256_max_pd(_mm256_andnot_pd(sign, a[i]), _mm256_andnot_pd(sign, b[i])))
    }
    #[inline(always)]
    fn not_below(self, a: [__m256d; 2], b: [__m256d; 2]) -> u8 {
        let sign = have!(_mm256_castsi256_pd(splat(SIGN)));
        let [low, high] =
            both!(|i| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_NLT_UQ>(_mm256_andnot_pd(sign, a[i]), b[i])));
        (low | high << 4) as u8
    }
    #[inline(always)]
    fn choose_d(self, mask: u8, then: [__m256d; 2], otherwise: [__m256d; 2]) -> [__m256d; 2] {
        let bits = have!(_mm256_setr_epi64x(1, 2, 4, 8));
        both!(|i| {
            let all = splat(u64::from(mask >> (4 * i)));
            let chosen = _mm256_cmpeq_epi64(_mm256_and_si256(all, bits), bits);
            _mm256_blendv_pd(otherwise[i], then[i], _mm256_castsi256_pd(chosen))
        })
    }
}
