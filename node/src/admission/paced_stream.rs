//! A byte stream of HTTP/2 frames that is read no faster than its throttles allow.
//!
//! The stream follows the heads of the frames that a client sends ([`FrameCosts`]) and spends their cost, in calls, from
//! two throttles: the connection's own, from which handlers spend too, and the one that all connections of the same
//! caller share. In debt it is not read. The bytes themselves pass unchanged.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{FrameCosts, HEAD_BYTES, ReadThrottle};

/// Frame heads that one read may hold, however few calls are left: a call or three.
const LEAST_HEADS: f64 = 28.0;

/// A stream under one or two [`ReadThrottle`]s.
pub struct PacedStream<S> {
    stream: S,
    costs: FrameCosts,
    own: ReadThrottle,
    /// The throttle that all connections of the caller share.
    shared: Option<ReadThrottle>,
    /// Until when the shared throttle keeps this stream from being read.
    shared_wait: Option<Instant>,
    /// The timer of the current wait.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<S> PacedStream<S> {
    /// Returns `stream` at the pace of `own`, from its HTTP/2 preface on.
    pub fn new(stream: S, own: ReadThrottle) -> Self {
        Self { stream, costs: FrameCosts::default(), own, shared: None, shared_wait: None, wait: None }
    }

    /// Adds the throttle that the caller's connections share.
    pub fn share(&mut self, throttle: ReadThrottle) {
        self.shared = Some(throttle);
    }

    /// Returns whether the stream must wait; then the task is woken later.
    fn must_wait(&mut self, task: &mut Context<'_>) -> bool {
        loop {
            if let Some(wait) = &mut self.wait
                && wait.as_mut().poll(task).is_pending()
            {
                return true;
            }
            // More may have been spent in the meantime.
            let shared_wait = self.shared_wait.take().filter(|until| *until > Instant::now());
            let until = self.own.wait_until().max(shared_wait);
            self.wait = until.map(|until| Box::pin(sleep_until(until)));
            if self.wait.is_none() {
                return false;
            }
        }
    }

    /// Returns the bytes that may be read at once: the frame that has begun, and heads of as many as there are calls
    /// left. Frames of one read are handled before any other connection has its turn.
    fn read_limit(&self) -> usize {
        let left = self.shared.iter().map(ReadThrottle::left).fold(self.own.left(), f64::min);
        self.costs.bytes_to_next_head() + HEAD_BYTES * left.max(LEAST_HEADS) as usize
    }

    fn spend(&mut self, bytes: &[u8]) {
        let cost = self.costs.cost(bytes);
        if cost > 0.0 {
            self.own.spend(cost);
            self.shared_wait = self.shared.as_ref().and_then(|shared| shared.spend_shared(cost));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.must_wait(task) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let limit = self.read_limit();
        let polled = if buffer.remaining() > limit {
            let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(limit));
            let polled = Pin::new(&mut self.stream).poll_read(task, &mut piece);
            let length = piece.filled().len();
            buffer.advance(length);
            polled
        } else {
            Pin::new(&mut self.stream).poll_read(task, buffer)
        };
        self.spend(&buffer.filled()[before..]);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
