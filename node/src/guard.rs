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

use crate::auth::{Authenticator, Refusal};
use crate::connection::Reached;
use crate::limits::{
    CappedBody, Claim, Hold, Limits, Rates, Share, Shares, TOO_LARGE, is_endless, request_bytes, time,
};

/// How a process words a refusal: typed, and with the kind of error that its clients know.
pub type Wording = fn(Refusal) -> Status;

#[derive(Clone)]
pub struct GuardLayer(Arc<Guard>);

struct Guard {
    authenticator: Authenticator,
    calls: Shares,
    rates: Rates,
    limits: Limits,
    wording: Wording,
}

impl GuardLayer {
    pub fn new(authenticator: Authenticator, limits: Limits, wording: Wording) -> Self {
        let calls = Shares::new(limits.calls);
        let rates = Rates::new(limits.calls_per_second);
        Self(Arc::new(Guard { authenticator, calls, rates, limits, wording }))
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

impl Guard {
    fn admit(&self, request: &mut Request<Body>) -> Result<Share, Refusal> {
        let caller = self.authenticator.caller(request.extensions(), request.headers())?;
        let admitted = self.authenticator.admit(&caller, request.uri().path())?;
        if !self.rates.take(&caller.key) {
            let limit = format!("{} a second", self.limits.calls_per_second);
            return Err(Refusal::Busy { what: "this caller's rate of calls", limit });
        }
        let claim = match caller.is_of_cluster() {
            true => Claim::Cluster,
            false if is_endless(request.uri().path()) => Claim::Endless,
            false => Claim::Client,
        };
        let share = self.calls.take(&caller.key, claim)?;
        request.extensions_mut().insert(admitted);
        request.extensions_mut().insert(caller.key);
        Ok(share)
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
        let pace = request.extensions().get::<Reached>().map(|reached| reached.pace.clone());
        let share = match self.guard.admit(&mut request) {
            Ok(share) => share,
            Err(refusal) => return Box::pin(async move { Ok(wording(refusal).into_http()) }),
        };
        let (bytes, limit) = (request_bytes(request.uri().path()), time(request.uri().path()));
        let refused = Box::new(move || {
            pace.iter().for_each(|pace| pace.spend(TOO_LARGE));
            wording(Refusal::TooLarge { limit: bytes })
        });
        let request = request
            .map(|body| Body::new(CappedBody { body, limit: bytes, taken: 0, prefix: Vec::new(), refused }));
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

    use http_body_util::Full;

    use super::*;
    use crate::auth::ClientKey;
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
}
