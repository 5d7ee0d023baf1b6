//! Memory that MPI or another process uses beyond a call: windows shared within a node, and sends in flight.
//!
//! The one file of this crate with `unsafe`: the crate `rsmpi` has windows only through its `ffi`, and its sends borrow for
//! a scope, while those of a noise rank last as long as their reader takes.
#![allow(unsafe_code)]

use std::{ffi::c_void, mem, mem::MaybeUninit, os::raw::c_int, ptr, slice};

use bytes::Bytes;
use proto::{Result, ServiceError};
use rayon::prelude::*;
use rsmpi::{
    ffi,
    raw::AsRaw,
    topology::{Communicator, SimpleCommunicator},
};

use crate::{Rank, wire::Tag};

/// The least that a thread copies: below it, waking the thread costs more than it saves.
const MIN_COPY_BYTES: usize = 256 << 10;

/// Memory that all processes of one node see. Each lends a part; noise ranks write to the parts of training ranks,
/// after the row is bound and before they say so.
///
/// Rust's rules end at the process. What is upheld within one: writing goes through raw pointers and makes no reference;
/// a lender has references to its own part only while it has no request open (`Training` borrows them from itself).
pub struct Window {
    window: ffi::MPI_Win,
    parts: Vec<Part>,
    own: usize,
}

#[derive(Clone, Copy)]
struct Part {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the parts are plain memory that is mapped until `free`, which takes the window by value; threads only copy
// into them. The handle is used on the main thread alone: `sync` and `free` are called where MPI is.
unsafe impl Send for Window {}
// SAFETY: as above; `write` makes no reference, and a requester of two rows at one offset gets garbage of its own.
unsafe impl Sync for Window {}

impl Window {
    /// Allocates a window. Collective over the processes of one node. `bytes`: the memory that this process lends; 0 for
    /// none.
    pub fn allocate(node: &SimpleCommunicator, bytes: usize) -> Self {
        let mut base: *mut c_void = ptr::null_mut();
        let mut window = MaybeUninit::uninit();
        // SAFETY: both out pointers are valid for the call, which writes them or ends the launch (errors are fatal).
        // The epoch that is opened lasts until `free`.
        let window = unsafe {
            let base = (&raw mut base).cast::<c_void>();
            let size = bytes as ffi::MPI_Aint;
            ffi::MPI_Win_allocate_shared(
                size,
                1,
                ffi::RSMPI_INFO_NULL,
                node.as_raw(),
                base,
                window.as_mut_ptr(),
            );
            let window = window.assume_init();
            ffi::MPI_Win_lock_all(ffi::MPI_MODE_NOCHECK as c_int, window);
            window
        };
        let parts = (0..node.size()).map(|rank| query(window, rank)).collect();
        Self { window, parts, own: node.rank() as usize }
    }

    /// Copies `bytes` into the part of the process with this rank within the node.
    pub fn write(&self, rank: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let Part { base, bytes: size } = self.parts[rank];
        let at = self.check(rank, at, bytes.len() as u64)?;
        debug_assert!(at + bytes.len() <= size);
        // SAFETY: the target lies within the part, as just checked, which is mapped as long as `self`; `bytes` is
        // memory of this process and can't overlap the part of another rank, and this process's own part is only written
        // before it is borrowed.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(at), bytes.len()) };
        Ok(())
    }

    /// Does the same as [`Self::write`] with all threads of the caller's rayon pool. Each thread copies one long piece: the C
    /// library has other stores for long copies, which don't read what they overwrite.
    pub fn write_parallel(&self, rank: usize, at: u64, bytes: &[u8]) -> Result<()> {
        self.check(rank, at, bytes.len() as u64)?;
        let len = bytes.len().div_ceil(rayon::current_num_threads()).max(MIN_COPY_BYTES);
        let pieces = bytes.par_chunks(len).enumerate();
        pieces.try_for_each(|(index, piece)| self.write(rank, at + (index * len) as u64, piece))
    }

    /// Returns the offset at which such a write begins. Fails where it would not lie within the part.
    pub fn check(&self, rank: usize, at: u64, bytes: u64) -> Result<usize> {
        let size = self.parts[rank].bytes;
        match at.checked_add(bytes) {
            Some(end) if end <= size as u64 => Ok(at as usize),
            _ => Err(ServiceError::invalid(
                "offset in the window",
                format!("{bytes} bytes at {at}"),
                format!("within the {size} bytes that the training rank lends"),
            )),
        }
    }

    /// Returns this process's own part. No answer may be in flight that is written to it.
    pub fn own(&self) -> &[u8] {
        let Part { base, bytes } = self.parts[self.own];
        match bytes {
            0 => &[],
            // SAFETY: mapped as long as `self`, and zeros or what was written; the caller lets no process write.
            _ => unsafe { slice::from_raw_parts(base, bytes) },
        }
    }

    /// Makes what this process wrote visible to others, or what others wrote to it.
    pub fn sync(&self) {
        // SAFETY: the window is live, within the epoch that `allocate` opened.
        unsafe { ffi::MPI_Win_sync(self.window) };
    }

    /// Frees the window. Collective, as `allocate` is.
    pub fn free(mut self) {
        // SAFETY: the window is live, and nothing can use it after.
        unsafe {
            ffi::MPI_Win_unlock_all(self.window);
            ffi::MPI_Win_free(&mut self.window);
        }
    }
}

fn query(window: ffi::MPI_Win, rank: Rank) -> Part {
    let mut base: *mut c_void = ptr::null_mut();
    let mut bytes: ffi::MPI_Aint = 0;
    let mut unit: c_int = 0;
    // SAFETY: the window is live and the three out pointers are valid for the call.
    unsafe {
        let base = (&raw mut base).cast::<c_void>();
        ffi::MPI_Win_shared_query(window, rank, &mut bytes, &mut unit, base);
    }
    Part { base: base.cast(), bytes: bytes as usize }
}

/// A send in flight and the bytes that it reads: a row's own memory, kept as long as MPI needs it.
pub struct PendingSend {
    request: ffi::MPI_Request,
    bytes: Bytes,
    is_done: bool,
}

impl PendingSend {
    /// Begins to send at most [`crate::wire::DATA_BYTES`] bytes.
    pub fn begin(all: &SimpleCommunicator, to: Rank, tag: Tag, bytes: Bytes) -> Self {
        let mut request = MaybeUninit::uninit();
        // SAFETY: `bytes` never moves and lives in this value, whose end leaks it where the send has not ended.
        let request = unsafe {
            let data = bytes.as_ptr().cast::<c_void>();
            let count = bytes.len() as c_int;
            let kind = ffi::RSMPI_UINT8_T;
            ffi::MPI_Isend(data, count, kind, to, tag, all.as_raw(), request.as_mut_ptr());
            request.assume_init()
        };
        Self { request, bytes, is_done: false }
    }

    /// Moves the send forward, and returns whether its bytes are no longer needed.
    pub fn is_done(&mut self) -> bool {
        if !self.is_done {
            let mut flag = 0;
            // SAFETY: the request is live until it is done, which is noted.
            unsafe { ffi::MPI_Test(&mut self.request, &mut flag, ffi::RSMPI_STATUS_IGNORE) };
            self.is_done = flag != 0;
        }
        self.is_done
    }
}

impl Drop for PendingSend {
    fn drop(&mut self) {
        if !self.is_done {
            // MPI may still read them.
            mem::forget(mem::take(&mut self.bytes));
        }
    }
}
