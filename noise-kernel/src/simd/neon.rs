//! Four lanes: NEON, which every 64-bit Arm processor has.

use super::Simd;
use crate::memory::Line;
use std::arch::aarch64::*;

#[derive(Clone, Copy)]
pub(crate) struct Neon(());

/// All calls of intrinsics in this file.
macro_rules! have {
    ($call:expr) => {
        // SAFETY: a `Neon` exists only where NEON was found ([`Neon::new`]); loads and stores are of `LANES` values
        // within arrays whose bounds were checked.
        unsafe { $call }
    };
}

impl Neon {
    /// # Safety
    /// The processor must have NEON.
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Simd for Neon {
    const LANES: usize = 4;
    type U = uint32x4_t;
    type F = float32x4_t;

    #[inline(always)]
    fn splat(self, word: u32) -> uint32x4_t {
        have!(vdupq_n_u32(word))
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> float32x4_t {
        have!(vdupq_n_f32(value))
    }
    #[inline(always)]
    fn lane_numbers(self) -> uint32x4_t {
        have!(vld1q_u32([0, 1, 2, 3].as_ptr()))
    }
    #[inline(always)]
    fn load_f(self, from: &[f32; 16], at: usize) -> float32x4_t {
        have!(vld1q_f32(from[at..at + 4].as_ptr()))
    }
    #[inline(always)]
    fn store_f(self, values: float32x4_t, to: &mut [f32; 16], at: usize) {
        have!(vst1q_f32(to[at..at + 4].as_mut_ptr(), values));
    }
    #[inline(always)]
    fn stream_f(self, values: float32x4_t, to: &mut Line, at: usize) {
        self.store_f(values, &mut to.0, at);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch(self, _from: &[f32; 16]) {}

    #[inline(always)]
    fn add(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        have!(vaddq_u32(a, b))
    }
    #[inline(always)]
    fn xor(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        have!(veorq_u32(a, b))
    }
    #[inline(always)]
    fn and(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        have!(vandq_u32(a, b))
    }
    #[inline(always)]
    fn or(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        have!(vorrq_u32(a, b))
    }
    #[inline(always)]
    fn left<const BITS: i32>(self, a: uint32x4_t) -> uint32x4_t {
        have!(vshlq_n_u32::<BITS>(a))
    }
    #[inline(always)]
    fn right<const BITS: i32>(self, a: uint32x4_t) -> uint32x4_t {
        have!(vshrq_n_u32::<BITS>(a))
    }
    #[inline(always)]
    fn right_signed<const BITS: i32>(self, a: uint32x4_t) -> uint32x4_t {
        have!(vreinterpretq_u32_s32(vshrq_n_s32::<BITS>(vreinterpretq_s32_u32(a))))
    }
    #[inline(always)]
    fn rotate_16(self, a: uint32x4_t) -> uint32x4_t {
        have!(vreinterpretq_u32_u16(vrev32q_u16(vreinterpretq_u16_u32(a))))
    }
    #[inline(always)]
    fn rotate_12(self, a: uint32x4_t) -> uint32x4_t {
        have!(vsriq_n_u32::<20>(vshlq_n_u32::<12>(a), a))
    }
    #[inline(always)]
    fn rotate_8(self, a: uint32x4_t) -> uint32x4_t {
        have!(vsriq_n_u32::<24>(vshlq_n_u32::<8>(a), a))
    }
    #[inline(always)]
    fn rotate_7(self, a: uint32x4_t) -> uint32x4_t {
        have!(vsriq_n_u32::<25>(vshlq_n_u32::<7>(a), a))
    }
    #[inline(always)]
    fn any_high(self, a: uint32x4_t) -> bool {
        have!(vmaxvq_u32(a) >> 31 == 1)
    }

    #[inline(always)]
    fn to_f(self, a: uint32x4_t) -> float32x4_t {
        have!(vcvtq_f32_s32(vreinterpretq_s32_u32(a)))
    }
    #[inline(always)]
    fn bits(self, a: float32x4_t) -> uint32x4_t {
        have!(vreinterpretq_u32_f32(a))
    }
    #[inline(always)]
    fn floats(self, a: uint32x4_t) -> float32x4_t {
        have!(vreinterpretq_f32_u32(a))
    }
    #[inline(always)]
    fn add_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        have!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        have!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        have!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        have!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn sqrt(self, a: float32x4_t) -> float32x4_t {
        have!(vsqrtq_f32(a))
    }
    #[inline(always)]
    fn choose(self, chooser: uint32x4_t, high: float32x4_t, low: float32x4_t) -> float32x4_t {
        have!(vbslq_f32(self.right_signed::<31>(chooser), high, low))
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
