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

use crate::auth::{Authenticator, ClientKey, Refusal};
use crate::connection::Reached;
use crate::limits::{
    Arriving, CappedBody, Claim, Hold, Limits, Rates, Share, Shares, TOO_LARGE, is_endless, request_bytes,
    time,
};

/// How a process words a refusal: typed, and with the kind of error that its clients know.
pub type Wording = fn(Refusal) -> Status;

#[derive(Clone)]
pub struct GuardLayer(Arc<Guard>);

struct Guard {
    authenticator: Authenticator,
    calls: Shares,
    rates: Rates,
    arriving: Arriving,
    limits: Limits,
    wording: Wording,
}

impl GuardLayer {
    pub fn new(authenticator: Authenticator, limits: Limits, wording: Wording) -> Self {
        let calls = Shares::new(limits.calls);
        let rates = Rates::new(limits.calls_per_second);
        let arriving = Arriving::default();
        Self(Arc::new(Guard { authenticator, calls, rates, arriving, limits, wording }))
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
        let claim = match is_of_cluster {
            true => Claim::Cluster,
            false if is_endless(request.uri().path()) => Claim::Endless,
            false => Claim::Client,
        };
        let share = self.calls.take(&caller.key, claim)?;
        request.extensions_mut().insert(admitted);
        request.extensions_mut().insert(caller.key.clone());
        Ok(Entered { share, caller: caller.key, is_of_cluster })
    }

    /// The request, read no further than it may be long and there is room for it.
    fn cap(&self, request: Request<Body>, caller: ClientKey, is_of_cluster: bool) -> Request<Body> {
        let (bytes, wording) = (request_bytes(request.uri().path()), self.wording);
        let pace = request.extensions().get::<Reached>().map(|reached| reached.pace.clone());
        let refused = Box::new(move || {
            pace.iter().for_each(|pace| pace.spend(TOO_LARGE));
            wording(Refusal::TooLarge { limit: bytes })
        });
        let arriving = self.arriving.clone();
        let room = move |bytes| arriving.take(&caller, is_of_cluster, bytes).map_err(wording);
        request.map(|body| Body::new(CappedBody::new(body, bytes, refused, Box::new(room))))
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
        let wording = self.guard.wording;
        let Entered { share, caller, is_of_cluster } = match self.guard.admit(&mut request) {
            Ok(entered) => entered,
            Err(refusal) => return Box::pin(async move { Ok(wording(refusal).into_http()) }),
        };
        let limit = time(request.uri().path());
        let request = self.guard.cap(request, caller, is_of_cluster);
        let handling = self.inner.call(request);
        Box::pin(async move {
            match tokio::time::timeout(limit, handling).await {
                Ok(response) => {
                    let mut response = response?;
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
    _share: Share,
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
    use crate::limits::Budget;

    #[tokio::test]
    async fn what_an_answer_holds_is_held_until_its_last_byte() {
        let (budget, client) = (Budget::new(100), ClientKey("a".into()));
        let (own, of) = (budget.clone(), client.clone());
        let inner = tower::service_fn(move |_: Request<Body>| {
            let mut response = Response::new(Body::new(Full::new(Bytes::from_static(b"answer"))));
            response.extensions_mut().insert(Held(Arc::new(own.take(&of, 100).unwrap())));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let wording = |refusal: Refusal| Status::internal(format!("{refusal:?}"));
        let layer = GuardLayer::new(Authenticator::default(), Limits::default(), wording);
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
    async fn messages_that_never_come_whole_have_a_bound_together() {
        let inner = tower::service_fn(|request: Request<Body>| async {
            let response = match request.into_body().collect().await {
                Ok(_) => Response::new(Body::empty()),
                Err(status) => status.into_http(),
            };
            Ok::<_, Infallible>(response)
        });
        let wording = |refusal: Refusal| Status::resource_exhausted(format!("{refusal:?}"));
        let guarded = GuardLayer::new(Authenticator::default(), Limits::default(), wording).layer(inner);
        let (path, limit) = ("/rustle.v1.Noise/Bind", 4 << 20);
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
