//! An accepted connection, plain or TLS, and who is at its other end.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::auth::Identity;
use crate::admission::{Frames, HEAD_BYTES, PREFACE_BYTES, Pace, Slot};

/// So many frames may begin in what is taken at once, also where they come too fast: a call or three.
const HEADS: f64 = 28.0;

/// What its connection says of a request, in the request's extensions.
#[derive(Clone, Debug)]
pub struct Reached {
    pub peer: Peer,
    pub pace: Pace,
}

/// How a caller reached this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over a Unix socket, as the user that this process runs as.
    Local,
    Plain(IpAddr),
    /// Its certificate is one of our authority's; it may still name nobody of ours.
    Certified(IpAddr, Option<Identity>),
}

/// Whose addresses are counted together: whoever has an IPv6 address has all of its /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(own) => IpAddr::V6((own.to_bits() & (u128::MAX << 64)).into()),
    }
}

/// What a connection is made of.
pub enum Transport {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

/// Closes where its HTTP/2 preface is late, is read at its pace, and frees its slot when it is dropped.
pub struct Connection {
    transport: Transport,
    reached: Reached,
    opening: Option<Opening>,
    frames: Frames,
    /// Of all of its caller's connections.
    shared: Option<Pace>,
    /// Not read before, for what it has spent of that.
    turn: Option<Instant>,
    /// Not read before.
    held: Option<Pin<Box<Sleep>>>,
    _slot: Slot,
    /// Of those that are not the cluster's own.
    _client: Option<Slot<String>>,
}

/// Until the HTTP/2 preface is there nothing else watches over a connection.
struct Opening {
    missing: usize,
    deadline: Pin<Box<Sleep>>,
}

impl Connection {
    pub fn new(transport: Transport, reached: Reached, slot: Slot, preface_limit: Duration) -> Self {
        let opening = Some(Opening { missing: PREFACE_BYTES, deadline: Box::pin(sleep(preface_limit)) });
        let frames = Frames::default();
        Self {
            transport,
            reached,
            opening,
            frames,
            shared: None,
            turn: None,
            held: None,
            _slot: slot,
            _client: None,
        }
    }

    /// One of several connections of a caller, which share a pace beside their own.
    pub fn sharing(self, pace: Pace) -> Self {
        Self { shared: Some(pace), ..self }
    }

    /// One of the connections that clients may have.
    pub fn of_client(self, slot: Option<Slot<String>>) -> Self {
        Self { _client: slot, ..self }
    }

    /// Whether calls come faster than they are taken. Then the task is woken later.
    fn is_held(&mut self, task: &mut Context<'_>) -> bool {
        loop {
            if let Some(held) = &mut self.held
                && held.as_mut().poll(task).is_pending()
            {
                return true;
            }
            // More may have been spent meanwhile.
            let turn = self.turn.take().filter(|turn| *turn > Instant::now());
            let until = self.reached.pace.until().max(turn);
            self.held = until.map(|until| Box::pin(sleep_until(until)));
            if self.held.is_none() {
                return false;
            }
        }
    }

    /// Bytes that may be read at once: the frame that has begun, and heads of as many as there are calls left.
    fn most(&self) -> usize {
        let left = self.shared.iter().map(Pace::left).fold(self.reached.pace.left(), f64::min);
        self.frames.body() + HEAD_BYTES * left.max(HEADS) as usize
    }
}

impl Connected for Connection {
    type ConnectInfo = Reached;

    fn connect_info(&self) -> Reached {
        self.reached.clone()
    }
}

/// The same call on whichever transport it is.
macro_rules! on_transport {
    ($connection:expr, $stream:ident => $call:expr) => {
        match &mut $connection.get_mut().transport {
            Transport::Tcp(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
            Transport::Tls(inner) => {
                let $stream = Pin::new(&mut **inner);
                $call
            }
            Transport::Unix(inner) => {
                let $stream = Pin::new(inner);
                $call
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_held(task) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        // What comes at once is worked off before anyone else has a turn.
        let most = self.most();
        let polled = if buffer.remaining() > most {
            let mut piece = ReadBuf::new(buffer.initialize_unfilled_to(most));
            let polled = on_transport!(self.as_mut(), stream => stream.poll_read(task, &mut piece));
            let length = piece.filled().len();
            buffer.advance(length);
            polled
        } else {
            on_transport!(self.as_mut(), stream => stream.poll_read(task, buffer))
        };
        let cost = self.frames.cost(&buffer.filled()[before..]);
        if cost > 0.0 {
            self.reached.pace.spend(cost);
            self.turn = self.shared.as_ref().and_then(|shared| shared.spend_in_turn(cost));
        }
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
    fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_transport!(self, stream => stream.poll_write(task, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        task: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_transport!(self, stream => stream.poll_write_vectored(task, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Tcp(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
            Transport::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, stream => stream.poll_flush(task))
    }

    fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_transport!(self, stream => stream.poll_shutdown(task))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::admission::Slots;

    /// A connection of so many calls a second, and its other end.
    fn pair(per_second: u32) -> (Connection, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let reached = Reached { peer: Peer::Local, pace: Pace::new(per_second) };
        let slot = Slots::new(1, 1).take(IpAddr::from([0, 0, 0, 0])).unwrap();
        (Connection::new(Transport::Unix(here), reached, slot, Duration::from_secs(5)), there)
    }

    #[tokio::test]
    async fn calls_that_come_too_fast_are_read_later() {
        let (mut connection, mut there) = pair(10);
        let pace = connection.reached.pace.clone();
        there.write_all(&[7; PREFACE_BYTES]).await.unwrap();
        connection.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let spent = Instant::now();
        pace.spend(2.25);
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
        let mut connection = connection.sharing(Pace::new(20_000));
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
        let shared = Pace::new(100);
        let mut pairs = [(); 2].map(|()| {
            let (connection, there) = pair(1_000_000);
            (connection.sharing(shared.clone()), there)
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

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
