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
use crate::auth::{Authenticator, CallerName, ClientKey, Refusal};
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
    /// The caller in records.
    name: CallerName,
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
        let name = caller.name(rpc.map_or(&[], |rpc| rpc.roles));
        Ok(Admission { permit, caller: caller.key, name, is_of_cluster })
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
        let Admission { permit, caller, name, is_of_cluster } = match guard.admit(&mut request, rpc) {
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
            match tokio::time::timeout(limit, name.scope(in_flight.scope(handling))).await {
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
mod tests;
