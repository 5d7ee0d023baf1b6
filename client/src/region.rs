//! Regions of shared memory that this process lends to the workers of its host.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use node::net::local_socket::host_id;
use proto::model::{LocalAccess, Target};
use proto::{CoordinateRange, ElementType, ReceivedChunk, Result, RowRange, ServiceError};
use shared_memory::{Layout, Loan};
use tracing::warn;

/// Rows of a range in memory that workers write to. What each slot holds is the caller's to remember.
#[derive(Debug)]
pub struct Region {
    memory: shared_memory::Region,
    loans: Arc<Loans>,
}

impl Region {
    /// `slots` rows of `range`, zeros. Workers are lent it when they are first asked.
    pub fn create(range: CoordinateRange, slots: u32, element: ElementType) -> Result<Self> {
        Self::lending(shared_memory::Region::create(range, slots, element)?)
    }

    fn lending(memory: shared_memory::Region) -> Result<Self> {
        let loans = Arc::new(Loans {
            layout: *memory.layout(),
            file: Arc::new(memory.file()?),
            host: host_id(),
            open: tokio::sync::Mutex::default(),
            unanswered: AtomicUsize::new(0),
        });
        Ok(Self { memory, loans })
    }

    pub fn layout(&self) -> &Layout {
        self.memory.layout()
    }

    /// An f32 row.
    pub fn row(&self, slot: u32) -> Result<&[f32]> {
        self.memory.row(slot)
    }

    /// A bf16 row: the upper halves of f32 values.
    pub fn row_bf16(&self, slot: u32) -> Result<&[u16]> {
        self.memory.row_bf16(slot)
    }

    pub fn row_bytes_mut(&mut self, slot: u32) -> Result<&mut [u8]> {
        self.memory.row_bytes_mut(slot)
    }

    /// For a fetch into the slots from `slot` on. A worker that was asked to write and has not answered may still
    /// write one day: memory that it holds is left to it, and the rows move to new memory.
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
        if self.loans.unanswered.load(Ordering::Acquire) > 0 {
            warn!("a worker left a request unanswered; the region moves to new memory");
            *self = Self::lending(self.memory.replaced()?)?;
        }
        Ok(Placement { loans: self.loans.clone(), slot, first_row: rows.start })
    }

    /// Writes a chunk that came as data.
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

/// Where a fetch wants its rows: `slot` is the slot of `first_row`.
#[derive(Clone, Debug)]
pub struct Placement {
    loans: Arc<Loans>,
    slot: u32,
    first_row: u64,
}

impl Placement {
    fn slot_of(&self, row: u64) -> u32 {
        self.slot + (row - self.first_row) as u32
    }

    /// What to ask the worker for, once it has the region; `None` where it can't have it and sends data instead.
    pub(crate) async fn target(
        &self,
        local: Option<&LocalAccess>,
        first_row: u64,
    ) -> Option<(Target, Pending)> {
        let path = self.loans.lending_path(local)?;
        match self.loans.lend(path).await {
            Ok(()) => {
                let target = Target { region: self.loans.layout.id.0, slot: self.slot_of(first_row) };
                Some((target, Pending::new(self.loans.clone())))
            }
            Err(error) => {
                warn!(%error, "a worker of this host can't be lent the region; it sends its rows instead");
                None
            }
        }
    }

    /// The worker does not know the region: lend it anew next time.
    pub(crate) async fn forget(&self, local: Option<&LocalAccess>) {
        if let Some(path) = self.loans.lending_path(local) {
            self.loans.open.lock().await.remove(path);
        }
    }
}

/// A request to write that has not been answered. Counts until [`Pending::answered`]; dropped without, for ever.
pub(crate) struct Pending(Arc<Loans>);

impl Pending {
    fn new(loans: Arc<Loans>) -> Self {
        loans.unanswered.fetch_add(1, Ordering::AcqRel);
        Self(loans)
    }

    pub fn answered(self) {
        self.0.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Debug)]
struct Loans {
    layout: Layout,
    file: Arc<OwnedFd>,
    host: String,
    /// By lending socket.
    open: tokio::sync::Mutex<HashMap<String, Loan>>,
    unanswered: AtomicUsize,
}

impl Loans {
    fn lending_path<'a>(&self, local: Option<&'a LocalAccess>) -> Option<&'a str> {
        let local = local.filter(|local| !local.host.is_empty() && local.host == self.host)?;
        local.lending.as_deref()
    }

    async fn lend(&self, path: &str) -> Result<()> {
        let mut open = self.open.lock().await;
        if open.get(path).is_some_and(Loan::is_open) {
            return Ok(());
        }
        let to = path.to_owned();
        let layout = self.layout;
        let file = self.file.clone();
        let lent = tokio::task::spawn_blocking(move || Loan::open(&to, &layout, &file)).await;
        open.insert(path.to_owned(), lent.map_err(ServiceError::internal)??);
        Ok(())
    }
}
