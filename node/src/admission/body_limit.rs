//! A request's body that ends in an error once it is too long, or announces that it will be.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};

use super::{ErrorMapping, InflightBytes, InflightBytesPermit, ReadThrottle, TOO_LARGE_CALLS};
use crate::auth::{ClientKey, Refusal};

/// Bytes before a gRPC message: a flag, and the message's length.
const PREFIX_BYTES: usize = 5;

/// The limits of one call's request message, and how a message beyond them is refused.
pub struct MessageLimit {
    /// Longest message, in bytes.
    pub bytes: usize,
    /// Pays for a message that is too large: the throttle of the call's connection.
    pub throttle: Option<ReadThrottle>,
    /// The room that messages of all callers share.
    pub inflight_bytes: InflightBytes,
    /// The caller that takes the room.
    pub caller: ClientKey,
    /// Whether the caller is a worker or a coordinator.
    pub is_of_cluster: bool,
    /// Words the refusals.
    pub errors: Arc<dyn ErrorMapping>,
}

impl MessageLimit {
    fn too_large(&self) -> Status {
        self.throttle.iter().for_each(|throttle| throttle.spend(TOO_LARGE_CALLS));
        self.errors.status(Refusal::TooLarge { limit: self.bytes })
    }

    fn reserve(&self, bytes: usize) -> Result<InflightBytesPermit, Status> {
        let reserved = self.inflight_bytes.take(&self.caller, self.is_of_cluster, bytes as u64);
        reserved.map_err(|refusal| self.errors.status(refusal))
    }
}

/// A request's body under a [`MessageLimit`].
pub struct LimitedBody {
    body: Body,
    limit: MessageLimit,
    /// Bytes read so far, of all messages.
    read: usize,
    /// The first message's prefix, as far as it has arrived.
    prefix: Vec<u8>,
    permit: MessagePermit,
}

/// The room that a message takes, and its bytes. Clones share it; it is free again once all are dropped.
#[derive(Clone, Default)]
pub struct MessagePermit(Arc<Mutex<Option<(usize, InflightBytesPermit)>>>);

impl LimitedBody {
    /// Returns `body` under `limit`.
    pub fn new(body: Body, limit: MessageLimit) -> Self {
        Self { body, limit, read: 0, prefix: Vec::new(), permit: MessagePermit::default() }
    }

    /// Returns the message's room, which stays taken until both the body and this are dropped.
    pub fn permit(&self) -> MessagePermit {
        self.permit.clone()
    }

    /// Returns the length that the first message's prefix announces.
    fn announced(&self) -> Option<usize> {
        let [_, a, b, c, d] = self.prefix[..] else { return None };
        Some(u32::from_be_bytes([a, b, c, d]) as usize)
    }

    /// Checks the bytes that have arrived, so that no message is waited for, or given room, that would be refused.
    fn check(&mut self, data: &[u8]) -> Result<(), Status> {
        self.prefix.extend_from_slice(&data[..data.len().min(PREFIX_BYTES - self.prefix.len())]);
        self.read += data.len();
        let Some(announced) = self.announced() else { return Ok(()) };
        let limit = self.limit.bytes;
        if self.read > limit + PREFIX_BYTES || announced > limit {
            return Err(self.limit.too_large());
        }
        // A caller that sends more than it announced may send all that is allowed.
        let expected = if self.read > announced + PREFIX_BYTES { limit } else { announced };
        let mut permit = self.permit.0.lock().unwrap_or_else(PoisonError::into_inner);
        if permit.as_ref().is_none_or(|(bytes, _)| *bytes < expected) {
            // Given back first: a message of more than a caller's room is admitted where nothing else is.
            *permit = None;
            *permit = Some((expected, self.limit.reserve(expected)?));
        }
        Ok(())
    }
}

impl http_body::Body for LimitedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(task);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                match self.check(frame.data_ref().map_or(&[][..], |data| &data[..])) {
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
    use http_body_util::{BodyExt, StreamBody};
    use tokio_stream::iter;

    use super::*;

    struct Errors;

    impl ErrorMapping for Errors {
        fn status(&self, refusal: Refusal) -> Status {
            Status::resource_exhausted(format!("{refusal:?}"))
        }

        fn notable(&self, _: &Status) -> Option<String> {
            None
        }
    }

    fn limited(pieces: &[&'static [u8]], bytes: usize, inflight_bytes: &InflightBytes) -> LimitedBody {
        let frames = pieces.iter().map(|piece| Ok::<_, Status>(Frame::data(Bytes::from_static(piece))));
        let body = Body::new(StreamBody::new(iter(frames.collect::<Vec<_>>())));
        let limit = MessageLimit {
            bytes,
            throttle: None,
            inflight_bytes: inflight_bytes.clone(),
            caller: ClientKey("a".into()),
            is_of_cluster: false,
            errors: Arc::new(Errors),
        };
        LimitedBody::new(body, limit)
    }

    async fn read(pieces: &[&'static [u8]], limit: usize) -> Result<usize, Status> {
        let body = limited(pieces, limit, &InflightBytes::default());
        Ok(body.collect().await?.to_bytes().len())
    }

    #[tokio::test]
    async fn a_message_is_refused_by_what_it_says_or_by_what_comes() {
        assert_eq!(read(&[&[0, 0, 0, 0, 3], b"abc"], 3).await.unwrap(), 8);
        assert_eq!(read(&[&[0, 0], &[0, 0, 3, b'a'], b"bc"], 3).await.unwrap(), 8);
        assert_eq!(read(&[], 3).await.unwrap(), 0);
        let too_large: [&[&'static [u8]]; 4] = [
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
    async fn room_is_reserved_for_a_message_and_released_with_it() {
        let inflight_bytes = InflightBytes::default();
        let client = ClientKey("a".into());
        let limit = 64 << 20;
        let pieces: [&'static [u8]; 3] = [&[0, 0, 0, 0, 1], b"a", &[0, 0, 64, 0, 0]];
        let mut body = limited(&pieces, limit, &inflight_bytes);
        let permit = body.permit();
        let mut reserved = Vec::new();
        for _ in 0..3 {
            body.frame().await.unwrap().unwrap();
            reserved.extend(permit.0.lock().unwrap().as_ref().map(|(bytes, _)| *bytes));
        }
        assert_eq!(reserved, [1, 1, limit]);
        assert!(inflight_bytes.take(&client, false, 1 << 20).is_err(), "all of it is held");
        assert!(body.frame().await.is_none());
        drop(body);
        assert!(inflight_bytes.take(&client, false, 1 << 20).is_err(), "until it is answered");
        drop(permit);
        inflight_bytes.take(&client, false, 1 << 20).unwrap();
    }
}
