//! Accepts connections for a gRPC server: within the caps, over TLS where there are credentials, and from this user
//! alone over a Unix socket. A peer that is slow to open costs a slot for a few seconds and holds up nobody else.

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

use crate::telemetry::rate_limited_log::SparseLog;
use crate::net::connection::{Connection, Peer, Reached, Transport, network};
use crate::admission::{Clients, Handshake, Handshakes, Limits, Pace, Paces, Slot, Slots, Turns};
use crate::net::listener::Listener;
use crate::telemetry::metric_definitions::CONNECTIONS_REFUSED;
use crate::process::runtime::spawn;
use crate::tls::{Credentials, HANDSHAKE_LIMIT, identity_of};

/// As long as the TLS handshake may take.
const PREFACE_LIMIT: Duration = Duration::from_secs(5);
/// Out of descriptors, most likely: others may be closed meanwhile.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Handshakes under way: one for so many connections, and no fewer than a small cluster begins at once.
const CONNECTIONS_A_HANDSHAKE: usize = 4;
const FEWEST_HANDSHAKES: usize = 16;

/// Ready connections, for `serve_with_incoming`. Accepting ends when it is dropped.
#[derive(Debug)]
pub struct Incoming {
    ready: mpsc::Receiver<Connection>,
    accepting: JoinHandle<()>,
}

struct Acceptor {
    credentials: Option<Credentials>,
    handshakes: Handshakes,
    slots: Slots,
    clients: Clients,
    turns: Turns,
    refusals: SparseLog,
    /// Of each caller.
    paces: Paces,
    /// Of each connection.
    calls_per_second: u32,
    ready: mpsc::Sender<Connection>,
}

impl Incoming {
    /// Call inside a tokio runtime.
    pub fn new(listener: Listener, credentials: Option<Credentials>, limits: &Limits) -> Self {
        let (sender, ready) = mpsc::channel(16);
        let all = limits.connections;
        let per_address = limits.connections_per_address;
        let handshakes = (all / CONNECTIONS_A_HANDSHAKE).max(FEWEST_HANDSHAKES);
        let acceptor = Acceptor {
            credentials,
            handshakes: Handshakes::new(handshakes, per_address),
            slots: Slots::new(all, per_address),
            clients: Clients::new(all),
            turns: Turns::new(limits.handshakes_per_second),
            refusals: SparseLog::default(),
            // Beyond its rate a caller is refused, and told so: that is not to be slower than one connection is.
            paces: Paces::new(limits.calls_per_second.max(limits.connection_calls_per_second)),
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
                    Err(error) => after(error).await,
                }
            },
            Listener::Unix(socket) => {
                let (listener, _file) = socket.into_parts();
                loop {
                    match listener.accept().await {
                        Ok((stream, _)) => self.take_unix(stream).await,
                        Err(error) => after(error).await,
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
            let Some(slot) = self.slots.take(network(address)) else {
                return self.refuse(address, "too many connections");
            };
            return self.hand_on(Transport::Tcp(stream), Peer::Plain(address), slot).await;
        };
        // Beside the others: a handshake takes its time. It counts as a connection once it is done, and as whose it is.
        let acceptor = self.clone();
        let credentials = credentials.clone();
        let handshake = self.handshakes.begin(network(address));
        spawn(async move {
            let stream = match acceptor.shake_hands(&credentials, stream, address, &handshake).await {
                Ok(stream) => stream,
                Err(error) => return acceptor.refuse(address, error),
            };
            let Some(slot) = acceptor.slots.take(network(address)) else {
                return acceptor.refuse(address, "too many connections");
            };
            drop(handshake);
            let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let peer = Peer::Certified(address, shown.and_then(identity_of));
            acceptor.hand_on(Transport::Tls(Box::new(stream)), peer, slot).await;
        });
    }

    /// In its address's turn, which is not taken before there is a hello: who sends nothing costs nothing.
    async fn shake_hands(
        &self,
        credentials: &Credentials,
        stream: TcpStream,
        address: IpAddr,
        handshake: &Handshake,
    ) -> io::Result<TlsStream<TcpStream>> {
        let hands = async {
            let hello = LazyConfigAcceptor::new(Default::default(), stream).await?;
            match self.turns.take(network(address)) {
                Some(turn) => sleep_until(turn).await,
                None => return Err(io::Error::other("its address shakes hands too often")),
            }
            hello.into_stream(credentials.server()).await
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long");
        tokio::select! {
            shaken = timeout(HANDSHAKE_LIMIT, hands) => shaken.map_err(late)?,
            () = handshake.ended() => Err(io::Error::other("too many handshakes are under way")),
        }
    }

    async fn take_unix(&self, stream: UnixStream) {
        // One address for all of this user's processes.
        let address = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let own = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == own => {}
            Ok(peer) => return self.refuse(address, format!("user {} is not {own}", peer.uid())),
            Err(error) => return self.refuse(address, error),
        }
        let Some(slot) = self.slots.take(address) else {
            return self.refuse(address, "too many connections");
        };
        self.hand_on(Transport::Unix(stream), Peer::Local, slot).await;
    }

    async fn hand_on(&self, transport: Transport, peer: Peer, slot: Slot) {
        let shared = match &peer {
            Peer::Local => None,
            Peer::Plain(address) | Peer::Certified(address, None) => Some(network(*address).to_string()),
            Peer::Certified(_, Some(identity)) => Some(identity.to_string()),
        };
        let client = match (&peer, &shared, &self.credentials) {
            (Peer::Certified(address, identity), Some(caller), Some(credentials)) => {
                let own = credentials.identity().trust_domain;
                match self.clients.take(identity.as_ref(), &own, caller) {
                    Ok(client) => client,
                    Err(_) => return self.refuse(*address, "too many connections of clients"),
                }
            }
            _ => None,
        };
        let reached = Reached { peer, pace: Pace::new(self.calls_per_second) };
        let connection = Connection::new(transport, reached, slot, PREFACE_LIMIT).of_client(client);
        let connection = match shared {
            Some(caller) => connection.sharing(self.paces.of(caller)),
            None => connection,
        };
        // The server is gone: so is the connection.
        let _server_ended = self.ready.send(connection).await;
    }

    fn refuse(&self, address: IpAddr, reason: impl ToString) {
        counter!(CONNECTIONS_REFUSED).increment(1);
        if self.refusals.is_due(&network(address).to_string()) {
            warn!(%address, reason = reason.to_string(), "a connection was refused");
        }
    }
}

async fn after(error: io::Error) {
    warn!(%error, "a connection could not be accepted");
    sleep(AFTER_ERROR).await;
}
