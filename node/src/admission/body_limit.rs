//! A request's body that ends in an error once it is too long, or says that it will be.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};

use super::Arrival;

/// A gRPC message's length comes before it.
const PREFIX: usize = 5;

pub struct CappedBody {
    body: Body,
    /// Of the message.
    limit: usize,
    /// Read so far, of all.
    taken: usize,
    /// The first message's prefix, as far as it is there.
    prefix: Vec<u8>,
    /// What to say where that is too much.
    refused: Box<dyn Fn() -> Status + Send>,
    room: RoomFor,
    held: HeldRoom,
}

/// What was taken of the room, and for how many bytes: for as long as somebody has this.
#[derive(Clone, Default)]
pub struct HeldRoom(Arc<Mutex<Option<(usize, Arrival)>>>);

/// Takes room for so many bytes, or says why there is none.
pub type RoomFor = Box<dyn Fn(u64) -> Result<Arrival, Status> + Send>;

impl CappedBody {
    pub fn new(body: Body, limit: usize, refused: Box<dyn Fn() -> Status + Send>, room: RoomFor) -> Self {
        Self { body, limit, taken: 0, prefix: Vec::new(), refused, room, held: HeldRoom::default() }
    }

    /// The message takes its room until its body is gone and this is, too.
    pub fn held(&self) -> HeldRoom {
        self.held.clone()
    }

    fn claimed(&self) -> Option<usize> {
        let [_, a, b, c, d] = self.prefix[..] else { return None };
        Some(u32::from_be_bytes([a, b, c, d]) as usize)
    }

    /// Looks at what has come. Nobody waits for what would be refused, or makes room for it.
    fn look(&mut self, data: &[u8]) -> Result<(), Status> {
        self.prefix.extend_from_slice(&data[..data.len().min(PREFIX - self.prefix.len())]);
        self.taken += data.len();
        let Some(claimed) = self.claimed() else { return Ok(()) };
        if self.taken > self.limit + PREFIX || claimed > self.limit {
            return Err((self.refused)());
        }
        // Whoever sends more than it said may send all that is allowed.
        let most = if self.taken > claimed + PREFIX { self.limit } else { claimed };
        let mut held = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|(held, _)| *held < most) {
            *held = None;
            *held = Some((most, (self.room)(most as u64)?));
        }
        Ok(())
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
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                match self.look(frame.data_ref().map_or(&[][..], |data| &data[..])) {
                    Ok(()) => polled,
                    Err(status) => Poll::Ready(Some(Err(status))),
                }
            }
            _ => polled,
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
    use std::sync::{Arc, Mutex};

    use http_body_util::{BodyExt, StreamBody};
    use tokio_stream::iter;

    use super::*;
    use crate::auth::ClientKey;
    use crate::admission::Arriving;

    async fn read(pieces: &'static [&'static [u8]], limit: usize) -> Result<usize, Status> {
        let frames = pieces.iter().map(|piece| Ok::<_, Status>(Frame::data(Bytes::from_static(piece))));
        let body = Body::new(StreamBody::new(iter(frames)));
        let refused = Box::new(|| Status::resource_exhausted("too large"));
        let arriving = Arriving::default();
        let client = ClientKey("a".into());
        let room = move |bytes| Ok(arriving.take(&client, false, bytes).unwrap());
        let capped = CappedBody::new(body, limit, refused, Box::new(room));
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

    /// The second message of a call is not announced by the first one's prefix.
    #[tokio::test]
    async fn room_is_taken_for_what_may_come_and_given_back_once_nobody_has_it() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let arriving = Arriving::default();
        let client = ClientKey("a".into());
        let own = arriving.clone();
        let of = client.clone();
        let noted = asked.clone();
        let room = move |bytes| {
            noted.lock().unwrap().push(bytes);
            own.take(&of, false, bytes).map_err(|_| Status::resource_exhausted("busy"))
        };
        let limit = 64 << 20;
        let pieces: [&'static [u8]; 3] = [&[0, 0, 0, 0, 1], b"a", &[0, 0, 64, 0, 0]];
        let frames = pieces.map(|piece| Ok::<_, Status>(Frame::data(Bytes::from_static(piece))));
        let body = Body::new(StreamBody::new(iter(frames)));
        let refused = Box::new(|| Status::resource_exhausted("too large"));
        let mut capped = CappedBody::new(body, limit, refused, Box::new(room));
        for _ in 0..3 {
            capped.frame().await.unwrap().unwrap();
        }
        assert_eq!(*asked.lock().unwrap(), [1, limit as u64]);
        assert!(arriving.take(&client, false, 1 << 20).is_err(), "all of it is held");
        assert!(capped.frame().await.is_none());
        let held = capped.held();
        drop(capped);
        assert!(arriving.take(&client, false, 1 << 20).is_err(), "until it is answered");
        drop(held);
        arriving.take(&client, false, 1 << 20).unwrap();
    }
}
