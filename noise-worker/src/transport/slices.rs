//! Answers `FetchSlice` in front of the generated service, whose responses would be copied into messages. All other methods
//! are left to that service.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Limited};
use node::{
    admission::Budget,
    auth::{Access, ClientKey, Refusal},
};
use prost::Message;
use proto::{
    FRAME_PREFIX, MAX_MESSAGE_BYTES, PROTOCOL_HEADER, ServiceError, check_protocol,
    model::FetchSlice,
    pb::{self, shards_server::ShardsServer},
};
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use super::{error_mapping::refusal_to_status, frames::ChunkBody, grpc::Shards};
use crate::service::NoiseService;

const PATH: &str = proto::rpc::FETCH_SLICE;

/// The service `Shards` with a `FetchSlice` that copies nothing.
#[derive(Clone)]
pub struct Slices {
    service: Arc<NoiseService>,
    budget: Budget,
    others: ShardsServer<Shards>,
}

impl Slices {
    pub fn new(service: Arc<NoiseService>, budget: Budget) -> Self {
        let others = ShardsServer::new(Shards(service.clone()))
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self { service, budget, others }
    }
}

impl NamedService for Slices {
    const NAME: &'static str = <ShardsServer<Shards> as NamedService>::NAME;
}

impl Service<Request<Body>> for Slices {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != PATH {
            return self.others.call(request);
        }
        let service = self.service.clone();
        let budget = self.budget.clone();
        Box::pin(async move { Ok(fetch(&service, &budget, request).await.unwrap_or_else(Status::into_http)) })
    }
}

async fn fetch(
    service: &Arc<NoiseService>,
    budget: &Budget,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    let (head, body) = request.into_parts();
    // Without the guard in front the caller is not authenticated.
    let (Some(admitted), Some(client)) =
        (head.extensions.get::<Access>(), head.extensions.get::<ClientKey>())
    else {
        return Err(refusal_to_status(Refusal::Unauthenticated));
    };
    check_protocol(head.headers.get(PROTOCOL_HEADER).map(|version| version.as_bytes()))?;
    let message = read(body).await?;
    admitted.check_name(&message.job).map_err(refusal_to_status)?;
    let request = FetchSlice::try_from(message)?;
    let bytes = request.rows.len().saturating_mul(request.range.len()).saturating_mul(4);
    let hold = budget.take(client, bytes).map_err(refusal_to_status)?;
    let chunks = service.fetch_slice(request)?;
    let mut response = Response::new(Body::new(ChunkBody::new(chunks, hold)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

/// Reads the one message of the request.
async fn read(body: Body) -> Result<pb::FetchSliceRequest, Status> {
    let whole = Limited::new(body, FRAME_PREFIX + MAX_MESSAGE_BYTES).collect().await;
    // The guard's status for a body that is too long is passed on as it is.
    let whole = whole.map_err(Status::from_error)?;
    let bytes = whole.to_bytes();
    let refused = |value: String| {
        Status::from(ServiceError::invalid("request", value, "one whole gRPC message, not compressed"))
    };
    let (prefix, message) =
        bytes.split_at_checked(FRAME_PREFIX).ok_or_else(|| refused(format!("{} bytes", bytes.len())))?;
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    if prefix[0] != 0 {
        return Err(Status::unimplemented("the request is compressed; allowed: identity"));
    }
    if length != message.len() {
        return Err(refused(format!("a message of {length} bytes in {} bytes", message.len())));
    }
    pb::FetchSliceRequest::decode(message).map_err(|error| refused(error.to_string()))
}
