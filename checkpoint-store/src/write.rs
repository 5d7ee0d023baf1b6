//! Writing a shard's state in one pass: a part is converted, sealed and hashed while the one before is stored.
//!
//! Memory beside the values: a few parts.

use bytes::Bytes;
use futures::FutureExt;
use object_store::{ObjectStoreExt, WriteMultipart};
use proto::PieceName;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use crate::{
    CheckpointError, CheckpointKey, CheckpointStore, Result, ShardHeader,
    object_fail_point::object_fail_point,
    payload::{ShardValues, ValueCursor},
    sealing::{self, Segments},
    shard_file::{self, Seal, TAG_BYTES},
    store::{location, object_error},
};

/// Parts whose upload may be in progress together.
const PARTS_UNDER_WAY: usize = 2;

/// The size and digest of a written piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenShard {
    /// The object's length.
    pub bytes: u64,
    /// SHA-256 of the whole object, as it is stored.
    pub sha256: [u8; 32],
}

impl CheckpointStore {
    /// Seals and writes one piece. It appears under its name when it is complete and on disk, or not at all. `object`
    /// must be [`proto::piece_object`] of the header's job and range.
    pub async fn write_shard(
        &self,
        object: &str,
        header: ShardHeader,
        key: &CheckpointKey,
        values: impl ShardValues,
    ) -> Result<WrittenShard> {
        let refused = |reason: String| CheckpointError::Unusable { object: object.to_owned(), reason };
        let failed = |reason: String| CheckpointError::Store { object: object.to_owned(), reason };
        let shape = check(object, &header, &values)?;
        let seal = Seal { segment_bytes: self.segment_bytes, salt: sealing::new_salt().map_err(failed)? };
        let first = shard_file::encode(&header, &seal).map_err(refused)?;
        let count = seal.segments(shape.payload_bytes);
        let segments = Segments::new(key, &seal.salt, first.clone(), count).map_err(refused)?;

        object_fail_point!("checkpoint::piece::begin", object);
        self.make_folder(object).await?;
        let location = location(object)?;
        let store = self.store.clone();
        let part_bytes = self.part_bytes;
        // In its own task, which continues where this future is dropped: else an upload that begins meanwhile would be
        // lost.
        let begun = async move {
            let upload = store.put_multipart(&location).await?;
            Ok(Upload(Some(WriteMultipart::new_with_chunk_size(upload, part_bytes))))
        };
        let begun = tokio::spawn(begun.boxed()).await.map_err(|error| failed(error.to_string()))?;
        let mut upload = begun.map_err(|error| object_error(object, error))?;
        let segment_bytes = seal.segment_bytes as usize;
        let cursor = ValueCursor::new(values);
        let sealing =
            ObjectSealer { segments, cursor, segment_bytes, part_bytes, whole: Sha256::new(), bytes: 0 };
        let sent = async {
            let written = upload.send(sealing, first, object).await?;
            upload.finish(object).await.map(|()| written)
        };
        let sent = sent.await;
        if sent.is_err() {
            upload.abort().await;
        }
        let written = sent?;
        object_fail_point!("checkpoint::piece::end", object);
        self.make_private(object).await?;
        Ok(written)
    }
}

/// An upload that leaves nothing behind where it stops before its end, whatever the reason.
struct Upload(Option<WriteMultipart>);

impl Upload {
    /// Sends the payload after the bytes in `first`.
    async fn send<V: ShardValues>(
        &mut self,
        mut sealing: ObjectSealer<V>,
        first: Vec<u8>,
        object: &str,
    ) -> Result<WrittenShard> {
        let failed = |reason: String| CheckpointError::Store { object: object.to_owned(), reason };
        let mut part = first;
        loop {
            // On a blocking thread; parts before it are stored meanwhile.
            let sealed =
                tokio::task::spawn_blocking(move || sealing.fill(&mut part).map(|()| (sealing, part)));
            let sealed = sealed.await.map_err(|error| failed(error.to_string()))?;
            (sealing, part) = sealed.map_err(failed)?;
            object_fail_point!("checkpoint::piece::part", object);
            if let Some(upload) = &mut self.0 {
                let room = upload.wait_for_capacity(PARTS_UNDER_WAY).await;
                room.map_err(|error| object_error(object, error))?;
                upload.put(Bytes::from(std::mem::take(&mut part)));
            }
            if sealing.segments.is_done() {
                return Ok(WrittenShard { bytes: sealing.bytes, sha256: sealing.whole.finalize().into() });
            }
        }
    }

    /// Completes the object, in a task that continues where this future is dropped: nothing else could finish or abort
    /// a half-completed upload. The store clears up where that fails.
    async fn finish(&mut self, object: &str) -> Result<()> {
        object_fail_point!("checkpoint::piece::finish", object);
        let Some(upload) = self.0.take() else { return Ok(()) };
        let done = tokio::spawn(upload.finish().boxed()).await;
        let lost = |reason| CheckpointError::Store { object: object.to_owned(), reason };
        let done = done.map_err(|error| lost(error.to_string()))?;
        done.map(|_| ()).map_err(|error| object_error(object, error))
    }

    /// Aborts the upload. An error is ignored: the one that stopped the upload is more useful.
    async fn abort(&mut self) {
        if let Some(upload) = self.0.take() {
            let _ = upload.abort().await;
        }
    }
}

impl Drop for Upload {
    /// Aborts the upload of a writer that was dropped before its end: parts in a bucket would stay and cost money.
    fn drop(&mut self) {
        if let (Some(upload), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(upload.abort().boxed());
        }
    }
}

/// Produces the object's bytes, part by part.
struct ObjectSealer<V> {
    segments: Segments,
    cursor: ValueCursor<V>,
    segment_bytes: usize,
    part_bytes: usize,
    whole: Sha256,
    bytes: u64,
}

impl<V: ShardValues> ObjectSealer<V> {
    /// Appends sealed segments until the part is as long as parts are, or nothing is left.
    fn fill(&mut self, part: &mut Vec<u8>) -> Result<(), String> {
        part.reserve(self.part_bytes + self.segment_bytes + TAG_BYTES);
        while !self.segments.is_done() && part.len() < self.part_bytes {
            let start = part.len();
            self.cursor.take(self.segment_bytes / 4, part);
            self.segments.seal(part, start)?;
        }
        self.whole.update(&part);
        self.bytes += part.len() as u64;
        Ok(())
    }
}

/// Checks name and values against the header: with other lengths the object could not be read.
fn check(object: &str, header: &ShardHeader, values: &impl ShardValues) -> Result<shard_file::Shape> {
    let refused = |reason: String| CheckpointError::Unusable { object: object.to_owned(), reason };
    let name = PieceName::parse(object)?;
    if name.job.as_str() != header.job || name.range != header.range {
        return Err(refused(format!("its header is of job {}, range {}", header.job, header.range)));
    }
    let shape = header.shape().map_err(refused)?;
    let state_len = values.state().len();
    let rows = values.rows();
    if state_len != shape.state_len {
        return Err(refused(format!("state has {state_len} values; its header says {}", shape.state_len)));
    }
    if rows != shape.rows {
        return Err(refused(format!("window has {rows} rows; its header says {}", shape.rows)));
    }
    match (0..rows).map(|index| values.row(index).len()).find(|&len| len != shape.row_len) {
        Some(len) => Err(refused(format!("a window row has {len} values; allowed: {}", shape.row_len))),
        None => Ok(shape),
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
            block_state_len: 1 << 15,
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
        // Parts of 1 KiB, so that the object has many.
        let url = format!("file://{}", folder.path().display());
        let store = CheckpointStore::open(&url).unwrap().with_sizes(1024, 256);
        let key = CheckpointKey::new(&[1; 32]);
        let object = "j/1/0-512.shard";
        let values = || (vec![1.5; 1 << 15], vec![vec![2.5; 512]]);
        let file = folder.path().join(object);
        let whole = store.write_shard(object, header(), &key, values()).await.unwrap();
        let mut stopped = 0;
        for polls in 0.. {
            let _ = fs::remove_file(&file);
            let written = stopped_after(polls, store.write_shard(object, header(), &key, values())).await;
            // Work handed to another thread before the stop may still end.
            tokio::time::sleep(Duration::from_millis(3)).await;
            let found = fs::metadata(&file).ok().map(|found| found.len());
            match (written, found) {
                (Some(written), found) => {
                    assert_eq!((written.unwrap().bytes, found), (whole.bytes, Some(whole.bytes)));
                    break;
                }
                (None, Some(found)) => assert_eq!(found, whole.bytes, "after {polls} polls"),
                (None, None) => stopped += 1,
            }
        }
        assert!(stopped > 30, "{stopped}");
        assert_eq!(names(&folder.path().join("j/1")), ["0-512.shard"], "drafts were left");
        let whole = store.write_shard(object, header(), &key, values()).await.unwrap();
        store.read_shard(object, &whole.sha256, &key, |_| Ok(())).await.unwrap();
    }
}
