//! Writing a shard's state without a second copy of it.
//!
//! Two passes over the values: the first for the payload's hash, which the header holds; the second converts a piece
//! at a time and sends it. Memory beside the state: a few parts.

use bytes::Bytes;
use object_store::{ObjectStoreExt, WriteMultipart};
use sha2::{Digest, Sha256};

use crate::{
    CheckpointStore, LedgerError, Result, ShardHeader,
    checkpoint_store::{location, object_error},
    container,
    object::Piece,
};

/// Parts that may be under way at once.
const PARTS_UNDER_WAY: usize = 2;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    /// Of the whole object.
    pub sha256: [u8; 32],
}

impl CheckpointStore {
    /// Writes one piece. It appears under its name when it is complete and on disk, or not at all. `object` must be
    /// [`crate::piece_object`] of the header's job and range.
    pub async fn write_shard(
        &self,
        object: &str,
        header: ShardHeader,
        state: &[f32],
        window: &[&[f32]],
    ) -> Result<Written> {
        check(object, &header, state, window)?;
        let values = Values { state, window, piece: (self.part_bytes / 8 / 4).max(1) };
        let payload_sha256 = values.hash().await;
        let first = container::encode(&header, payload_sha256)
            .map_err(|reason| LedgerError::Checkpoint { object: object.to_owned(), reason })?;
        self.make_folder(object).await?;
        let location = location(object)?;
        let upload =
            self.store.put_multipart(&location).await.map_err(|error| object_error(object, error))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, self.part_bytes);
        let sent = match send(&mut upload, first, &values).await {
            Ok(sent) => upload.finish().await.map(|_| sent),
            Err(error) => {
                // The error that stopped it says more than one from clearing up.
                let _ = upload.abort().await;
                Err(error)
            }
        };
        let written = sent.map_err(|error| object_error(object, error))?;
        self.make_private(object).await?;
        Ok(written)
    }
}

async fn send(
    upload: &mut WriteMultipart,
    first: Vec<u8>,
    values: &Values<'_>,
) -> object_store::Result<Written> {
    let mut whole = Sha256::new_with_prefix(&first);
    let mut bytes = first.len() as u64;
    upload.put(Bytes::from(first));
    for piece in values.pieces() {
        let mut converted = Vec::new();
        container::to_bytes(piece, &mut converted);
        whole.update(&converted);
        bytes += converted.len() as u64;
        upload.wait_for_capacity(PARTS_UNDER_WAY).await?;
        upload.put(Bytes::from(converted));
        tokio::task::yield_now().await;
    }
    Ok(Written { bytes, sha256: whole.finalize().into() })
}

/// The payload, a piece at a time.
struct Values<'a> {
    state: &'a [f32],
    window: &'a [&'a [f32]],
    /// f32 converted at once: small enough that other tasks of the thread don't wait long.
    piece: usize,
}

impl Values<'_> {
    fn pieces(&self) -> impl Iterator<Item = &[f32]> {
        let rows = self.window.iter().copied();
        std::iter::once(self.state).chain(rows).flat_map(|values| values.chunks(self.piece))
    }

    async fn hash(&self) -> [u8; 32] {
        let (mut hash, mut buffer) = (Sha256::new(), Vec::new());
        for piece in self.pieces() {
            container::to_bytes(piece, &mut buffer);
            hash.update(&buffer);
            tokio::task::yield_now().await;
        }
        hash.finalize().into()
    }
}

/// A header that tells of other lengths would make an object that can't be read.
fn check(object: &str, header: &ShardHeader, state: &[f32], window: &[&[f32]]) -> Result<()> {
    let refused = |reason: String| LedgerError::Checkpoint { object: object.to_owned(), reason };
    let name = Piece::parse(object)?;
    if name.job.as_str() != header.job || name.range != header.range {
        return Err(refused(format!("its header is of job {}, range {}", header.job, header.range)));
    }
    let shape = header.shape().map_err(refused)?;
    if state.len() != shape.state_len {
        return Err(refused(format!(
            "state has {} values; its header tells of {}",
            state.len(),
            shape.state_len
        )));
    }
    if window.len() != shape.rows {
        return Err(refused(format!("window has {} rows; its header tells of {}", window.len(), shape.rows)));
    }
    match window.iter().find(|row| row.len() != shape.row_len) {
        Some(row) => {
            Err(refused(format!("a window row has {} values; allowed: {}", row.len(), shape.row_len)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        future::Future,
        path::Path,
        pin::pin,
        task::{Context, Poll, Waker},
        time::Duration,
    };

    use proto::CoordinateRange;

    use super::*;

    fn header() -> ShardHeader {
        ShardHeader {
            job: "j".to_owned(),
            branch: 0,
            plan_digest: [1; 32],
            key_commitment: [2; 32],
            stream_version: 1,
            range: CoordinateRange { start: 0, end: 512 },
            next_row: 1,
            window_start: 0,
            block_state_len: 64,
            element: proto::ElementType::F32,
        }
    }

    /// Polls up to `polls` times, then drops the future wherever it is.
    async fn stopped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        for _ in 0..polls {
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(value) => return Some(value),
                Poll::Pending => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        None
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_write_that_stops_anywhere_leaves_the_whole_object_or_none() {
        let folder = tempfile::tempdir().unwrap();
        // Parts of 1 KiB, so that the object has several.
        let url = format!("file://{}", folder.path().display());
        let store = CheckpointStore::with_part_bytes(&url, 1024).unwrap();
        let (state, row, object) = (vec![1.5; 64], vec![2.5; 512], "j/1/0-512.shard");
        let file = folder.path().join(object);
        let whole = store.write_shard(object, header(), &state, &[&row]).await.unwrap();
        let mut stopped = 0;
        for polls in 0.. {
            let _ = fs::remove_file(&file);
            let written = stopped_after(polls, store.write_shard(object, header(), &state, &[&row])).await;
            // Work handed to another thread before the stop may still end.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let found = fs::metadata(&file).ok().map(|found| found.len());
            match (written, found) {
                (Some(written), found) => {
                    assert_eq!((written.unwrap(), found), (whole, Some(whole.bytes)));
                    break;
                }
                (None, Some(found)) => assert_eq!(found, whole.bytes, "after {polls} polls"),
                (None, None) => stopped += 1,
            }
        }
        assert!(stopped > 30, "{stopped}");
        assert_eq!(names(&folder.path().join("j/1")), ["0-512.shard"], "drafts were left");
        store.read_shard(object, &whole.sha256).await.unwrap();
    }
}
