//! `rustle.v1.Noise`.

use std::pin::Pin;
use std::sync::Arc;

use proto::model::Bind;
use proto::pb::{self, noise_server::Noise};
use proto::{JobId, Result};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use super::authorize::{authorize, authorize_bind, requester_of};
use super::{answer, error_to_status};
use crate::coordinator::Coordinator;

pub struct NoiseService(pub Arc<Coordinator>);

#[tonic::async_trait]
impl Noise for NoiseService {
    async fn get_routing(
        &self,
        request: Request<pb::GetRoutingRequest>,
    ) -> Result<Response<pb::Routing>, Status> {
        let routing = JobId::new(authorize(request)?.job).map_err(Into::into);
        answer(routing.and_then(|job| self.0.routing(&job)).map(Into::into))
    }

    async fn bind(&self, request: Request<pb::BindRequest>) -> Result<Response<pb::BindResponse>, Status> {
        let requester = requester_of(&request);
        let (request, extent) = authorize_bind(request)?;
        let bind = async { self.0.bind_detached(Bind { extent, ..request.try_into()? }, requester).await };
        let released = bind.await;
        answer(released.map(|released| pb::BindResponse { grant: released.grant().to_bytes() }))
    }

    type FetchStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk, Status>> + Send>>;

    async fn fetch(&self, request: Request<pb::FetchRequest>) -> Result<Response<Self::FetchStream>, Status> {
        let requester = requester_of(&request);
        let request = authorize(request)?;
        let chunks = async { self.0.fetch(request.try_into()?, requester).await }.await;
        answer(
            chunks.map(|chunks| {
                Box::pin(chunks.map(|chunk| chunk.map_err(error_to_status))) as Self::FetchStream
            }),
        )
    }
}
