//! Regions of shared memory that this process lends to the workers of its host.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use node::net::local_socket::host_id;
use proto::model::{LocalAccess, Target};
use proto::{CoordinateRange, ElementType, ReceivedChunk, Result, RowRange, ServiceError};
use shared_memory::{Layout, RegionLease};
use tracing::warn;

/// Memory for rows of a range, which workers write to. The caller keeps track of the row in each slot.
#[derive(Debug)]
pub struct Region {
    memory: shared_memory::Region,
    leases: Arc<Leases>,
}

impl Region {
    /// Returns `slots` rows of `range`, all zeros. It is lent to each worker with the first request to it.
    pub fn create(range: CoordinateRange, slots: u32, element: ElementType) -> Result<Self> {
        Self::lending(shared_memory::Region::create(range, slots, element)?)
    }

    fn lending(memory: shared_memory::Region) -> Result<Self> {
        let leases = Arc::new(Leases {
            layout: *memory.layout(),
            file: Arc::new(memory.file()?),
            host: host_id(),
            open: tokio::sync::Mutex::default(),
            unanswered: AtomicUsize::new(0),
        });
        Ok(Self { memory, leases })
    }

    /// Returns where each row lies.
    pub fn layout(&self) -> &Layout {
        self.memory.layout()
    }

    /// Returns the f32 row in a slot.
    pub fn row(&self, slot: u32) -> Result<&[f32]> {
        self.memory.row(slot)
    }

    /// Returns the bf16 row in a slot: the upper halves of f32 values.
    pub fn row_bf16(&self, slot: u32) -> Result<&[u16]> {
        self.memory.row_bf16(slot)
    }

    /// Returns the row in a slot of a region of integers on a grid.
    pub fn row_integers(&self, slot: u32) -> Result<&[i32]> {
        self.memory.row_integers(slot)
    }

    /// Returns the bytes of the row in a slot.
    pub fn row_bytes_mut(&mut self, slot: u32) -> Result<&mut [u8]> {
        self.memory.row_bytes_mut(slot)
    }

    /// Prepares for a fetch into the slots from `slot` on. A worker that has not answered a request to write may still
    /// write: its memory is left to it, and the rows move to new memory.
    pub(crate) fn ready_for(
        &mut self,
        rows: RowRange,
        range: CoordinateRange,
        slot: u32,
    ) -> Result<Placement> {
        let last = u32::try_from(rows.len() - 1).ok().and_then(|more| slot.checked_add(more));
        let last =
            last.ok_or_else(|| ServiceError::invalid("rows", rows, "as many as the region has slots"))?;
        self.layout().place(slot, range)?;
        self.layout().place(last, range)?;
        if self.leases.unanswered.load(Ordering::Acquire) > 0 {
            warn!("a worker left a request unanswered; the region moves to new memory");
            *self = Self::lending(self.memory.replaced()?)?;
        }
        Ok(Placement { leases: self.leases.clone(), slot, first_row: rows.start })
    }

    /// Writes a chunk that arrived as data.
    pub(crate) fn place(&mut self, chunk: &ReceivedChunk, placement: &Placement) -> Result<()> {
        let layout = *self.layout();
        let slot = placement.slot_of(chunk.head.row);
        let end = chunk.head.start + (chunk.head.data_len / layout.element.bytes()) as u64;
        let place = layout.place(slot, CoordinateRange::new(chunk.head.start, end)?)?;
        let row = layout.place(slot, layout.range)?.start;
        let mut rest = &mut self.memory.row_bytes_mut(slot)?[place.start - row..place.end - row];
        for piece in &chunk.data {
            let (here, after) = rest.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            rest = after;
        }
        Ok(())
    }
}

/// The slots that a fetch writes its rows to: `slot` is that of `first_row`.
#[derive(Clone, Debug)]
pub struct Placement {
    leases: Arc<Leases>,
    slot: u32,
    first_row: u64,
}

impl Placement {
    fn slot_of(&self, row: u64) -> u32 {
        self.slot + (row - self.first_row) as u32
    }

    /// Lends the region to the worker and returns the target to request; `None` where it can't be lent, and the worker
    /// sends data instead.
    pub(crate) async fn target(
        &self,
        local: Option<&LocalAccess>,
        first_row: u64,
    ) -> Option<(Target, Pending)> {
        let path = self.leases.lending_path(local)?;
        match self.leases.lend(path).await {
            Ok(()) => {
                let target = Target { region: self.leases.layout.id.0, slot: self.slot_of(first_row) };
                Some((target, Pending::new(self.leases.clone())))
            }
            Err(error) => {
                warn!(%error, "a worker of this host can't be lent the region; it sends its rows instead");
                None
            }
        }
    }

    /// Forgets that the region was lent to the worker, so that it is lent again next time.
    pub(crate) async fn forget(&self, local: Option<&LocalAccess>) {
        if let Some(path) = self.leases.lending_path(local) {
            self.leases.open.lock().await.remove(path);
        }
    }
}

/// A request to write that has not been answered. It counts until [`Pending::answered`]; if dropped before, for ever.
pub(crate) struct Pending(Arc<Leases>);

impl Pending {
    fn new(leases: Arc<Leases>) -> Self {
        leases.unanswered.fetch_add(1, Ordering::AcqRel);
        Self(leases)
    }

    pub fn answered(self) {
        self.0.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Leases {
    layout: Layout,
    file: Arc<OwnedFd>,
    host: String,
    /// The leases by the path of the lending socket.
    open: tokio::sync::Mutex<HashMap<String, RegionLease>>,
    unanswered: AtomicUsize,
}

impl Leases {
    fn lending_path<'a>(&self, local: Option<&'a LocalAccess>) -> Option<&'a str> {
        let local = local.filter(|local| !local.host.is_empty() && local.host == self.host)?;
        local.lending.as_deref()
    }

    async fn lend(&self, path: &str) -> Result<()> {
        let mut open = self.open.lock().await;
        if open.get(path).is_some_and(RegionLease::is_open) {
            return Ok(());
        }
        let to = path.to_owned();
        let layout = self.layout;
        let file = self.file.clone();
        let lent = tokio::task::spawn_blocking(move || RegionLease::open(&to, &layout, &file)).await;
        open.insert(path.to_owned(), lent.map_err(ServiceError::internal)??);
        Ok(())
    }
}
