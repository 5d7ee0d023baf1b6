//! Slices of rows on the wire: little-endian f32 with a checksum.

use bytes::Bytes;

use crate::{RowRange, ServiceError, pb};

/// Large enough to amortise a message, small enough not to halve throughput (64 MiB messages do).
pub const DEFAULT_CHUNK_BYTES: usize = 1024 * 1024;
pub const MAX_CHUNK_BYTES: usize = 4 * 1024 * 1024;

pub fn chunk_of(row: u64, start: u64, data: Bytes) -> pb::Chunk {
    let crc32c = crc32c::crc32c(&data);
    pb::Chunk { row, start, data, crc32c }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("chunk of row {row} at coordinate {start}: checksum {actual:#010x}, expected {expected:#010x}")]
    Checksum { row: u64, start: u64, expected: u32, actual: u32 },
    #[error("chunk of row {row} at coordinate {start}: {bytes} bytes are not whole f32 values")]
    Length { row: u64, start: u64, bytes: usize },
    #[error("chunk of row {row}, which was not asked for (rows {rows})")]
    Row { row: u64, rows: RowRange },
}

impl From<ChunkError> for ServiceError {
    fn from(error: ChunkError) -> Self {
        ServiceError::Unavailable { what: error.to_string() }
    }
}

pub fn check_chunk(chunk: &pb::Chunk, rows: RowRange) -> Result<(), ChunkError> {
    let &pb::Chunk { row, start, ref data, crc32c: expected } = chunk;
    if !rows.as_range().contains(&row) {
        return Err(ChunkError::Row { row, rows });
    }
    if !data.len().is_multiple_of(4) {
        return Err(ChunkError::Length { row, start, bytes: data.len() });
    }
    let actual = crc32c::crc32c(data);
    if actual != expected {
        return Err(ChunkError::Checksum { row, start, expected, actual });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_noticed() {
        let rows = RowRange { start: 0, end: 9 };
        let good = chunk_of(3, 0, Bytes::from_static(&[1, 2, 3, 4]));
        assert_eq!(check_chunk(&good, rows), Ok(()));
        let bad = pb::Chunk { data: Bytes::from_static(&[1, 2, 3, 5]), ..good.clone() };
        assert!(matches!(check_chunk(&bad, rows), Err(ChunkError::Checksum { .. })));
        assert!(matches!(check_chunk(&pb::Chunk { row: 9, ..good }, rows), Err(ChunkError::Row { .. })));
    }
}
