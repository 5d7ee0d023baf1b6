//! Accepts connections for a gRPC server: within the limits, over TLS where there are credentials, and over a Unix socket
//! from this user alone. A peer that is slow to open takes one permit for a few seconds and delays no other.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use metrics::counter;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tracing::warn;

use crate::admission::{
    CallerThrottles, ClientConnections, ConnectionLimit, ConnectionPermit, Handshake, HandshakeRate,
    Handshakes, Limits, ReadThrottle,
};
use crate::net::connection::Connection;
use crate::net::listener::Listener;
use crate::net::peer::{Peer, PeerInfo, network};
use crate::net::transport::Transport;
use crate::process::runtime::spawn;
use crate::telemetry::metric_definitions::CONNECTIONS_REFUSED;
use crate::telemetry::rate_limited_log::RateLimitedLog;
use crate::tls::{Credentials, HANDSHAKE_LIMIT, identity_of};

/// Time for a client's HTTP/2 preface: as long as its TLS handshake may take.
const PREFACE_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept. Most likely there are no descriptors left, and other connections close in the meantime.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Allowed connections for each handshake that may run.
const CONNECTIONS_PER_HANDSHAKE: usize = 4;
/// Least handshakes that may run: as many as a small cluster begins at once.
const LEAST_HANDSHAKES: usize = 16;

/// A stream of ready connections, for `serve_with_incoming`. Accepting ends when it is dropped.
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<Connection>,
    accepting: JoinHandle<()>,
}

struct Acceptor {
    credentials: Option<Credentials>,
    handshakes: Handshakes,
    connections: ConnectionLimit,
    client_connections: ClientConnections,
    handshake_rate: HandshakeRate,
    refusals: RateLimitedLog,
    caller_throttles: CallerThrottles,
    /// The rate of each connection.
    calls_per_second: u32,
    ready: mpsc::Sender<Connection>,
}

impl Incoming {
    /// Starts accepting from `listener`. Call it inside a tokio runtime.
    pub fn new(listener: Listener, credentials: Option<Credentials>, limits: &Limits) -> Self {
        let (sender, ready) = mpsc::channel(16);
        let all = limits.connections;
        let per_address = limits.connections_per_address;
        let handshakes = (all / CONNECTIONS_PER_HANDSHAKE).max(LEAST_HANDSHAKES);
        let acceptor = Acceptor {
            credentials,
            handshakes: Handshakes::new(handshakes, per_address),
            connections: ConnectionLimit::new(all, per_address),
            client_connections: ClientConnections::new(all),
            handshake_rate: HandshakeRate::new(limits.handshakes_per_second),
            refusals: RateLimitedLog::default(),
            // A caller beyond its rate gets an answer that says so, which must not come slower than one connection is read.
            caller_throttles: CallerThrottles::new(
                limits.calls_per_second.max(limits.connection_calls_per_second),
            ),
            calls_per_second: limits.connection_calls_per_second,
            ready: sender,
        };
        let accepting = spawn(Arc::new(acceptor).accept(listener));
        Self { ready, accepting }
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.ready.poll_recv(task).map(|connection| connection.map(Ok))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Acceptor {
    async fn accept(self: Arc<Self>, listener: Listener) {
        match listener {
            Listener::Tcp(listener) => loop {
                match listener.accept().await {
                    Ok((stream, from)) => self.take_tcp(stream, from).await,
                    Err(error) => pause_after(error).await,
                }
            },
            Listener::Unix(socket) => {
                let (listener, _file) = socket.into_parts();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => self.take_unix(stream).await,
                        Err(error) => pause_after(error).await,
                    }
                }
            }
        }
    }

    async fn take_tcp(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        let address = from.ip().to_canonical();
        if let Err(error) = stream.set_nodelay(true) {
            return self.refuse(address, error);
        }
        let Some(credentials) = &self.credentials else {
            let Some(permit) = self.connections.take(network(address)) else {
                return self.refuse(address, "too many connections");
            };
            return self.deliver(Transport::Tcp(stream), Peer::Plain(address), permit).await;
        };
        // In a task of its own, because a handshake takes time. It counts as a connection once it is done and its peer is
        // known.
        let acceptor = self.clone();
        let credentials = credentials.clone();
        let handshake = self.handshakes.begin(network(address));
        spawn(async move {
            let stream = match acceptor.tls_handshake(&credentials, stream, address, &handshake).await {
                Ok(stream) => stream,
                Err(error) => return acceptor.refuse(address, error),
            };
            let Some(permit) = acceptor.connections.take(network(address)) else {
                return acceptor.refuse(address, "too many connections");
            };
            drop(handshake);
            let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let peer = Peer::Certified(address, shown.and_then(identity_of));
            acceptor.deliver(Transport::Tls(Box::new(stream)), peer, permit).await;
        });
    }

    /// Runs a TLS handshake at its address's rate, which is charged once the client's hello is there: a peer that sends
    /// nothing costs nothing.
    async fn tls_handshake(
        &self,
        credentials: &Credentials,
        stream: TcpStream,
        address: IpAddr,
        handshake: &Handshake,
    ) -> io::Result<TlsStream<TcpStream>> {
        let handshaking = async {
            let hello = LazyConfigAcceptor::new(Default::default(), stream).await?;
            match self.handshake_rate.reserve(network(address)) {
                Some(start) => sleep_until(start).await,
                None => return Err(io::Error::other("its address begins too many handshakes")),
            }
            hello.into_stream(credentials.server()).await
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
        tokio::select! {
            stream = timeout(HANDSHAKE_LIMIT, handshaking) => stream.map_err(late)?,
            () = handshake.evicted() => Err(io::Error::other("too many handshakes are in progress")),
        }
    }

    async fn take_unix(&self, stream: UnixStream) {
        // All processes of this user count as one address.
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == own => {}
            Ok(peer) => return self.refuse(address, format!("user {} is not {own}", peer.uid())),
            Err(error) => return self.refuse(address, error),
        }
        let Some(permit) = self.connections.take(address) else {
            return self.refuse(address, "too many connections");
        };
        self.deliver(Transport::Unix(stream), Peer::Local, permit).await;
    }

    async fn deliver(&self, transport: Transport, peer: Peer, permit: ConnectionPermit) {
        let shared = match &peer {
            Peer::Local => None,
            Peer::Plain(address) | Peer::Certified(address, None) => Some(network(*address).to_string()),
            Peer::Certified(_, Some(identity)) => Some(identity.to_string()),
        };
        let client = match (&peer, &shared, &self.credentials) {
            (Peer::Certified(address, identity), Some(caller), Some(credentials)) => {
                let own = credentials.identity().trust_domain;
                match self.client_connections.take(identity.as_ref(), &own, caller) {
                    Ok(client) => client,
                    Err(_) => return self.refuse(*address, "too many connections of clients"),
                }
            }
            _ => None,
        };
        let info = PeerInfo { peer, throttle: ReadThrottle::new(self.calls_per_second) };
        let connection = Connection::new(transport, info, permit, PREFACE_LIMIT).with_client_permit(client);
        let connection = match shared {
            Some(caller) => connection.with_shared_throttle(self.caller_throttles.for_caller(caller)),
            None => connection,
        };
        // Where the server has ended, the connection is closed.
        let _server_ended = self.ready.send(connection).await;
    }

    fn refuse(&self, address: IpAddr, reason: impl ToString) {
        counter!(CONNECTIONS_REFUSED).increment(1);
        if self.refusals.is_due(&network(address).to_string()) {
            warn!(%address, reason = reason.to_string(), "a connection was refused");
        }
    }
}

async fn pause_after(error: io::Error) {
    warn!(%error, "a connection could not be accepted");
    sleep(ERROR_PAUSE).await;
}
