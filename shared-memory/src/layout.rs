//! The layout of a region: where each row lies.

use std::{fmt, ops::Range};

use proto::{CoordinateRange, ElementType, Result, ServiceError};

/// Rows begin at multiples of this many bytes: the size of a cache line, and of the widest vector register.
pub const ALIGN: u64 = 64;

/// Slots of a region made here begin at multiples of this many bytes: a page.
const PAGE_BYTES: u64 = 4096;

/// The name of a region to the workers it is lent to. It is random, so that no process can guess the region of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionId(pub [u8; 16]);

impl RegionId {
    /// Returns a fresh name.
    pub fn random() -> Result<Self> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(ServiceError::internal)?;
        Ok(Self(id))
    }
}

/// A process that knows an id can have rows written there, so logs get a part of it only.
impl fmt::Debug for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionId({}…)", hex::encode(&self.0[..3]))
    }
}

/// The layout of a region: `slots` rows of the coordinates `range`; slot s begins at byte `offset + s · stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The region's name.
    pub id: RegionId,
    /// The coordinates of each row.
    pub range: CoordinateRange,
    /// The number of rows.
    pub slots: u32,
    /// The type of the values.
    pub element: ElementType,
    /// The first byte of slot 0.
    pub offset: u64,
    /// Bytes from the start of one slot to the next.
    pub stride: u64,
}

impl Layout {
    /// Returns slots one after the other from byte 0, each at a page boundary.
    pub fn new(id: RegionId, range: CoordinateRange, slots: u32, element: ElementType) -> Result<Self> {
        let stride = range
            .len()
            .checked_mul(element.bytes() as u64)
            .and_then(|row| row.checked_next_multiple_of(PAGE_BYTES));
        let stride = stride.ok_or_else(|| too_large(range))?;
        let layout = Self { id, range, slots, element, offset: 0, stride };
        layout.check()?;
        Ok(layout)
    }

    /// Returns the bytes of one row.
    pub fn row_bytes(&self) -> u64 {
        self.range.len().saturating_mul(self.element.bytes() as u64)
    }

    /// Refuses slots that overlap or are not aligned, and sizes beyond what can be addressed.
    pub fn check(&self) -> Result<()> {
        let Self { range, slots, offset, stride, .. } = *self;
        if slots == 0 {
            return Err(ServiceError::invalid("slots", slots, "1 or more"));
        }
        for (field, value) in [("data offset", offset), ("slot stride", stride)] {
            if !value.is_multiple_of(ALIGN) {
                return Err(ServiceError::invalid(field, value, format!("a multiple of {ALIGN}")));
            }
        }
        if stride < self.row_bytes() {
            let allowed = format!("at least the {} bytes of one row", self.row_bytes());
            return Err(ServiceError::invalid("slot stride", stride, allowed));
        }
        self.checked_size().map(|_| ()).ok_or_else(|| too_large(range))
    }

    fn checked_size(&self) -> Option<u64> {
        let row = self.range.len().checked_mul(self.element.bytes() as u64)?;
        let last = u64::from(self.slots - 1).checked_mul(self.stride)?;
        let size = self.offset.checked_add(last)?.checked_add(row)?;
        isize::try_from(size).ok().map(|_| size)
    }

    /// Returns the bytes that the memory must have.
    pub fn size(&self) -> u64 {
        self.checked_size().unwrap_or(u64::MAX)
    }

    /// Returns the bytes of these coordinates in a slot; an error where they lie outside of the region.
    pub fn place(&self, slot: u32, range: CoordinateRange) -> Result<Range<usize>> {
        if slot >= self.slots {
            return Err(ServiceError::invalid("slot", slot, format!("0..{}", self.slots)));
        }
        if !self.range.contains(&range) {
            return Err(ServiceError::invalid("range", range, format!("within the region's {}", self.range)));
        }
        let width = self.element.bytes() as u64;
        let row = self.offset + u64::from(slot) * self.stride;
        let start = range.start - self.range.start;
        let end = range.end - self.range.start;
        Ok((row + start * width) as usize..(row + end * width) as usize)
    }
}

fn too_large(range: CoordinateRange) -> ServiceError {
    ServiceError::invalid("region", range, "a size that this machine can address")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(slots: u32) -> Layout {
        let range = CoordinateRange { start: 100, end: 1200 };
        Layout::new(RegionId([7; 16]), range, slots, ElementType::F32).unwrap()
    }

    #[test]
    fn coordinates_have_their_place() {
        let layout = layout(3);
        assert_eq!((layout.stride, layout.size()), (8192, 2 * 8192 + 4400));
        let place = |slot, start, end| layout.place(slot, CoordinateRange { start, end });
        assert_eq!(place(0, 100, 101).unwrap(), 0..4);
        assert_eq!(place(2, 1199, 1200).unwrap(), 16384 + 4396..16384 + 4400);
        for (slot, start, end) in [(3, 100, 101), (0, 99, 101), (0, 1199, 1201)] {
            assert!(place(slot, start, end).is_err());
        }
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let good = layout(2);
        let bad = [
            Layout { slots: 0, ..good },
            Layout { offset: 4, ..good },
            Layout { stride: 4400, ..good },
            Layout { stride: 64, ..good },
            Layout { offset: u64::MAX - 63, ..good },
            Layout { slots: u32::MAX, stride: 1 << 60, ..good },
            Layout { range: CoordinateRange { start: 0, end: u64::MAX }, stride: u64::MAX - 63, ..good },
        ];
        for layout in bad {
            assert!(layout.check().is_err(), "{layout:?}");
        }
        assert!(
            Layout::new(good.id, CoordinateRange { start: 0, end: u64::MAX }, 1, ElementType::F32).is_err()
        );
    }
}
