//! Connections that end with the server that accepted them.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

/// A connection that neither reads nor writes once a token is cancelled. tonic runs each connection in a task of its own,
/// which would outlive a dropped server, with all that its services hold, for as long as the peer likes.
pub struct AbortOnClose<C> {
    connection: C,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<C> AbortOnClose<C> {
    /// Returns the connection, which ends once `ended` is cancelled.
    pub fn new(connection: C, ended: CancellationToken) -> Self {
        Self { connection, ended: Box::pin(ended.cancelled_owned()) }
    }
}

impl<C> AbortOnClose<C> {
    /// Fails once the token is cancelled. Every operation that may wait calls it: a peer that does not read keeps the
    /// connection from ever reading.
    fn check(&mut self, task: &mut Context<'_>) -> io::Result<()> {
        match self.ended.as_mut().poll(task) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl<C: Connected> Connected for AbortOnClose<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for AbortOnClose<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(task)?;
        Pin::new(&mut self.connection).poll_read(task, buffer)
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for AbortOnClose<C> {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(task)?;
        Pin::new(&mut self.connection).poll_write(task, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(task)?;
        Pin::new(&mut self.connection).poll_write_vectored(task, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(task)?;
        Pin::new(&mut self.connection).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(task)
    }
}
