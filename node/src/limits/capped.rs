//! A request's body that ends in an error once it is too long.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};

pub struct CappedBody {
    pub body: Body,
    pub left: usize,
    /// Told of every frame's length.
    pub read: Box<dyn Fn(usize) + Send>,
    /// What to say then.
    pub refused: Box<dyn Fn() -> Status + Send>,
}

impl http_body::Body for CappedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(task);
        let Poll::Ready(Some(Ok(frame))) = &polled else { return polled };
        let length = frame.data_ref().map_or(0, Bytes::len);
        (self.read)(length);
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                polled
            }
            None => Poll::Ready(Some(Err((self.refused)()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
