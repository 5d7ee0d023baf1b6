//! The layer in front of every handler. It decides who calls, whether they may, and whether there is room.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use proto::rpc::{self, Rpc};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};
use tower::{Layer, Service};
use tracing::warn;

use super::body_limit::MessageLimit;
use super::{
    CallClass, CallPermit, CallRates, ErrorMapping, FairShare, InFlight, InflightBytes, LimitedBody, Limits,
    MessagePermit, Reservation,
};
use crate::auth::{Authenticator, ClientKey, Refusal};
use crate::net::peer::PeerInfo;
use crate::telemetry::rate_limited_log::RateLimitedLog;

/// Longest reason of a refused request in the log, in characters: a caller may have chosen it.
const LOGGED_REASON_CHARS: usize = 1024;

/// Puts authentication, authorisation and limits in front of a gRPC server. One layer, so that no call gets around
/// any of them.
#[derive(Clone)]
pub struct GuardLayer(Arc<Guard>);

struct Guard {
    authenticator: Authenticator,
    rpcs: &'static [Rpc],
    calls: FairShare,
    rates: CallRates,
    inflight_bytes: InflightBytes,
    limits: Limits,
    errors: Arc<dyn ErrorMapping>,
    /// Logs each caller and kind of error once a minute.
    refused: RateLimitedLog,
}

impl GuardLayer {
    /// Returns a layer that admits the calls of `rpcs` to the callers that `authenticator` knows, within `limits`.
    pub fn new(
        authenticator: Authenticator,
        limits: Limits,
        rpcs: &'static [Rpc],
        errors: impl ErrorMapping,
    ) -> Self {
        Self(Arc::new(Guard {
            authenticator,
            rpcs,
            calls: FairShare::new(limits.calls),
            rates: CallRates::new(limits.calls_per_second),
            inflight_bytes: InflightBytes::default(),
            limits,
            errors: Arc::new(errors),
            refused: RateLimitedLog::default(),
        }))
    }
}

impl<S> Layer<S> for GuardLayer {
    type Service = GuardService<S>;

    fn layer(&self, inner: S) -> GuardService<S> {
        GuardService { inner, guard: self.0.clone() }
    }
}

/// A service behind a [`GuardLayer`].
#[derive(Clone)]
pub struct GuardService<S> {
    inner: S,
    guard: Arc<Guard>,
}

/// The outcome for a call that may be handled.
struct Admission {
    permit: CallPermit,
    caller: ClientKey,
    is_of_cluster: bool,
}

impl Guard {
    fn admit(&self, request: &mut Request<Body>, rpc: Option<&'static Rpc>) -> Result<Admission, Refusal> {
        let caller = self.authenticator.caller(request.extensions(), request.headers())?;
        let access = self.authenticator.admit(&caller, rpc)?;
        if !self.rates.take(&caller.key) {
            let limit = format!("{} a second", self.limits.calls_per_second);
            return Err(Refusal::Busy { what: "this caller's rate of calls", limit });
        }
        let is_of_cluster = caller.is_of_cluster();
        let class = if is_of_cluster {
            CallClass::Cluster
        } else if rpc.is_some_and(|rpc| rpc.is_endless(request.uri().path())) {
            CallClass::Endless
        } else {
            CallClass::Client
        };
        let permit = self.calls.take(&caller.key, class)?;
        request.extensions_mut().insert(access);
        request.extensions_mut().insert(caller.key.clone());
        Ok(Admission { permit, caller: caller.key, is_of_cluster })
    }

    /// Returns the request with a body that is read no further than it may be long and there is room for it.
    fn limit_body(
        &self,
        request: Request<Body>,
        rpc: Option<&Rpc>,
        caller: ClientKey,
        is_of_cluster: bool,
    ) -> (Request<Body>, MessagePermit) {
        let limit = MessageLimit {
            bytes: rpc.map_or(rpc::CONTROL_BYTES, |rpc| rpc.request_bytes),
            throttle: request.extensions().get::<PeerInfo>().map(|info| info.throttle.clone()),
            inflight_bytes: self.inflight_bytes.clone(),
            caller,
            is_of_cluster,
            errors: self.errors.clone(),
        };
        let (parts, body) = request.into_parts();
        let body = LimitedBody::new(body, limit);
        let permit = body.permit();
        (Request::from_parts(parts, Body::new(body)), permit)
    }

    /// Logs that a caller's request was refused, once a minute for each caller and kind.
    fn log_refusal(&self, caller: &ClientKey, path: &str, response: &Response<Body>) {
        let Some(status) = Status::from_header_map(response.headers()) else { return };
        let Some(kind) = self.errors.notable(&status) else { return };
        if self.refused.is_due(&format!("{} {kind}", caller.0)) {
            let reason: String = status.message().chars().take(LOGGED_REASON_CHARS).collect();
            warn!(peer = %caller.0, kind, path, reason, "a request was refused");
        }
    }
}

impl<S> Service<Request<Body>> for GuardService<S>
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
        let guard = self.guard.clone();
        let rpc = rpc::find_in(guard.rpcs, request.uri().path());
        let Admission { permit, caller, is_of_cluster } = match guard.admit(&mut request, rpc) {
            Ok(admission) => admission,
            Err(refusal) => return Box::pin(async move { Ok(guard.errors.status(refusal).into_http()) }),
        };
        let limit = rpc.map_or(rpc::CONTROL_TIME, |rpc| rpc.time);
        let path = request.uri().path().to_owned();
        let (request, message) = guard.limit_body(request, rpc, caller.clone(), is_of_cluster);
        let permit = Arc::new(permit);
        let in_flight = InFlight::new(permit.clone(), message);
        let handling = self.inner.call(request);
        Box::pin(async move {
            // A message stays in memory until it is answered, also while its call waits behind others.
            match tokio::time::timeout(limit, in_flight.scope(handling)).await {
                Ok(response) => {
                    let mut response = response?;
                    guard.log_refusal(&caller, &path, &response);
                    let reservation = response.extensions_mut().remove::<ResponseReservation>();
                    Ok(response.map(|body| {
                        Body::new(PermitBody { body, _permit: permit, _reservation: reservation })
                    }))
                }
                Err(_) => Ok(guard.errors.status(Refusal::TooSlow { limit }).into_http()),
            }
        })
    }
}

/// A reservation that a handler puts among its response's extensions: it is kept until the response's last frame is
/// sent.
#[derive(Clone, Debug)]
pub struct ResponseReservation(pub Arc<Reservation>);

/// A response body that takes room until its last frame is sent.
struct PermitBody {
    body: Body,
    _permit: Arc<CallPermit>,
    _reservation: Option<ResponseReservation>,
}

impl http_body::Body for PermitBody {
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
    use crate::admission::{Budget, in_flight};

    /// Names every error, or none.
    struct Errors {
        all_notable: bool,
    }

    impl ErrorMapping for Errors {
        fn status(&self, refusal: Refusal) -> Status {
            Status::resource_exhausted(format!("{refusal:?}"))
        }

        fn notable(&self, status: &Status) -> Option<String> {
            self.all_notable.then(|| status.code().to_string())
        }
    }

    fn layer(all_notable: bool) -> GuardLayer {
        GuardLayer::new(Authenticator::default(), Limits::default(), rpc::RPCS, Errors { all_notable })
    }

    #[tokio::test]
    async fn what_an_answer_holds_is_held_until_its_last_byte() {
        let budget = Budget::new(100);
        let client = ClientKey("a".into());
        let own = budget.clone();
        let of = client.clone();
        let inner = tower::service_fn(move |_: Request<Body>| {
            let mut response = Response::new(Body::new(Full::new(Bytes::from_static(b"answer"))));
            response.extensions_mut().insert(ResponseReservation(Arc::new(own.take(&of, 100).unwrap())));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let request = Request::post("/grpc.health.v1.Health/Check").body(Body::empty()).unwrap();
        let response = layer(false).layer(inner).call(request).await.unwrap();
        assert!(budget.take(&client, 1).is_err(), "the caller has not read it yet");
        drop(response);
        budget.take(&client, 100).unwrap();
    }

    /// The answer to a message of so many bytes whose last never comes.
    async fn half_sent<S>(mut guarded: GuardService<S>, path: &str, bytes: usize) -> Response<Body>
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
        let told = |guard: &Guard| !guard.refused.is_due(&format!("local {}", tonic::Code::AlreadyExists));
        for (path, is_told) in [("/grpc.health.v1.Health/Check", false), ("/rustle.v1.Noise/Bind", true)] {
            let mut guarded = layer(true).layer(inner);
            guarded.call(Request::post(path).body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(told(&guarded.guard), is_told, "{path}");
        }
    }

    /// The answer to a binding of 4 MiB.
    async fn whole<S>(mut guarded: GuardService<S>) -> Response<Body>
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
        let guarded = layer(false).layer(inner);
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
                let held = in_flight();
                let turn = turn.clone();
                let working = tokio::spawn(async move {
                    let _held = held.expect("a call");
                    let _turn = turn.acquire().await.unwrap();
                });
                working.await.unwrap();
                Ok::<_, Infallible>(Response::new(Body::empty()))
            }
        });
        let guarded = layer(false).layer(inner);
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
        let guarded = layer(false).layer(inner);
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
