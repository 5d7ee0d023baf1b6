//! A request's body that ends in an error once it is too long, or says that it will be.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};

/// A gRPC message's length comes before it.
const PREFIX: usize = 5;

pub struct CappedBody {
    pub body: Body,
    /// Of the message.
    pub limit: usize,
    /// Read so far, of all.
    pub taken: usize,
    /// The first message's prefix, as far as it is there.
    pub prefix: Vec<u8>,
    /// What to say then.
    pub refused: Box<dyn Fn() -> Status + Send>,
}

impl CappedBody {
    /// Nobody waits for what would be refused, or makes room for it.
    fn claims_too_much(&self) -> bool {
        let [_, a, b, c, d] = self.prefix[..] else { return false };
        u32::from_be_bytes([a, b, c, d]) as usize > self.limit
    }
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
        let begins = frame.data_ref().map_or(&[][..], |data| &data[..length.min(PREFIX - self.prefix.len())]);
        self.prefix.extend_from_slice(begins);
        self.taken += length;
        match self.taken > self.limit + PREFIX || self.claims_too_much() {
            true => Poll::Ready(Some(Err((self.refused)()))),
            false => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tokio_stream::iter;

    use super::*;

    async fn read(pieces: &'static [&'static [u8]], limit: usize) -> Result<usize, Status> {
        let frames = pieces.iter().map(|piece| Ok::<_, Status>(Frame::data(Bytes::from_static(piece))));
        let body = Body::new(StreamBody::new(iter(frames)));
        let refused = Box::new(|| Status::resource_exhausted("too large"));
        let capped = CappedBody { body, limit, taken: 0, prefix: Vec::new(), refused };
        Ok(capped.collect().await?.to_bytes().len())
    }

    #[tokio::test]
    async fn a_message_is_refused_by_what_it_says_or_by_what_comes() {
        assert_eq!(read(&[&[0, 0, 0, 0, 3], b"abc"], 3).await.unwrap(), 8);
        assert_eq!(read(&[&[0, 0], &[0, 0, 3, b'a'], b"bc"], 3).await.unwrap(), 8);
        assert_eq!(read(&[], 3).await.unwrap(), 0);
        let too_large: [&'static [&'static [u8]]; 4] = [
            &[&[0, 0, 0, 0, 4]],
            &[&[0, 64], &[0, 0, 0]],
            &[&[0, 0, 0, 0, 3], b"abcd"],
            &[&[0, 64, 0, 0, 0, 1]],
        ];
        for pieces in too_large {
            assert!(read(pieces, 3).await.is_err(), "{pieces:?}");
        }
    }
}
