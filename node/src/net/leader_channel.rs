//! Leader discovery: all coordinators of a cluster as one service, whose calls go to the one that leads.
//!
//! A standby coordinator refuses every call and names the leader in a header. The call is then sent to the leader; where
//! there is no leader yet, or the connection failed, the next call goes to the next coordinator.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::body::Body;
use tonic::transport::{Channel, Error};
use tower::{Service, ServiceExt};

use crate::net::dial::DialError;

/// The header of a standby coordinator's answers: the leader's URL, empty where none is known.
pub const LEADER_HEADER: &str = "rustle-leader";

type Dial = Box<dyn Fn(&str) -> Result<Channel, DialError> + Send + Sync>;

/// A channel to the coordinator that leads. Clones share what they know of the leader.
#[derive(Clone)]
pub struct LeaderChannel(Arc<Shared>);

impl std::fmt::Debug for LeaderChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LeaderChannel").field(&self.0.known).finish()
    }
}

struct Shared {
    known: Vec<String>,
    dial: Dial,
    now: Mutex<Current>,
}

struct Current {
    address: String,
    channel: Channel,
    /// Index in `known` of the coordinator to try next.
    next: usize,
    /// Rises with each switch, so that many calls that fail together cause one.
    turn: u64,
}

/// Returns the URLs of a list with commas between them.
pub fn split_urls(urls: &str) -> impl Iterator<Item = &str> {
    urls.split(',').map(str::trim)
}

impl LeaderChannel {
    /// Returns a channel to the coordinators at `urls`, one or more with commas between them. Every URL is checked; it
    /// connects on its first call.
    pub fn new(
        urls: &str,
        dial: impl Fn(&str) -> Result<Channel, DialError> + Send + Sync + 'static,
    ) -> Result<Self, DialError> {
        let known: Vec<String> = split_urls(urls).map(str::to_owned).collect();
        let channels = known.iter().map(|url| dial(url)).collect::<Result<Vec<_>, _>>()?;
        let (Some(address), Some(channel)) = (known.first().cloned(), channels.into_iter().next()) else {
            return Err(DialError { endpoint: urls.to_owned(), allowed: "one URL or more" });
        };
        let now = Mutex::new(Current { address, channel, next: 1, turn: 0 });
        Ok(Self(Arc::new(Shared { known, dial: Box::new(dial), now })))
    }

    /// Returns a channel to one coordinator, whichever leads, over a connection that can't be made twice.
    pub fn fixed(url: &str, channel: Channel) -> Self {
        let refused = |url: &str| {
            Err(DialError { endpoint: url.to_owned(), allowed: "the one coordinator of this connection" })
        };
        let now = Mutex::new(Current { address: url.to_owned(), channel, next: 1, turn: 0 });
        Self(Arc::new(Shared { known: vec![url.to_owned()], dial: Box::new(refused), now }))
    }
}

impl Shared {
    fn now(&self) -> MutexGuard<'_, Current> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches to the leader that was named, else to the next known coordinator.
    fn switch_from(&self, turn: u64, leader: &str) {
        let mut now = self.now();
        // The only known coordinator is tried again and again; one that was named may be gone for good.
        let is_only = self.known.len() == 1 && now.address == self.known[0];
        if now.turn != turn || (leader.is_empty() && is_only) || leader == now.address {
            return;
        }
        let named = Some(leader).filter(|leader| !leader.is_empty());
        // An address that may not be dialled, as one without TLS, is not followed.
        let dialled = named.and_then(|url| Some((url.to_owned(), (self.dial)(url).ok()?)));
        let (address, channel) = match dialled {
            Some(leader) => leader,
            None => {
                let url = &self.known[now.next % self.known.len()];
                let Ok(channel) = (self.dial)(url) else { return };
                now.next += 1;
                (url.clone(), channel)
            }
        };
        tracing::info!(from = now.address, to = address, "switching to another coordinator");
        (now.address, now.channel) = (address, channel);
        now.turn += 1;
    }

    /// Returns the answer, and whether it came from a standby that named the leader, which is used from now on.
    async fn send(&self, request: Request<Body>) -> Result<(Response<Body>, bool), Error> {
        let (mut channel, turn) = {
            let now = self.now();
            (now.channel.clone(), now.turn)
        };
        let answer = async { channel.ready().await?.call(request).await }.await;
        let leader = match &answer {
            Ok(response) => match response.headers().get(LEADER_HEADER) {
                None => return answer.map(|response| (response, false)),
                Some(leader) => leader.to_str().unwrap_or_default().to_owned(),
            },
            Err(_) => String::new(),
        };
        self.switch_from(turn, &leader);
        answer.map(|response| (response, !leader.is_empty()))
    }
}

impl Service<Request<Body>> for LeaderChannel {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move {
            if shared.known.len() == 1 {
                return shared.send(request).await.map(|(response, _)| response);
            }
            // Kept, so that it can be sent again to the one that leads: requests to coordinators are one message.
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(status) => return Ok(status.into_http()),
            };
            for _ in 0..shared.known.len() {
                let request = Request::from_parts(parts.clone(), Body::new(Full::new(body.clone())));
                match shared.send(request).await? {
                    (_, true) => {}
                    (response, false) => return Ok(response),
                }
            }
            let request = Request::from_parts(parts, Body::new(Full::new(body)));
            shared.send(request).await.map(|(response, _)| response)
        })
    }
}
