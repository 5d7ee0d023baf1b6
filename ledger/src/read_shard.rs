//! Reading a shard's state back, and refusing one of which a single bit differs.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use sha2::{Digest, Sha256};

use crate::{
    CheckpointStore, LedgerError, Result, ShardCheckpoint,
    checkpoint_store::{location, object_error},
    container::{self, Opened, Shape},
    object::Piece,
};

/// Parts asked for at once.
const PARTS_UNDER_WAY: usize = 2;

impl CheckpointStore {
    /// Reads one piece and checks it: form, lengths, the payload's hash in the header, `expected` of the whole object,
    /// and that it is the piece its name says.
    pub async fn read_shard(&self, object: &str, expected: &[u8; 32]) -> Result<ShardCheckpoint> {
        let refused = |reason: String| LedgerError::Checkpoint { object: object.to_owned(), reason };
        let name = Piece::parse(object)?;
        let location = location(object)?;
        let size = self.store.head(&location).await.map_err(|error| object_error(object, error))?.size;
        if size == 0 {
            return Err(refused("it is empty".to_owned()));
        }
        let first = size.min((container::PREFIX_BYTES + container::MAX_HEADER_BYTES) as u64);
        let first =
            self.store.get_range(&location, 0..first).await.map_err(|error| object_error(object, error))?;
        let opened = container::decode(&first, size).map_err(refused)?;
        if name.job.as_str() != opened.header.job || name.range != opened.header.range {
            return Err(refused(format!(
                "it holds job {}, range {}",
                opened.header.job, opened.header.range
            )));
        }
        let mut reading = Reading::new(&opened, &first).map_err(refused)?;
        let mut parts = self.parts(location, opened.payload_offset, size);
        while let Some(part) = parts.try_next().await.map_err(|error| object_error(object, error))? {
            for bytes in part.chunks(self.piece_bytes()) {
                reading.take(bytes).map_err(refused)?;
                tokio::task::yield_now().await;
            }
        }
        let (state, window) = reading.finish(&opened, expected).map_err(refused)?;
        Ok(ShardCheckpoint { header: opened.header, state, window })
    }

    /// Whole f32, hashed and converted at once.
    fn piece_bytes(&self) -> usize {
        (self.part_bytes / 8 / 4).max(1) * 4
    }

    /// The payload in order, each part of whole f32.
    fn parts(
        &self,
        location: object_store::path::Path,
        start: u64,
        end: u64,
    ) -> stream::BoxStream<'static, object_store::Result<Bytes>> {
        let step = (self.part_bytes / 4 * 4).max(4);
        let store = Arc::clone(&self.store);
        stream::iter((start..end).step_by(step))
            .map(move |from| {
                let (store, location) = (Arc::clone(&store), location.clone());
                async move { store.get_range(&location, from..(from + step as u64).min(end)).await }
            })
            .buffered(PARTS_UNDER_WAY)
            .boxed()
    }
}

/// State and window as they come in.
struct Reading {
    shape: Shape,
    state: Vec<f32>,
    window: Vec<Vec<f32>>,
    payload: Sha256,
    whole: Sha256,
}

impl Reading {
    fn new(opened: &Opened, first: &[u8]) -> Result<Self, String> {
        let header = first.get(..opened.payload_offset as usize).ok_or("its header is cut off")?;
        Ok(Self {
            shape: opened.shape,
            state: reserve(opened.shape.state_len)?,
            window: Vec::new(),
            payload: Sha256::new(),
            whole: Sha256::new_with_prefix(header),
        })
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.payload.update(bytes);
        self.whole.update(bytes);
        let in_state = bytes.len().min((self.shape.state_len - self.state.len()) * 4);
        let (state, mut rest) = bytes.split_at(in_state);
        container::from_bytes(state, &mut self.state);
        while !rest.is_empty() {
            let missing = self.window.last().map_or(0, |row| self.shape.row_len - row.len());
            if missing == 0 {
                if self.window.len() == self.shape.rows {
                    return Err("it grew while it was read".to_owned());
                }
                self.window.push(reserve(self.shape.row_len)?);
                continue;
            }
            let (part, after) = rest.split_at(rest.len().min(missing * 4));
            if let Some(row) = self.window.last_mut() {
                container::from_bytes(part, row);
            }
            rest = after;
        }
        Ok(())
    }

    fn finish(self, opened: &Opened, expected: &[u8; 32]) -> Result<(Vec<f32>, Vec<Vec<f32>>), String> {
        let whole_rows = self.window.iter().all(|row| row.len() == self.shape.row_len);
        if self.state.len() != self.shape.state_len || self.window.len() != self.shape.rows || !whole_rows {
            return Err("it shrank while it was read".to_owned());
        }
        if <[u8; 32]>::from(self.payload.finalize()) != opened.payload_sha256 {
            return Err("its payload's SHA-256 is not the one in its header".to_owned());
        }
        let whole: [u8; 32] = self.whole.finalize().into();
        if whole != *expected {
            return Err(format!("its SHA-256 is {}, expected {}", hex::encode(whole), hex::encode(expected)));
        }
        Ok((self.state, self.window))
    }
}

/// Room for `len` values; memory that isn't there is an error, no abort.
fn reserve(len: usize) -> Result<Vec<f32>, String> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| format!("there is no memory for its {len} values"))?;
    Ok(values)
}
