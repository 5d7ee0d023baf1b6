//! Rows as they leave: the caller's buffers, and the ways a row is put into them.

use crate::memory::lines;
use crate::simd::Simd;

/// The caller's buffer for one row.
#[derive(Debug)]
pub enum Row<'a> {
    /// Overwritten with the row.
    F32(&'a mut [f32]),
    /// The row is added to the buffer's values: buffer ← buffer + row, rounded once.
    Add(&'a mut [f32]),
    /// Overwritten with the row rounded to bfloat16, to nearest, ties to even. For a sum, add the exact row and
    /// round the result ([`Row::Add`], then [`round_bf16`]): a rounded row is no longer Gaussian.
    Bf16(&'a mut [u16]),
}

impl<'a> Row<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Row::F32(values) | Row::Add(values) => values.len(),
            Row::Bf16(values) => values.len(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Row::F32(values) | Row::Add(values) => size_of_val(&**values),
            Row::Bf16(values) => size_of_val(&**values),
        }
    }

    /// Takes the first `count` values away. The row has as many.
    pub(crate) fn split_off(&mut self, count: usize) -> Row<'a> {
        match self {
            Row::F32(values) => Row::F32(values.split_off_mut(..count).unwrap_or_default()),
            Row::Add(values) => Row::Add(values.split_off_mut(..count).unwrap_or_default()),
            Row::Bf16(values) => Row::Bf16(values.split_off_mut(..count).unwrap_or_default()),
        }
    }
}

/// out ← x·factor
#[inline(always)]
pub(crate) fn scale_into(out: &mut [f32], x: &[f32], factor: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * factor;
    }
}

/// out ← x·factor past the caches: the overwritten memory is not read first. Other threads see it only after
/// [`Simd::fence`].
#[inline(always)]
pub(crate) fn stream_into<S: Simd>(s: S, out: &mut [f32], x: &[f32], factor: f32) {
    if S::LANES == 1 {
        return scale_into(out, x, factor);
    }
    let (before, whole, after) = lines(out);
    let (x_before, x) = x.split_at(before.len());
    let (x_whole, x_after) = x.as_chunks();
    scale_into(before, x_before, factor);
    let scale = s.splat_f(factor);
    for (line, x) in whole.iter_mut().zip(x_whole) {
        for at in (0..16).step_by(S::LANES) {
            s.stream_f(s.mul_f(s.load_f(x, at), scale), line, at);
        }
    }
    scale_into(after, x_after, factor);
}

/// out ← out + x·factor, the product rounded first: the added row has the bits of a served one.
#[inline(always)]
pub(crate) fn scale_add(out: &mut [f32], x: &[f32], factor: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out += x * factor;
    }
}

/// out ← bfloat16(x·factor). All values are finite.
#[inline(always)]
pub(crate) fn scale_bf16(out: &mut [u16], x: &[f32], factor: f32) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round_bf16(x * factor);
    }
}

/// Returns the upper half of a finite value's bits, rounded to nearest, ties to even: its bfloat16.
#[inline(always)]
pub fn round_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use crate::Backend;
    use crate::dispatch::Active;

    #[test]
    fn what_goes_past_the_caches_is_what_would_go_through_them() {
        let x: Vec<f32> = (0..600).map(|i| 1.0 + i as f32 / 512.0).collect();
        // An interpreter has no time for all.
        let step = if cfg!(miri) { 7 } else { 1 };
        for backend in Backend::available() {
            let active = Active::new(backend).unwrap();
            for start in (0..16).step_by(step) {
                for len in (0..70).step_by(step).chain([511, 512]) {
                    let mut plain = [f32::NAN; 600];
                    let mut streamed = [f32::NAN; 600];
                    active.scale_into(&mut plain[start..start + len], &x[5..5 + len], 1.3);
                    active.stream_into(&mut streamed[start..start + len], &x[5..5 + len], 1.3);
                    active.fence();
                    let bits = |values: [f32; 600]| values.map(f32::to_bits);
                    assert!(bits(plain) == bits(streamed), "{len} values from {start} on, {backend}");
                }
            }
        }
    }
}
