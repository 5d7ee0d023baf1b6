//! The regions of shared memory that are lent to this worker, by id, within limits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use node::process::cpu_pool::CpuPool;
use proto::{CoordinateRange, ElementType, Result, RowRange, ServiceError, model::Target};
use shared_memory::{BorrowedRegion, Layout, RegionId};

/// The maximum number of regions: more than the processes of one host lend at once.
const MAX_REGIONS: usize = 256;

#[derive(Default)]
struct LentRegions {
    /// `None` while it is being mapped.
    regions: HashMap<RegionId, Option<Arc<BorrowedRegion>>>,
    bytes: u64,
}

pub struct Regions {
    lent: Mutex<LentRegions>,
    max_bytes: u64,
    /// Separate from the pool that generates rows: a row that is ready must not wait behind them.
    pub pool: CpuPool,
}

impl std::fmt::Debug for Regions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Regions({} lent)", self.lent().regions.len())
    }
}

/// A region, and the slot for the first row of a request.
pub struct Destination {
    pub region: Arc<BorrowedRegion>,
    slot: u32,
    first_row: u64,
}

impl Destination {
    /// Returns the byte offset of a range of a row.
    pub fn offset(&self, row: u64, range: CoordinateRange) -> Result<usize> {
        let slot = self.slot + (row - self.first_row) as u32;
        Ok(self.region.layout().place(slot, range)?.start)
    }
}

impl Regions {
    pub fn new(pool: CpuPool, max_bytes: u64) -> Arc<Self> {
        Arc::new(Self { lent: Mutex::default(), max_bytes, pool })
    }

    fn lent(&self) -> MutexGuard<'_, LentRegions> {
        self.lent.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Reserves room before anything is mapped.
    pub fn reserve(&self, layout: &Layout) -> Result<()> {
        let mut lent = self.lent();
        if lent.regions.contains_key(&layout.id) {
            return Err(ServiceError::invalid(
                "region id",
                format!("{:?}, lent already", layout.id),
                "a new one",
            ));
        }
        let exhausted = |what: &str, limit: u64| ServiceError::ResourceExhausted {
            what: what.into(),
            limit: limit.to_string(),
        };
        if lent.regions.len() >= MAX_REGIONS {
            return Err(exhausted("room for lent regions", MAX_REGIONS as u64));
        }
        let bytes = lent.bytes.checked_add(layout.size()).filter(|bytes| *bytes <= self.max_bytes);
        lent.bytes = bytes.ok_or_else(|| exhausted("bytes of lent regions (--shm-bytes)", self.max_bytes))?;
        lent.regions.insert(layout.id, None);
        Ok(())
    }

    /// Adds a region after [`Regions::reserve`].
    pub fn add(&self, region: BorrowedRegion) -> Arc<BorrowedRegion> {
        let region = Arc::new(region);
        self.lent().regions.insert(region.layout().id, Some(region.clone()));
        region
    }

    pub fn release(&self, id: &RegionId, bytes: u64) {
        let mut lent = self.lent();
        if lent.regions.remove(id).is_some() {
            lent.bytes = lent.bytes.saturating_sub(bytes);
        }
    }

    /// Returns a region to its lender. It is unmapped as soon as the last copy into it has ended.
    pub fn give_back(&self, id: &RegionId) {
        let size = self.lent().regions.get(id).and_then(Option::as_ref).map(|region| region.layout().size());
        self.release(id, size.unwrap_or(0));
    }

    /// Returns the destination that a request names. Fails where not all of the request fits there.
    pub fn destination(
        &self,
        target: Target,
        rows: RowRange,
        range: CoordinateRange,
        element: ElementType,
    ) -> Result<Destination> {
        let found = self.lent().regions.get(&RegionId(target.region)).cloned().flatten();
        let region = found.ok_or_else(|| ServiceError::NotFound {
            what: "region".into(),
            name: format!("{:?}", RegionId(target.region)),
        })?;
        let layout = region.layout();
        if element != layout.element {
            return Err(ServiceError::invalid(
                "element type",
                element,
                format!("the region's {}", layout.element),
            ));
        }
        let slots = u64::from(target.slot)..u64::from(target.slot) + rows.len();
        if slots.end > u64::from(layout.slots) {
            let given = format!("{}..{}", slots.start, slots.end);
            return Err(ServiceError::invalid(
                "slots",
                given,
                format!("within the region's 0..{}", layout.slots),
            ));
        }
        layout.place(target.slot, range)?;
        Ok(Destination { region, slot: target.slot, first_row: rows.start })
    }
}
