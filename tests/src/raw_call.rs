//! A single gRPC call by its path, for callers without the right to make it.

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use proto::ServiceError;
use tonic::{Code, Status, body::Body, transport::Channel};
use tower::{Service, ServiceExt};

/// Returns the message that our requests begin with: a name in field 1.
pub fn about(name: &str) -> Bytes {
    let mut message = BytesMut::new();
    message.put_u8(0x0a);
    message.put_u8(u8::try_from(name.len()).expect("a short name"));
    message.put_slice(name.as_bytes());
    message.freeze()
}

/// Sends the message and returns the error of the call, if any.
pub async fn call(
    mut channel: Channel,
    path: &str,
    bearer: Option<&str>,
    message: Bytes,
) -> Result<(), ServiceError> {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put(message);
    let mut request = Request::post(path).header(CONTENT_TYPE, "application/grpc").header("te", "trailers");
    if let Some(bearer) = bearer {
        request = request.header("authorization", format!("Bearer {bearer}"));
    }
    let request = request.body(Body::new(Full::new(framed.freeze()))).expect("a valid request");
    let lost = |error: tonic::transport::Error| ServiceError::Unavailable { what: format!("{error:?}") };
    let response = channel.ready().await.map_err(lost)?.call(request).await.map_err(lost)?;
    if let Some(status) = Status::from_header_map(response.headers()) {
        return ended(status);
    }
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(ServiceError::from)?;
        if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
            return ended(status);
        }
    }
    Err(ServiceError::Unavailable { what: "a status".into() })
}

fn ended(status: Status) -> Result<(), ServiceError> {
    if status.code() == Code::Ok { Ok(()) } else { Err(status.into()) }
}
