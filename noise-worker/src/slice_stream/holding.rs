//! The memory that a reader holds, and the time that it has to take something.

use std::{sync::Arc, time::Duration};

use proto::ServiceError;

use super::{Piece, Slice, SliceStream};
use crate::shard::readers::ReaderHold;

/// Bytes of a chunk for whose memory readers have no room any more: so few that any number of slow readers has little.
const UNCOUNTED_CHUNK_BYTES: usize = 64 << 10;

/// Returns the error for a reader that takes nothing for so long.
pub fn reader_is_stalled(limit: Duration) -> ServiceError {
    ServiceError::ResourceExhausted {
        what: "the time in which a reader must take something (--reader-timeout of the worker)".to_owned(),
        limit: format!("{limit:?}; what is missing may be fetched again"),
    }
}

impl SliceStream {
    /// Holds the memory of a piece for its reader; `None` where readers hold all that they may, or the piece is small: then
    /// it is copied, a little at a time.
    pub(super) fn hold(&self, piece: &Piece<'_>) -> Option<Arc<ReaderHold>> {
        let Slice { shard, .. } = &self.slice;
        if piece.is_small() {
            return None;
        }
        let most = self.leases.limits.reader_rows(shard.grant().range.len());
        let hold = if piece.is_replayed {
            shard.readers.copy(4 * piece.source.values().len() as u64, most)
        } else {
            shard.readers.row(piece.row, most)
        };
        hold.map(Arc::new)
    }

    /// Holds the memory of the next chunk of a piece that is copied, and returns it with the bytes that the chunk may have.
    pub(super) fn hold_copy(&self) -> (Option<Arc<ReaderHold>>, usize) {
        let Slice { shard, .. } = &self.slice;
        let most = self.leases.limits.reader_rows(shard.grant().range.len());
        let hold = shard.readers.copy(self.chunk_bytes as u64, most);
        let bytes =
            if hold.is_some() { self.chunk_bytes } else { self.chunk_bytes.min(UNCOUNTED_CHUNK_BYTES) };
        (hold.map(Arc::new), bytes)
    }
}
