//! Slices of rows on the wire: little-endian values with a checksum.

use bytes::Bytes;

use crate::{CoordinateRange, ElementType, RowRange, ServiceError, pb};

/// The usual size of a chunk's data: large enough to amortise a message, small enough not to halve throughput
/// (docs/serving.md has the sweep).
pub const DEFAULT_CHUNK_BYTES: usize = 1024 * 1024;
/// The smallest size that a client may choose: streams of tiny messages make some HTTP/2 peers close the connection.
pub const MIN_CHUNK_BYTES: usize = 16 * 1024;
/// The largest size that a client may choose.
pub const MAX_CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Builds the message for values of one row from coordinate `start` on, with their checksum.
pub fn chunk_of(row: u64, start: u64, element: ElementType, data: Bytes) -> pb::Chunk {
    let crc32c = crc32c::crc32c(&data);
    pb::Chunk { row, start, data, crc32c, element_type: element.into(), placed: 0 }
}

/// A chunk that is damaged, or was not requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // every variant has a doc; its fields are explained by its message
pub enum ChunkError {
    /// The data does not have the checksum that was sent with it.
    #[error("chunk of row {row} at coordinate {start}: checksum {actual:#010x}, expected {expected:#010x}")]
    Checksum { row: u64, start: u64, expected: u32, actual: u32 },
    /// The data ends within a value.
    #[error("chunk of row {row} at coordinate {start}: {bytes} bytes are not whole {element} values")]
    Length { row: u64, start: u64, bytes: usize, element: ElementType },
    /// The row was not requested.
    #[error("chunk of row {row}, which was not requested (rows {rows})")]
    Row { row: u64, rows: RowRange },
    /// The values have another type than was requested.
    #[error("chunk of {actual} values, {expected} requested: the worker can't serve that element type")]
    Element { expected: ElementType, actual: ElementType },
    /// The chunk is empty, or its coordinates overflow.
    #[error("chunk of row {row} at coordinate {start} covers no or impossible coordinates")]
    Range { row: u64, start: u64 },
}

impl From<ChunkError> for ServiceError {
    fn from(error: ChunkError) -> Self {
        match error {
            // An older worker: the same request again changes nothing.
            ChunkError::Element { .. } => ServiceError::internal(error),
            _ => ServiceError::Unavailable { what: error.to_string() },
        }
    }
}

/// A chunk's fields without its data: what can be checked before the bytes are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// The row.
    pub row: u64,
    /// The first coordinate.
    pub start: u64,
    /// CRC-32C of the data.
    pub crc32c: u32,
    /// The type of the values.
    pub element: ElementType,
    /// Coordinates written to a shared-memory region; 0 where the data comes with the chunk.
    pub placed: u64,
    /// Bytes of data that come with the chunk.
    pub data_len: usize,
}

impl ChunkHead {
    /// Reads the fields of a message. Error: an unknown element type.
    pub fn of(chunk: &pb::Chunk) -> Result<Self, ServiceError> {
        Ok(Self {
            row: chunk.row,
            start: chunk.start,
            crc32c: chunk.crc32c,
            element: chunk.element_type.try_into()?,
            placed: chunk.placed,
            data_len: chunk.data.len(),
        })
    }

    /// Returns the coordinates that the chunk covers. Error: a row or an element type that was not requested, or a
    /// broken length.
    pub fn check(&self, rows: RowRange, element: ElementType) -> Result<CoordinateRange, ChunkError> {
        let &Self { row, start, data_len: bytes, .. } = self;
        if !rows.as_range().contains(&row) {
            return Err(ChunkError::Row { row, rows });
        }
        if self.element != element {
            return Err(ChunkError::Element { expected: element, actual: self.element });
        }
        if !bytes.is_multiple_of(element.bytes()) {
            return Err(ChunkError::Length { row, start, bytes, element });
        }
        let values = (bytes / element.bytes()) as u64;
        let covered = if values == 0 { self.placed } else { values };
        let range = start.checked_add(covered).and_then(|end| CoordinateRange::new(start, end).ok());
        range.ok_or(ChunkError::Range { row, start })
    }

    /// Compares the checksum of the data received with the one that was sent.
    pub fn check_sum(&self, actual: u32) -> Result<(), ChunkError> {
        let &Self { row, start, crc32c: expected, .. } = self;
        if actual == expected { Ok(()) } else { Err(ChunkError::Checksum { row, start, expected, actual }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: RowRange = RowRange { start: 0, end: 9 };

    #[test]
    fn heads_are_checked() {
        let head = ChunkHead::of(&chunk_of(3, 8, ElementType::F32, Bytes::from_static(&[1; 8]))).unwrap();
        assert_eq!(head.check(ROWS, ElementType::F32), Ok(CoordinateRange { start: 8, end: 10 }));
        assert!(matches!(head.check(ROWS, ElementType::Bf16), Err(ChunkError::Element { .. })));
        let bad = |head: ChunkHead| head.check(ROWS, ElementType::F32).unwrap_err();
        assert!(matches!(bad(ChunkHead { row: 9, ..head }), ChunkError::Row { .. }));
        assert!(matches!(bad(ChunkHead { data_len: 6, ..head }), ChunkError::Length { .. }));
        assert!(matches!(bad(ChunkHead { data_len: 0, ..head }), ChunkError::Range { .. }));
        assert!(matches!(bad(ChunkHead { start: u64::MAX, ..head }), ChunkError::Range { .. }));
        let placed = ChunkHead { data_len: 0, placed: 5, ..head };
        assert_eq!(placed.check(ROWS, ElementType::F32), Ok(CoordinateRange { start: 8, end: 13 }));
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let head =
            ChunkHead::of(&chunk_of(3, 0, ElementType::F32, Bytes::from_static(&[1, 2, 3, 4]))).unwrap();
        assert_eq!(head.check_sum(crc32c::crc32c(&[1, 2, 3, 4])), Ok(()));
        assert!(matches!(head.check_sum(crc32c::crc32c(&[1, 2, 3, 5])), Err(ChunkError::Checksum { .. })));
    }
}
