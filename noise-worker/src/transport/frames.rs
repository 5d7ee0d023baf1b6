//! The body of a `FetchSlice` response: frames whose data is the row's own memory, passed to the socket without a copy.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use node::admission::Reservation;
use proto::frame_head;
use tonic::{Code, Status};

use crate::chunk_queue::ChunkReceiver;

/// Sends chunks as they arrive, then a status. A chunk is two frames: its head, built here, and its data as it is.
pub struct ChunkBody {
    chunks: ChunkReceiver,
    data: Option<Bytes>,
    has_ended: bool,
    _hold: Reservation,
}

impl ChunkBody {
    /// Streams `chunks`. `hold` is kept until the stream ends.
    pub fn new(chunks: ChunkReceiver, hold: Reservation) -> Self {
        Self { chunks, data: None, has_ended: false, _hold: hold }
    }
}

impl Body for ChunkBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.chunks.poll_recv(task));
        let frame = match next {
            Some(Ok(chunk)) => {
                let head = frame_head(&chunk);
                self.data = Some(chunk.data).filter(|data| !data.is_empty());
                return Poll::Ready(Some(Ok(Frame::data(head))));
            }
            Some(Err(error)) => trailers(error.into()),
            None => trailers(Status::new(Code::Ok, "")),
        };
        self.has_ended = true;
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.has_ended && self.data.is_none()
    }
}

fn trailers(status: Status) -> Result<Frame<Bytes>, Status> {
    let mut trailers = HeaderMap::new();
    if status.code() == Code::Ok {
        trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    } else {
        status.add_header(&mut trailers)?;
    }
    Ok(Frame::trailers(trailers))
}
