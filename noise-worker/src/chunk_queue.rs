//! The chunks on their way to one reader. Who made them can take them back from a reader who does not come for them.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll},
};

use futures::Stream;
use proto::{Result, ServiceError, pb};
use tokio::sync::mpsc;

/// The reader's end.
#[derive(Debug)]
pub struct ChunkReceiver(Arc<Mutex<Queue>>);

/// Takes back what the reader has not taken.
#[derive(Debug)]
pub struct ChunkRecall(Weak<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    chunks: mpsc::Receiver<Result<pb::Chunk>>,
    /// What the reader gets in place of what was taken back.
    recalled: Option<ServiceError>,
}

/// Returns a queue of so many chunks.
pub fn chunk_queue(capacity: usize) -> (mpsc::Sender<Result<pb::Chunk>>, ChunkReceiver, ChunkRecall) {
    let (sender, chunks) = mpsc::channel(capacity);
    let queue = Arc::new(Mutex::new(Queue { chunks, recalled: None }));
    let recall = ChunkRecall(Arc::downgrade(&queue));
    (sender, ChunkReceiver(queue), recall)
}

impl ChunkReceiver {
    /// Returns the next chunk, or the error that the answer ends with; `None` where it has ended.
    pub fn poll_recv(&mut self, task: &mut Context<'_>) -> Poll<Option<Result<pb::Chunk>>> {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.recalled.take() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None => queue.chunks.poll_recv(task),
        }
    }

    /// Waits for the next chunk.
    #[cfg(test)]
    pub async fn recv(&mut self) -> Option<Result<pb::Chunk>> {
        std::future::poll_fn(|task| self.poll_recv(task)).await
    }
}

impl Stream for ChunkReceiver {
    type Item = Result<pb::Chunk>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(task)
    }
}

impl ChunkRecall {
    /// Drops the chunks that wait, and ends the answer with an error.
    pub fn end(self, error: ServiceError) {
        let Some(queue) = self.0.upgrade() else { return };
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.chunks.close();
        while queue.chunks.try_recv().is_ok() {}
        queue.recalled = Some(error);
    }
}
