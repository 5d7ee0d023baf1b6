//! In front of every handler: who calls, may they, and is there room. One layer, so that no call gets around any of
//! it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::body::Body;
use tonic::{Status, codegen::Bytes};
use tower::{Layer, Service};

use crate::auth::{Authenticator, Refusal};
use crate::connection::Reached;
use crate::limits::{CappedBody, Limits, Rates, TOO_LARGE, request_bytes, time};

/// How a process words a refusal: typed, and with the kind of error that its clients know.
pub type Wording = fn(Refusal) -> Status;

#[derive(Clone)]
pub struct GuardLayer(Arc<Guard>);

struct Guard {
    authenticator: Authenticator,
    calls: Arc<Semaphore>,
    rates: Rates,
    limits: Limits,
    wording: Wording,
}

impl GuardLayer {
    pub fn new(authenticator: Authenticator, limits: Limits, wording: Wording) -> Self {
        let calls = Arc::new(Semaphore::new(limits.calls));
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
    fn admit(&self, request: &mut Request<Body>) -> Result<OwnedSemaphorePermit, Refusal> {
        let caller = self.authenticator.caller(request.extensions(), request.headers())?;
        let admitted = self.authenticator.admit(&caller, request.uri().path())?;
        if !self.rates.take(&caller.key) {
            let limit = format!("{} a second", self.limits.calls_per_second);
            return Err(Refusal::Busy { what: "this caller's rate of calls", limit });
        }
        let busy =
            |_| Refusal::Busy { what: "room for calls", limit: format!("{} at once", self.limits.calls) };
        let permit = self.calls.clone().try_acquire_owned().map_err(busy)?;
        request.extensions_mut().insert(admitted);
        request.extensions_mut().insert(caller.key);
        Ok(permit)
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
        let permit = match self.guard.admit(&mut request) {
            Ok(permit) => permit,
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
                Ok(response) => Ok(response?.map(|body| Body::new(Admission { body, _permit: permit }))),
                Err(_) => Ok(wording(Refusal::TooSlow { limit }).into_http()),
            }
        })
    }
}

/// A response under way takes room until its last frame is gone.
struct Admission {
    body: Body,
    _permit: OwnedSemaphorePermit,
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
