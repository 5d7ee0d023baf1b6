//! In front of every handler: who calls, may they, and is there room. One layer, so that no call gets around any of
//! it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};
use tower::{Layer, Service};
use tracing::warn;

use crate::auth::{Authenticator, ClientKey, Refusal};
use crate::telemetry::rate_limited_log::SparseLog;
use crate::net::connection::Reached;
use crate::admission::{
    Arriving, CappedBody, Claim, HeldRoom, Hold, Limits, Rates, Share, Shares, TOO_LARGE, is_endless,
    request_bytes, time,
};

/// What only a process itself knows of errors.
#[derive(Clone, Copy)]
pub struct Words {
    /// A refusal, typed, and with the kind of error that its clients know.
    pub of: fn(Refusal) -> Status,
    /// The kind of error where an answer is one that the log should name.
    pub notable: fn(&Status) -> Option<String>,
}

/// What a call takes of its caller's room: its message's bytes and its place among calls, until nobody has this any more.
#[derive(Clone)]
pub struct UnderWay {
    _share: Arc<Share>,
    _message: HeldRoom,
}

tokio::task_local! {
    static UNDER_WAY: UnderWay;
}

/// Of the call that is being handled. For work that goes on where its caller has left: without it whoever calls, leaves
/// and calls again would have no bound. `None` outside of a call.
pub fn under_way() -> Option<UnderWay> {
    UNDER_WAY.try_with(Clone::clone).ok()
}

/// Of what a refused request was told, in the log.
const LONGEST_REASON: usize = 1024;

#[derive(Clone)]
pub struct GuardLayer(Arc<Guard>);

struct Guard {
    authenticator: Authenticator,
    calls: Shares,
    rates: Rates,
    arriving: Arriving,
    limits: Limits,
    words: Words,
    /// A line each minute of each caller and kind of error.
    refused: SparseLog,
}

impl GuardLayer {
    pub fn new(authenticator: Authenticator, limits: Limits, words: Words) -> Self {
        let calls = Shares::new(limits.calls);
        let rates = Rates::new(limits.calls_per_second);
        let arriving = Arriving::default();
        let refused = SparseLog::default();
        Self(Arc::new(Guard { authenticator, calls, rates, arriving, limits, words, refused }))
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { inner, guard: self.0.clone() }
    }
}

#[derive(Clone)]
pub struct Guarded<S> {
    inner: S,
    guard: Arc<Guard>,
}

/// A call that may go on.
struct Entered {
    share: Share,
    caller: ClientKey,
    is_of_cluster: bool,
}

impl Guard {
    fn admit(&self, request: &mut Request<Body>) -> Result<Entered, Refusal> {
        let caller = self.authenticator.caller(request.extensions(), request.headers())?;
        let admitted = self.authenticator.admit(&caller, request.uri().path())?;
        if !self.rates.take(&caller.key) {
            let limit = format!("{} a second", self.limits.calls_per_second);
            return Err(Refusal::Busy { what: "this caller's rate of calls", limit });
        }
        let is_of_cluster = caller.is_of_cluster();
        let claim = if is_of_cluster {
            Claim::Cluster
        } else if is_endless(request.uri().path()) {
            Claim::Endless
        } else {
            Claim::Client
        };
        let share = self.calls.take(&caller.key, claim)?;
        request.extensions_mut().insert(admitted);
        request.extensions_mut().insert(caller.key.clone());
        Ok(Entered { share, caller: caller.key, is_of_cluster })
    }

    /// The request, read no further than it may be long and there is room for it.
    fn cap(
        &self,
        request: Request<Body>,
        caller: ClientKey,
        is_of_cluster: bool,
    ) -> (Request<Body>, HeldRoom) {
        let bytes = request_bytes(request.uri().path());
        let wording = self.words.of;
        let pace = request.extensions().get::<Reached>().map(|reached| reached.pace.clone());
        let refused = Box::new(move || {
            pace.iter().for_each(|pace| pace.spend(TOO_LARGE));
            wording(Refusal::TooLarge { limit: bytes })
        });
        let arriving = self.arriving.clone();
        let room = move |bytes| arriving.take(&caller, is_of_cluster, bytes).map_err(wording);
        let (parts, body) = request.into_parts();
        let body = CappedBody::new(body, bytes, refused, Box::new(room));
        let held = body.held();
        (Request::from_parts(parts, Body::new(body)), held)
    }

    /// Says what a caller was refused, once a minute for each kind.
    fn tell(&self, caller: &ClientKey, path: &str, response: &Response<Body>) {
        let Some(status) = Status::from_header_map(response.headers()) else { return };
        let Some(kind) = (self.words.notable)(&status) else { return };
        if self.refused.is_due(&format!("{} {kind}", caller.0)) {
            let reason: String = status.message().chars().take(LONGEST_REASON).collect();
            warn!(peer = %caller.0, kind, path, reason, "a request was refused");
        }
    }
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let wording = self.guard.words.of;
        let Entered { share, caller, is_of_cluster } = match self.guard.admit(&mut request) {
            Ok(entered) => entered,
            Err(refusal) => return Box::pin(async move { Ok(wording(refusal).into_http()) }),
        };
        let limit = time(request.uri().path());
        let path = request.uri().path().to_owned();
        let (request, message) = self.guard.cap(request, caller.clone(), is_of_cluster);
        let share = Arc::new(share);
        let under_way = UnderWay { _share: share.clone(), _message: message };
        let handling = self.inner.call(request);
        let guard = self.guard.clone();
        Box::pin(async move {
            // What was asked is in memory until it is answered, and waits there where others are before it.
            match tokio::time::timeout(limit, UNDER_WAY.scope(under_way, handling)).await {
                Ok(response) => {
                    let mut response = response?;
                    guard.tell(&caller, &path, &response);
                    let hold = response.extensions_mut().remove::<Held>();
                    Ok(response.map(|body| Body::new(Admission { body, _share: share, _hold: hold })))
                }
                Err(_) => Ok(wording(Refusal::TooSlow { limit }).into_http()),
            }
        })
    }
}

/// Among a response's extensions: what is held until its last frame is gone.
#[derive(Clone, Debug)]
pub struct Held(pub Arc<Hold>);

/// A response under way takes room until its last frame is gone.
struct Admission {
    body: Body,
    _share: Arc<Share>,
    _hold: Option<Held>,
}

impl http_body::Body for Admission {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(task)
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
    use std::convert::Infallible;

    use std::time::Duration;

    use http_body_util::{BodyExt, Full, StreamBody};
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;
    use crate::admission::Budget;

    const WORDS: Words =
        Words { of: |refusal| Status::resource_exhausted(format!("{refusal:?}")), notable: |_| None };

    #[tokio::test]
    async fn what_an_answer_holds_is_held_until_its_last_byte() {
        let budget = Budget::new(100);
        let client = ClientKey("a".into());
        let own = budget.clone();
        let of = client.clone();
        let inner = tower::service_fn(move |_: Request<Body>| {
            let mut response = Response::new(Body::new(Full::new(Bytes::from_static(b"answer"))));
            response.extensions_mut().insert(Held(Arc::new(own.take(&of, 100).unwrap())));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let layer = GuardLayer::new(Authenticator::default(), Limits::default(), WORDS);
        let request = Request::post("/grpc.health.v1.Health/Check").body(Body::empty()).unwrap();
        let response = layer.layer(inner).call(request).await.unwrap();
        assert!(budget.take(&client, 1).is_err(), "the caller has not read it yet");
        drop(response);
        budget.take(&client, 100).unwrap();
    }

    /// The answer to a message of so many bytes whose last never comes.
    async fn half_sent<S>(mut guarded: Guarded<S>, path: &str, bytes: usize) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S::Future: Send + 'static,
    {
        let claim = u32::try_from(bytes).unwrap().to_be_bytes();
        let begun = [&[0][..], &claim, &vec![7; bytes - 1][..]].concat();
        let begun = tokio_stream::once(Ok::<_, Status>(Frame::data(Bytes::from(begun))));
        let frames = tokio_stream::StreamExt::chain(begun, tokio_stream::pending());
        let body = Body::new(StreamBody::new(frames));
        guarded.call(Request::post(path).body(body).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn what_was_refused_is_told_and_what_was_answered_is_not() {
        let inner = tower::service_fn(|request: Request<Body>| {
            let response = match request.uri().path() {
                "/grpc.health.v1.Health/Check" => Response::new(Body::empty()),
                _ => Status::already_exists("another has it").into_http(),
            };
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let words = Words { notable: |status| Some(status.code().to_string()), ..WORDS };
        let told = |guard: &Guard| !guard.refused.is_due(&format!("local {}", tonic::Code::AlreadyExists));
        for (path, is_told) in [("/grpc.health.v1.Health/Check", false), ("/rustle.v1.Noise/Bind", true)] {
            let layer = GuardLayer::new(Authenticator::default(), Limits::default(), words);
            let mut guarded = layer.layer(inner);
            guarded.call(Request::post(path).body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(told(&guarded.guard), is_told, "{path}");
        }
    }

    /// The answer to a binding of 4 MiB.
    async fn whole<S>(mut guarded: Guarded<S>) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        S::Future: Send + 'static,
    {
        let bytes = [&[0][..], &(4_u32 << 20).to_be_bytes(), &vec![7; 4 << 20][..]].concat();
        let request = Request::post("/rustle.v1.Noise/Bind").body(Body::new(Full::new(Bytes::from(bytes))));
        guarded.call(request.unwrap()).await.unwrap()
    }

    fn is_refused(answer: &Response<Body>) -> bool {
        Status::from_header_map(answer.headers()).is_some()
    }

    #[tokio::test]
    async fn messages_that_wait_for_their_answer_have_a_bound_too() {
        let answering = Arc::new(tokio::sync::Semaphore::new(0));
        let turn = answering.clone();
        let inner = tower::service_fn(move |request: Request<Body>| {
            let turn = turn.clone();
            async move {
                let response = match request.into_body().collect().await {
                    Ok(_) => Response::new(Body::empty()),
                    Err(status) => return Ok(status.into_http()),
                };
                let _turn = turn.acquire().await.unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        let guarded = GuardLayer::new(Authenticator::default(), Limits::default(), WORDS).layer(inner);
        let mut calls = JoinSet::new();
        (0..20).for_each(|_| _ = calls.spawn(whole(guarded.clone())));
        for _ in 0..4 {
            let refused = timeout(Duration::from_secs(5), calls.join_next()).await.unwrap();
            assert!(is_refused(&refused.unwrap().unwrap()), "64 MiB of one caller wait");
        }
        answering.add_permits(1);
        for _ in 0..16 {
            let answered = timeout(Duration::from_secs(5), calls.join_next()).await.unwrap();
            assert!(!is_refused(&answered.unwrap().unwrap()));
        }
        assert!(!is_refused(&whole(guarded).await), "and there is room again");
    }

    #[tokio::test]
    async fn who_calls_and_leaves_again_and_again_has_no_more_room_than_who_stays() {
        let working = Arc::new(tokio::sync::Semaphore::new(0));
        let turn = working.clone();
        let inner = tower::service_fn(move |request: Request<Body>| {
            let turn = turn.clone();
            async move {
                if let Err(status) = request.into_body().collect().await {
                    return Ok(status.into_http());
                }
                let held = under_way();
                let turn = turn.clone();
                let working = tokio::spawn(async move {
                    let _held = held.expect("a call");
                    let _turn = turn.acquire().await.unwrap();
                });
                working.await.unwrap();
                Ok::<_, Infallible>(Response::new(Body::empty()))
            }
        });
        let guarded = GuardLayer::new(Authenticator::default(), Limits::default(), WORDS).layer(inner);
        let mut calls = JoinSet::new();
        (0..16).for_each(|_| _ = calls.spawn(whole(guarded.clone())));
        assert!(timeout(Duration::from_millis(200), calls.join_next()).await.is_err(), "all of them work");
        calls.shutdown().await;
        assert!(is_refused(&whole(guarded.clone()).await), "their work goes on");
        working.add_permits(1);
        let is_taken = async {
            while is_refused(&whole(guarded.clone()).await) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(5), is_taken).await.expect("room, once their work is done");
    }

    #[tokio::test]
    async fn messages_that_never_come_whole_have_a_bound_together() {
        let inner = tower::service_fn(|request: Request<Body>| async {
            let response = match request.into_body().collect().await {
                Ok(_) => Response::new(Body::empty()),
                Err(status) => status.into_http(),
            };
            Ok::<_, Infallible>(response)
        });
        let guarded = GuardLayer::new(Authenticator::default(), Limits::default(), WORDS).layer(inner);
        let path = "/rustle.v1.Noise/Bind";
        let limit = 4 << 20;
        let mut calls = JoinSet::new();
        (0..200).for_each(|_| _ = calls.spawn(half_sent(guarded.clone(), path, limit)));
        let mut refused = 0;
        while let Ok(Some(ended)) = timeout(Duration::from_secs(1), calls.join_next()).await {
            let status = Status::from_header_map(ended.unwrap().headers()).unwrap();
            assert!(status.message().contains("Busy"), "{status}");
            refused += 1;
        }
        assert_eq!((refused, calls.len()), (184, 16), "64 MiB of one caller");
        calls.shutdown().await;
        let again = timeout(Duration::from_millis(200), half_sent(guarded, path, limit)).await;
        assert!(again.is_err(), "it is waited for again");
    }
}
