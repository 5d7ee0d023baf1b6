//! The generated service. Its `FetchSlice` is not reached over a socket: [`super::slices`] answers it without copies.

use std::{pin::Pin, sync::Arc};

use futures::{Stream, StreamExt};
use proto::{
    model::FetchSlice,
    pb::{self, shards_server},
};
use tonic::{Request, Response, Status};

use crate::service::NoiseService;

/// The service `Shards` over a worker's service.
#[derive(Clone, Debug)]
pub struct Shards(pub Arc<NoiseService>);

#[tonic::async_trait]
impl shards_server::Shards for Shards {
    type FetchSliceStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk, Status>> + Send>>;

    async fn fetch_slice(
        &self,
        request: Request<pb::FetchSliceRequest>,
    ) -> Result<Response<Self::FetchSliceStream>, Status> {
        let request = FetchSlice::try_from(request.into_inner())?;
        let chunks = self.0.fetch_slice(request)?;
        Ok(Response::new(Box::pin(chunks.map(|chunk| chunk.map_err(Status::from)))))
    }

    async fn snapshot(
        &self,
        request: Request<pb::SnapshotRequest>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        let taken = self.0.obey(&request.into_inner().try_into()?).await?;
        Ok(Response::new(pb::SnapshotResponse {
            next_row: taken.next_row,
            bytes: taken.written.bytes,
            sha256: taken.written.sha256.to_vec(),
            seconds: taken.duration.as_secs_f64(),
            held_seconds: taken.locked.as_secs_f64(),
            row_seconds: taken.row_time.as_secs_f64(),
        }))
    }
}
