//! An accepted connection, with its pace, its opening deadline and its permits.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tonic::transport::server::Connected;

use crate::admission::{ConnectionPermit, PREFACE_BYTES, PacedStream, ReadThrottle};
use crate::net::peer::PeerInfo;
use crate::net::transport::Transport;

/// A connection that fails where its HTTP/2 preface is late, is read at its pace, and frees its permits when it is
/// dropped.
pub struct Connection {
    stream: PacedStream<Transport>,
    info: PeerInfo,
    opening: Option<Opening>,
    _permit: ConnectionPermit,
    /// The permit of a client's connection; those of the cluster itself have none.
    _client_permit: Option<ConnectionPermit<String>>,
}

/// The wait for the HTTP/2 preface: until it has arrived, nothing else watches over a connection.
struct Opening {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Connection {
    /// Returns a connection whose HTTP/2 preface must arrive within `preface_limit`.
    pub fn new(
        transport: Transport,
        info: PeerInfo,
        permit: ConnectionPermit,
        preface_limit: Duration,
    ) -> Self {
        let opening = Some(Opening { missing: PREFACE_BYTES, deadline: Box::pin(sleep(preface_limit)) });
        let stream = PacedStream::new(transport, info.throttle.clone());
        Self { stream, info, opening, _permit: permit, _client_permit: None }
    }

    /// Adds the throttle that the caller's connections share beside their own.
    pub fn with_shared_throttle(mut self, throttle: ReadThrottle) -> Self {
        self.stream.share(throttle);
        self
    }

    /// Adds the permit of a client's connection.
    pub fn with_client_permit(self, permit: Option<ConnectionPermit<String>>) -> Self {
        Self { _client_permit: permit, ..self }
    }
}

impl Connected for Connection {
    type ConnectInfo = PeerInfo;

    fn connect_info(&self) -> PeerInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(task, buffer);
        let Some(opening) = &mut self.opening else { return polled };
        opening.missing = opening.missing.saturating_sub(buffer.filled().len() - before);
        if opening.missing == 0 {
            self.opening = None;
        } else if polled.is_pending() && opening.deadline.as_mut().poll(task).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the HTTP/2 preface is late")));
        }
        polled
    }
}

impl AsyncWrite for Connection {
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::time::Instant;

    use super::*;
    use crate::admission::{ConnectionLimit, HEAD_BYTES, ReadThrottle};
    use crate::net::peer::Peer;

    /// Returns a connection of `per_second` calls per second, and its other end.
    fn pair(per_second: u32) -> (Connection, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let info = PeerInfo { peer: Peer::Local, throttle: ReadThrottle::new(per_second) };
        let permit = ConnectionLimit::new(1, 1).take(IpAddr::from([0, 0, 0, 0])).unwrap();
        (Connection::new(Transport::Unix(here), info, permit, Duration::from_secs(5)), there)
    }

    #[tokio::test]
    async fn calls_that_come_too_fast_are_read_later() {
        let (mut connection, mut there) = pair(10);
        let throttle = connection.info.throttle.clone();
        there.write_all(&[7; PREFACE_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let spent = Instant::now();
        throttle.spend(2.25);
        there.write_all(b"more").await.unwrap();
        connection.read_exact(&mut [0; 2]).await.unwrap();
        assert!(
            spent.elapsed() >= Duration::from_millis(190),
            "{:?} for two calls too many",
            spent.elapsed()
        );
        let again = Instant::now();
        connection.read_exact(&mut [0; 2]).await.unwrap();
        assert!(again.elapsed() < Duration::from_millis(100), "{:?}", again.elapsed());
    }

    #[tokio::test]
    async fn what_comes_at_once_is_read_in_pieces_and_nothing_is_lost() {
        let (connection, mut there) = pair(4_000);
        let mut connection = connection.with_shared_throttle(ReadThrottle::new(20_000));
        // 900 settings, and a message's frame of 100,000 bytes.
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].repeat(900);
        let body: Vec<u8> = (0..100_000).map(|n: u32| n as u8).collect();
        let sent = [vec![7; PREFACE_BYTES], settings, vec![1, 0x86, 0xa0, 0, 0, 0, 0, 0, 1], body].concat();
        let mut read = Vec::new();
        let mut lengths = Vec::new();
        let sending = async { there.write_all(&sent).await.unwrap() };
        let reading = async {
            while read.len() < sent.len() {
                let mut buffer = vec![0; 1 << 20];
                let length = connection.read(&mut buffer).await.unwrap();
                read.extend_from_slice(&buffer[..length]);
                lengths.push(length);
            }
        };
        tokio::join!(sending, reading);
        assert!(read == sent, "{lengths:?}");
        assert!(
            lengths[0] <= PREFACE_BYTES + 110 * HEAD_BYTES,
            "a new connection's calls at once: {lengths:?}"
        );
        assert!(lengths.iter().max() >= Some(&10_000), "a frame is not read in small pieces: {lengths:?}");
    }

    #[tokio::test]
    async fn connections_of_a_caller_are_held_for_one_another() {
        let shared = ReadThrottle::new(100);
        let mut pairs = [(); 2].map(|()| {
            let (connection, there) = pair(1_000_000);
            (connection.with_shared_throttle(shared.clone()), there)
        });
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let begun = Instant::now();
        for (connection, there) in &mut pairs {
            there.write_all(&[[7; PREFACE_BYTES].to_vec(), ping.repeat(13)].concat()).await.unwrap();
            connection.read_exact(&mut [0; PREFACE_BYTES + 13 * 17]).await.unwrap();
            there.write_all(&ping).await.unwrap();
        }
        let (second, _) = &mut pairs[1];
        second.read_exact(&mut [0; 17]).await.unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(220), "{:?} for 26 pings", begun.elapsed());
    }

    #[tokio::test]
    async fn pings_count_as_calls_do() {
        let (mut connection, mut there) = pair(100);
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        there.write_all(&[[7; PREFACE_BYTES].to_vec(), ping.repeat(40)].concat()).await.unwrap();
        let mut read = vec![0; PREFACE_BYTES + 40 * ping.len()];
        let spent = Instant::now();
        connection.read_exact(&mut read).await.unwrap();
        there.write_all(&ping).await.unwrap();
        connection.read_exact(&mut [0; 17]).await.unwrap();
        assert!(spent.elapsed() >= Duration::from_millis(300), "{:?} for 40 pings", spent.elapsed());
    }
}
