//! Mapped shared memory: the one module here with `unsafe`.
//!
//! Two processes see these bytes, and Rust's rules end at the process. Within one process they hold: a worker
//! writes through raw pointers and makes no reference; a lender makes references only while its own `Region` is not
//! being fetched into, which the borrow checker sees. A worker that writes later than that is kept away by never
//! using memory again that a worker may still hold a request for (`client`, and docs/shared-memory.md).
#![allow(unsafe_code)]

use std::{fmt, io, ops::Range, os::fd::OwnedFd};

use memmap2::{MmapOptions, MmapRaw};
use proto::{Result, ServiceError};

use crate::system;

/// Memory of a file, readable and writable.
pub(crate) struct Memory {
    map: MmapRaw,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.map.len())
    }
}

impl Memory {
    /// Returns new memory of zeros that can't change its size any more, and the descriptor to lend.
    pub fn create(bytes: u64) -> Result<(Self, OwnedFd)> {
        let file = system::memory_file(bytes)?;
        let memory = Self::map(&file, bytes).map_err(|error| cannot_map(bytes, &error))?;
        Ok((memory, file))
    }

    /// Maps another process's memory. Only a sealed memory file of at least `bytes` bytes is allowed: any other could end
    /// or shrink under a write.
    pub fn open(file: &OwnedFd, bytes: u64) -> Result<Self> {
        let size = system::check_memory_file(file)?;
        if size < bytes {
            return Err(ServiceError::invalid(
                "region",
                format!("{size} bytes"),
                format!("at least the {bytes} bytes that its layout needs"),
            ));
        }
        Self::map(file, bytes).map_err(|error| cannot_map(bytes, &error))
    }

    /// Maps `bytes` of a file. Their pages are brought in at once, because the first row must not wait for them, and no
    /// others, however large the file is: they would count as this process's memory.
    fn map(file: &OwnedFd, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        Ok(Self { map: MmapOptions::new().len(bytes).populate().map_raw(file)? })
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Copies `bytes` to `at`, past the caches where asked. The caller lets no two threads write the same bytes at
    /// once.
    pub fn write(&self, at: usize, bytes: &[u8], past_caches: bool) -> Result<()> {
        self.check(at..at.saturating_add(bytes.len()))?;
        // SAFETY: the target lies within the mapping, as just checked, which lives as long as `self`; the file is
        // sealed against shrinking, so its pages exist; `bytes` is ordinary memory and can't overlap the mapping,
        // of which no reference is ever given out together with `&self` here.
        unsafe {
            let to = self.map.as_mut_ptr().add(at);
            if past_caches {
                copy_past_caches(bytes, to)
            } else {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len())
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self, range: Range<usize>) -> Result<&[u8]> {
        self.check(range.clone())?;
        // SAFETY: within the mapping; initialised, as all pages of a memory file are. Writers in other processes are
        // the module's contract.
        Ok(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(range.start), range.len()) })
    }

    pub(crate) fn read_mut(&mut self, range: Range<usize>) -> Result<&mut [u8]> {
        self.check(range.clone())?;
        // SAFETY: as in `read`; `&mut self` makes this the only reference in the process.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(range.start), range.len()) })
    }

    fn check(&self, range: Range<usize>) -> Result<()> {
        if range.start <= range.end && range.end <= self.map.len() {
            return Ok(());
        }
        let allowed = format!("within its {} bytes", self.map.len());
        Err(ServiceError::invalid("place in a region", format!("{range:?}"), allowed))
    }
}

/// Copies with stores that don't first read the memory they overwrite: a third less traffic for a row that no cache
/// holds.
///
/// # Safety
/// `to` is writable for `from.len()` bytes and does not overlap `from`.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_past_caches(from: &[u8], to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(from.len());
    let (head, rest) = from.split_at(head);
    let (lines, tail) = rest.as_chunks::<LINE>();
    // SAFETY: head, lines and tail follow one another within the caller's bounds, lines at multiples of 64 of `to`;
    // every x86-64 processor has SSE2; the fence orders these stores before whatever says that they are done.
    unsafe {
        std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        let mut at = to.add(head.len());
        for line in lines {
            let from = line.as_ptr().cast::<__m128i>();
            let to = at.cast::<__m128i>();
            for part in 0..LINE / size_of::<__m128i>() {
                _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
            }
            at = at.add(LINE);
        }
        std::ptr::copy_nonoverlapping(tail.as_ptr(), at, tail.len());
        _mm_sfence();
    }
}

/// # Safety
/// `to` is writable for `from.len()` bytes and does not overlap `from`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn copy_past_caches(from: &[u8], to: *mut u8) {
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

fn cannot_map(bytes: u64, error: &io::Error) -> ServiceError {
    ServiceError::Unavailable { what: format!("shared memory of {bytes} bytes ({error})") }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_copy_write_the_same_bytes_and_no_others() {
        let from: Vec<u8> = (0..5000u32).map(|i| (i * 7 + 1) as u8).collect();
        for (at, start, len) in [(0, 0, 5000), (1, 3, 200), (63, 1, 64), (64, 0, 128), (5, 5, 0), (70, 9, 3)]
        {
            let [plain, past] = [false, true].map(|past_caches| {
                let (memory, _) = Memory::create(8192).unwrap();
                memory.write(at, &from[start..start + len], past_caches).unwrap();
                memory.read(0..8192).unwrap().to_vec()
            });
            assert_eq!(plain, past, "{len} bytes to {at}");
            assert_eq!(plain[at..at + len], from[start..start + len]);
            assert!(plain[..at].iter().chain(&plain[at + len..]).all(|byte| *byte == 0));
        }
    }
}
