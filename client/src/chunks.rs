//! The answer to one `FetchSlice` call, read from the HTTP/2 body itself: the data of a chunk stays in the pieces in
//! which it arrived, and is copied once, to where the caller wants it.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use prost::Message;
use proto::{FRAME_PREFIX, FrameReader, ReceivedChunk, Result, ServiceError, pb, rpc};
use tonic::{Code, Status, body::Body};
use tower::{Service, ServiceExt};

use crate::connections::{WorkerChannel, from_status};

/// The chunks of one response, as they arrive.
pub(crate) struct Chunks {
    body: Body,
    reader: FrameReader,
    has_ended: bool,
}

impl Chunks {
    /// Sends the request; returns once the response has begun.
    pub async fn open(mut channel: WorkerChannel, request: &pb::FetchSliceRequest) -> Result<Self> {
        let request = Request::post(rpc::FETCH_SLICE)
            .header(CONTENT_TYPE, "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Full::new(framed(request))))
            .map_err(ServiceError::internal)?;
        let channel = channel.ready().await.map_err(lost)?;
        let response = channel.call(request).await.map_err(lost)?;
        Self::begin(response.map(Body::new))
    }

    fn begin(response: Response<Body>) -> Result<Self> {
        if response.status() != StatusCode::OK {
            return Err(lost(format!("HTTP status {}", response.status())));
        }
        // An error, or an empty answer, comes as headers alone.
        let has_ended = ended(response.headers())?;
        Ok(Self { body: response.into_body(), reader: FrameReader::default(), has_ended })
    }

    /// Returns the next whole chunk; `None` at the end that the worker announced. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<ReceivedChunk>> {
        loop {
            if let Some(chunk) = self.reader.next_chunk()? {
                return Ok(Some(chunk));
            }
            if self.has_ended {
                return if self.reader.is_inside() {
                    Err(lost("it ended inside a message"))
                } else {
                    Ok(None)
                };
            }
            let frame = self.body.frame().await.ok_or_else(|| lost("it ended without a status"))?;
            match frame.map_err(from_status)?.into_data() {
                Ok(data) => self.reader.push(data),
                Err(frame) => self.has_ended = ended(frame.trailers_ref().unwrap_or(&HeaderMap::new()))?,
            }
        }
    }
}

fn framed(request: &pb::FetchSliceRequest) -> Bytes {
    let mut frame = vec![0; FRAME_PREFIX];
    request.encode_raw(&mut frame);
    let length = (frame.len() - FRAME_PREFIX) as u32;
    frame[1..FRAME_PREFIX].copy_from_slice(&length.to_be_bytes());
    frame.into()
}

/// Returns whether these headers end the call successfully.
fn ended(headers: &HeaderMap) -> Result<bool> {
    match Status::from_header_map(headers) {
        None => Ok(false),
        Some(status) if status.code() == Code::Ok => Ok(true),
        Some(status) => Err(status.into()),
    }
}

fn lost(error: impl ToString) -> ServiceError {
    ServiceError::Unavailable { what: format!("the worker's answer ({})", error.to_string()) }
}
