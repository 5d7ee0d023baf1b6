//! A region on its lender's side, and on a worker's side.

use std::{os::fd::OwnedFd, sync::Arc};

use proto::{CoordinateRange, ElementType, Result, ServiceError};
use rayon::prelude::*;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    layout::{Layout, RegionId},
    lease::{Offer, RegionLease},
    memory::Memory,
};

/// Memory of this process for rows, which can be lent to workers.
#[derive(Debug)]
pub struct Region {
    layout: Layout,
    memory: Memory,
    file: OwnedFd,
}

impl Region {
    /// Returns `slots` rows of `range`, all zeros.
    pub fn create(range: CoordinateRange, slots: u32, element: ElementType) -> Result<Self> {
        let layout = Layout::new(RegionId::random()?, range, slots, element)?;
        let (memory, file) = Memory::create(layout.size())?;
        Ok(Self { layout, memory, file })
    }

    /// Returns the same rows in new memory under a new name, which earlier leases don't reach.
    pub fn replaced(&self) -> Result<Self> {
        let layout = Layout { id: RegionId::random()?, ..self.layout };
        let (memory, file) = Memory::create(layout.size())?;
        memory.write(0, self.memory.read(0..self.memory.len())?, false)?;
        Ok(Self { layout, memory, file })
    }

    /// Returns where each row lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Lends the region to the worker that listens at `path`. Blocks until the worker has answered.
    pub fn lend(&self, path: &str) -> Result<RegionLease> {
        RegionLease::open(path, &self.layout, &self.file)
    }

    /// Returns a descriptor of the memory, to lend it by other means.
    pub fn file(&self) -> Result<OwnedFd> {
        self.file.try_clone().map_err(ServiceError::internal)
    }

    /// Returns the bytes of the row in a slot, in the region's element type.
    pub fn row_bytes(&self, slot: u32) -> Result<&[u8]> {
        self.memory.read(self.layout.place(slot, self.layout.range)?)
    }

    /// Returns the bytes of the row in a slot, for writing.
    pub fn row_bytes_mut(&mut self, slot: u32) -> Result<&mut [u8]> {
        self.memory.read_mut(self.layout.place(slot, self.layout.range)?)
    }

    /// Returns the f32 row in a slot. Fails where the region holds another type.
    pub fn row(&self, slot: u32) -> Result<&[f32]> {
        self.expect(ElementType::F32)?;
        bytemuck::try_cast_slice(self.row_bytes(slot)?).map_err(ServiceError::internal)
    }

    /// Returns the bf16 row in a slot: the upper halves of f32 values. Fails where the region holds another type.
    pub fn row_bf16(&self, slot: u32) -> Result<&[u16]> {
        self.expect(ElementType::Bf16)?;
        bytemuck::try_cast_slice(self.row_bytes(slot)?).map_err(ServiceError::internal)
    }

    /// Returns the row of integers in a slot. Fails where the region holds another type.
    pub fn row_integers(&self, slot: u32) -> Result<&[i32]> {
        self.expect(ElementType::I32)?;
        bytemuck::try_cast_slice(self.row_bytes(slot)?).map_err(ServiceError::internal)
    }

    fn expect(&self, element: ElementType) -> Result<()> {
        if self.layout.element == element {
            Ok(())
        } else {
            Err(ServiceError::invalid(
                "element type",
                element,
                format!("the region's {}", self.layout.element),
            ))
        }
    }
}

/// Another process's region, mapped by a worker.
#[derive(Debug)]
pub struct BorrowedRegion {
    layout: Layout,
    memory: Memory,
    writing: Arc<Mutex<()>>,
}

impl BorrowedRegion {
    /// Maps an offered region. Fails where the memory can't be used safely.
    pub fn open(offer: Offer) -> Result<Self> {
        let memory = Memory::open(&offer.file, offer.layout.size())?;
        Ok(Self { layout: offer.layout, memory, writing: Arc::default() })
    }

    /// Returns where each row lies.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the bytes that are mapped.
    pub fn bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Returns the region's writer, once no other task of this process holds it.
    pub async fn writer(self: Arc<Self>) -> Writer {
        let turn = self.writing.clone().lock_owned().await;
        Writer { region: self, _turn: turn }
    }
}

/// Bytes copied between two checks whether to continue: enough to keep a core busy, few enough to stop soon.
const PIECE_BYTES: usize = 1 << 20;

/// Least bytes of a copy that goes past the caches: one so large leaves no cache warm for its reader anyway.
const PAST_CACHES_BYTES: usize = 8 << 20;

/// The one writer of a region in this process.
#[derive(Debug)]
pub struct Writer {
    region: Arc<BorrowedRegion>,
    _turn: OwnedMutexGuard<()>,
}

impl Writer {
    /// Copies `bytes` to `at`, a place that [`Layout::place`] returned, with the threads of the current pool, as long as
    /// `may_continue` returns true. Returns whether it copied all.
    pub fn copy(&mut self, at: usize, bytes: &[u8], may_continue: impl Fn() -> bool + Sync) -> Result<bool> {
        let memory = &self.region.memory;
        let past_caches = bytes.len() >= PAST_CACHES_BYTES;
        let pieces = bytes.par_chunks(PIECE_BYTES).enumerate();
        pieces
            .map(|(index, piece)| {
                may_continue()
                    .then(|| memory.write(at.saturating_add(index * PIECE_BYTES), piece, past_caches))
                    .transpose()
            })
            .try_fold(|| true, |all, written| written.map(|written| all && written.is_some()))
            .try_reduce(|| true, |a, b| Ok(a && b))
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)] // in helpers of tests
mod tests {
    use std::{fs::File, os::unix::net::UnixListener};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    const RANGE: CoordinateRange = CoordinateRange { start: 512, end: 1536 };

    fn region() -> Region {
        Region::create(RANGE, 2, ElementType::F32).unwrap()
    }

    fn offer(region: &Region) -> Offer {
        Offer { layout: *region.layout(), file: region.file().unwrap() }
    }

    #[test]
    fn what_a_worker_writes_is_the_lenders_row() {
        let region = region();
        let borrowed = BorrowedRegion::open(offer(&region)).unwrap();
        let part = CoordinateRange { start: 600, end: 602 };
        let at = borrowed.layout().place(1, part).unwrap();
        borrowed.memory.write(at.start, bytemuck::cast_slice(&[1.5f32, -2.0]), false).unwrap();
        assert_eq!(region.row(1).unwrap()[88..90], [1.5, -2.0]);
        assert!(region.row(0).unwrap().iter().all(|value| *value == 0.0));
        assert!(region.row(2).is_err() && region.row_bf16(0).is_err());
        assert!(borrowed.memory.write(borrowed.bytes() as usize - 3, &[0; 4], false).is_err());
        assert!(borrowed.memory.write(usize::MAX, &[0; 4], false).is_err());
    }

    #[tokio::test]
    async fn a_writer_copies_all_pieces_or_says_that_it_stopped() {
        let range = CoordinateRange { start: 0, end: 700_000 };
        let region = Region::create(range, 1, ElementType::F32).unwrap();
        let borrowed = Arc::new(BorrowedRegion::open(offer(&region)).unwrap());
        let row: Vec<f32> = (0..700_000).map(|i| i as f32).collect();
        let mut writer = borrowed.clone().writer().await;
        assert!(writer.copy(0, bytemuck::cast_slice(&row), || true).unwrap());
        assert_eq!(region.row(0).unwrap(), row);
        assert!(!writer.copy(0, &[1; 4096], || false).unwrap());
        assert_eq!(region.row(0).unwrap(), row, "a stopped writer writes nothing");
        assert!(writer.copy(2_800_000, &[1; 4096], || true).is_err());
        let second = tokio::time::timeout(std::time::Duration::from_millis(20), borrowed.writer()).await;
        assert!(second.is_err(), "two writers at once");
    }

    #[test]
    fn replaced_memory_holds_the_rows_and_is_out_of_reach() {
        let region = region();
        let borrowed = BorrowedRegion::open(offer(&region)).unwrap();
        borrowed.memory.write(0, &1f32.to_le_bytes(), false).unwrap();
        let new = region.replaced().unwrap();
        borrowed.memory.write(0, &2f32.to_le_bytes(), false).unwrap();
        assert_eq!(new.row(0).unwrap()[0], 1.0);
        assert_ne!(new.layout().id, region.layout().id);
    }

    #[test]
    fn a_lender_that_is_gone_leaves_nothing_to_fall_over() {
        let region = region();
        let borrowed = BorrowedRegion::open(offer(&region)).unwrap();
        drop(region);
        borrowed.memory.write(0, &[1; 4096], false).unwrap();
    }

    #[test]
    fn descriptors_that_could_crash_a_worker_are_refused() {
        let good = region();
        let layout = *good.layout();
        let memory = |bytes, seals| {
            let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, bytes).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            file
        };
        let refused = |file: OwnedFd| BorrowedRegion::open(Offer { layout, file }).unwrap_err().to_string();
        let size = layout.size();
        assert!(refused(memory(size, SealFlags::empty())).contains("not sealed"));
        assert!(refused(memory(size, SealFlags::SHRINK | SealFlags::WRITE)).contains("against writing"));
        assert!(refused(memory(size - 1, SealFlags::SHRINK)).contains("at least"));
        assert!(refused(tempfile::tempfile().unwrap().into()).contains("another kind"));
        assert!(refused(File::open("/dev/zero").unwrap().into()).contains("another kind"));
        let (pipe, _other) = std::io::pipe().unwrap();
        assert!(refused(pipe.into()).contains("another kind"));
    }

    #[test]
    fn a_loan_lives_as_long_as_its_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lend.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let worker = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let offer = Offer::receive(&socket).unwrap().unwrap();
            std::io::Write::write_all(&mut socket, &crate::acceptance_answer()).unwrap();
            (BorrowedRegion::open(offer).unwrap(), socket)
        });
        let region = region();
        let lease = region.lend(path.to_str().unwrap()).unwrap();
        let (borrowed, socket) = worker.join().unwrap();
        assert_eq!(borrowed.layout(), region.layout());
        assert!(lease.is_open());
        drop(socket);
        assert!(!lease.is_open());
        assert!(region.lend("/nonexistent/socket").unwrap_err().retry_safe());
    }
}
