//! Reading a shard's state back, and refusing one of which a single bit differs.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::{
    CheckpointKey, CheckpointStore, LedgerError, Result, ShardCheckpoint, ShardHeader,
    checkpoint_store::{location, object_error},
    container::{self, Opened, Shape, TAG_BYTES},
    object::Piece,
    sealing::Segments,
};

/// Parts asked for at once.
const PARTS_UNDER_WAY: usize = 2;

impl CheckpointStore {
    /// Reads one piece and checks it: form, lengths, that it is the piece its name says, what `check` wants of its
    /// header (before the rest is read), the seal of every segment, and `expected`, the SHA-256 of the whole object.
    pub async fn read_shard(
        &self,
        object: &str,
        expected: &[u8; 32],
        key: &CheckpointKey,
        check: impl FnOnce(&ShardHeader) -> Result<(), String>,
    ) -> Result<ShardCheckpoint> {
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
        check(&opened.header).map_err(refused)?;
        let mut reading = Reading::new(&opened, &first, key).map_err(refused)?;
        let mut parts = self.parts(location, opened.payload_offset, size);
        while let Some(part) = parts.try_next().await.map_err(|error| object_error(object, error))? {
            // Opened beside the asynchronous threads; meanwhile the next part is read.
            let taken = tokio::task::spawn_blocking(move || reading.take(&part).map(|()| reading));
            reading = taken.await.map_err(|error| refused(error.to_string()))?.map_err(refused)?;
        }
        let (state, window) = reading.finish(expected).map_err(refused)?;
        Ok(ShardCheckpoint { header: opened.header, state, window })
    }

    /// The sealed payload in order.
    fn parts(
        &self,
        location: object_store::path::Path,
        start: u64,
        end: u64,
    ) -> stream::BoxStream<'static, object_store::Result<Bytes>> {
        let step = self.part_bytes;
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
    segments: Segments,
    /// The segment that is not whole yet; opened in place, so that it holds plain values for a moment.
    sealed: Zeroizing<Vec<u8>>,
    sealed_bytes: usize,
    whole: Sha256,
}

impl Reading {
    fn new(opened: &Opened, first: &[u8], key: &CheckpointKey) -> Result<Self, String> {
        let head = first.get(..opened.payload_offset as usize).ok_or("its header is cut off")?;
        let sealed_bytes = opened.seal.segment_bytes as usize + TAG_BYTES;
        let count = opened.seal.segments(opened.shape.payload_bytes);
        Ok(Self {
            shape: opened.shape,
            state: reserve(opened.shape.state_len)?,
            window: Vec::new(),
            segments: Segments::new(key, &opened.seal.salt, head.to_vec(), count)?,
            sealed: Zeroizing::new(Vec::with_capacity(sealed_bytes)),
            sealed_bytes,
            whole: Sha256::new_with_prefix(head),
        })
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        self.whole.update(bytes);
        while !bytes.is_empty() {
            let missing = self.sealed_bytes - self.sealed.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.sealed.extend_from_slice(now);
            if self.sealed.len() == self.sealed_bytes {
                self.open_segment()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn open_segment(&mut self) -> Result<(), String> {
        let mut sealed = std::mem::take(&mut self.sealed);
        let plain = self.segments.open(&mut sealed)?;
        self.take_plain(plain)?;
        sealed.clear();
        self.sealed = sealed;
        Ok(())
    }

    fn take_plain(&mut self, bytes: &[u8]) -> Result<(), String> {
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

    fn finish(mut self, expected: &[u8; 32]) -> Result<(Vec<f32>, Vec<Vec<f32>>), String> {
        // The last segment is whole when the object ends; one of full length was opened when it came.
        if !self.segments.is_done() {
            self.open_segment()?;
        }
        let whole_rows = self.window.iter().all(|row| row.len() == self.shape.row_len);
        let is_whole = self.segments.is_done() && self.sealed.is_empty() && whole_rows;
        if !is_whole || self.state.len() != self.shape.state_len || self.window.len() != self.shape.rows {
            return Err("it shrank while it was read".to_owned());
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
