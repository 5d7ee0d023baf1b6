//! Rows as they leave: what a caller's buffers hold, and how a row is put into them.

/// The caller's buffer for one row.
#[derive(Debug)]
pub enum Row<'a> {
    /// Overwritten with the row.
    F32(&'a mut [f32]),
    /// The row is added to what is there: buffer ← buffer + row, rounded once.
    Add(&'a mut [f32]),
    /// Overwritten with the row rounded to bfloat16, to nearest, ties to even. What a sum should have is the exact
    /// row added and the sum rounded ([`Row::Add`], then round): a rounded row is no longer Gaussian.
    Bf16(&'a mut [u16]),
}

impl<'a> Row<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Row::F32(values) | Row::Add(values) => values.len(),
            Row::Bf16(values) => values.len(),
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

/// out ← out + x·factor, the product rounded first: what is added is the row as it would be served.
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

/// The upper half of a finite value's bits, rounded to nearest, ties to even: its bfloat16.
#[inline(always)]
pub fn round_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}
