//! The buffer for state and rows: zero without being touched, aligned to cache lines, in huge pages where the system
//! allows them.
//!
//! Pages come into being on the thread that first writes them: for a new shard, the one that makes its rows.

use crate::KernelError;
#[cfg(all(target_os = "linux", not(miri)))]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

/// Numbers whose value is 0 where all bits are, and for which all bits are a value.
pub trait Number: number::Sealed + Copy + Send + Sync {}

mod number {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl number::Sealed for $number {}
        impl Number for $number {}
    )*};
}

numbers!(f32, f64, i32);

/// The same memory as binary32 values, for fetching.
pub(crate) fn as_binary32<N: Number>(values: &[N]) -> &[f32] {
    const { assert!(align_of::<N>() >= align_of::<f32>() && size_of::<N>().is_multiple_of(size_of::<f32>())) };
    let len = size_of_val(values) / size_of::<f32>();
    // SAFETY: the same bytes for the same time, aligned, and any bits are a binary32 value.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), len) }
}

/// A buffer of numbers, binary32 unless another type is named, all +0 at first. It is as secret as its contents, so it has
/// no `Debug`.
pub struct Buffer<N: Number = f32> {
    start: NonNull<N>,
    len: usize,
}

impl<N: Number> Buffer<N> {
    /// Returns `len` zeros; `what` names their use in an error.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] for more than the system has.
    pub fn zeroed(what: &'static str, len: usize) -> Result<Self, KernelError> {
        if len == 0 {
            return Ok(Self { start: NonNull::dangling(), len: 0 });
        }
        let refused = || KernelError::OutOfMemory { what, bytes: len as u128 * size_of::<N>() as u128 };
        // No slice may be longer than isize::MAX bytes.
        let bytes = len.checked_mul(size_of::<N>()).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or_else(refused)?;
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address of the system's choice overlaps nothing.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast::<N>())).ok_or_else(refused)?;
        let memory = Self { start, len };
        // Fewer entries in the page tables; a system that refuses is only slower.
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the advice covers this mapping and changes no contents.
        let _ = unsafe { madvise(memory.address(), bytes, Advice::LinuxHugepage) };
        Ok(memory)
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

/// A cache line of values, where one begins.
#[repr(C, align(64))]
pub(crate) struct Line(pub [f32; 16]);

pub(crate) fn begins_line(values: &[f32]) -> bool {
    values.as_ptr().align_offset(align_of::<Line>()) == 0
}

/// The whole cache lines of `values`, and what comes before and after them.
pub(crate) fn lines(values: &mut [f32]) -> (&mut [f32], &mut [Line], &mut [f32]) {
    // SAFETY: a line is sixteen values and nothing else, and all bits are values.
    unsafe { values.align_to_mut::<Line>() }
}

impl<N: Number> Drop for Buffer<N> {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the mapping was made by `zeroed` with this length, and nothing refers to it any more. It fails
            // only for arguments that are not a mapping.
            let _ = unsafe { munmap(self.address(), self.len * size_of::<N>()) };
        }
    }
}

impl<N: Number> Deref for Buffer<N> {
    type Target = [N];

    fn deref(&self) -> &[N] {
        // SAFETY: `len` values are mapped and readable for as long as `self` lives; all bits are values.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<N: Number> DerefMut for Buffer<N> {
    fn deref_mut(&mut self) -> &mut [N] {
        // SAFETY: as above, and writable; `&mut self` keeps others away.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: the mapping belongs to this value alone, as a Vec's buffer does.
unsafe impl<N: Number> Send for Buffer<N> {}
// SAFETY: shared access only reads.
unsafe impl<N: Number> Sync for Buffer<N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_writable() {
        // An interpreter has no time for many.
        let len = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
        let mut memory = <Buffer>::zeroed("the state", len).unwrap();
        assert!(memory.iter().all(|v| v.to_bits() == 0));
        assert_eq!(memory.as_ptr() as usize % 64, 0);
        memory[len - 1] = 1.0;
        assert_eq!(memory.iter().sum::<f32>(), 1.0);
        assert!(<Buffer>::zeroed("the state", 0).unwrap().is_empty());
    }

    #[test]
    fn too_much_is_refused() {
        // The last two would wrap around to a few bytes.
        for len in [1 << 60, (1 << 62) + 1, usize::MAX] {
            let error = <Buffer>::zeroed("the state", len).err().unwrap();
            let bytes = len as u128 * 4;
            assert_eq!(error.to_string(), format!("the system has no {bytes} bytes for the state"));
        }
    }
}
