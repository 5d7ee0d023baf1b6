//! The memory that the reader of an answer holds.

use std::sync::Arc;

use proto::CoordinateRange;

use super::SliceStream;
use crate::shard::readers::ReaderHold;

/// Bytes of a chunk for whose memory readers have no room any more: so few that any number of slow readers has little.
const UNCOUNTED_CHUNK_BYTES: usize = 64 << 10;

impl SliceStream {
    /// Holds a row of the window for its reader; `None` where readers hold all that they may, or it reads less than half of the
    /// row: then it is copied, a little at a time, and a slow reader does not keep the whole row in memory.
    pub(super) fn hold_row(&self, row: u64, read: CoordinateRange) -> Option<Arc<ReaderHold>> {
        let shard = &self.slice.shard;
        let is_small = 2 * read.len() < shard.grant().range.len();
        if is_small { None } else { shard.readers.row(row, self.most_rows()).map(Arc::new) }
    }

    /// Holds memory for `len` coordinates that are drawn again for the reader, and returns it with the number to draw. Where
    /// readers hold all that they may, that is few: what is drawn and can't be sent is drawn once more.
    pub(super) fn hold_replay(&self, len: u64) -> (Option<Arc<ReaderHold>>, u64) {
        let hold = self.slice.shard.readers.copy(4 * len, self.most_rows());
        let len = if hold.is_some() { len } else { len.min(UNCOUNTED_CHUNK_BYTES as u64 / 4) };
        (hold.map(Arc::new), len)
    }

    /// Holds the memory of the next chunk of a piece that is copied, and returns it with the bytes that the chunk may have.
    pub(super) fn hold_copy(&self) -> (Option<Arc<ReaderHold>>, usize) {
        let hold = self.slice.shard.readers.copy(self.chunk_bytes as u64, self.most_rows());
        let bytes =
            if hold.is_some() { self.chunk_bytes } else { self.chunk_bytes.min(UNCOUNTED_CHUNK_BYTES) };
        (hold.map(Arc::new), bytes)
    }

    fn most_rows(&self) -> u64 {
        self.leases.limits.reader_rows(self.slice.shard.grant().range.len())
    }
}
