//! Errors as gRPC statuses: the typed error travels in a trailer beside the status.

use prost::Message;
use tonic::{Code, Status, metadata::MetadataValue};

use super::ServiceError;
use crate::pb;

/// The trailer that holds the encoded [`pb::ErrorDetail`].
pub(super) const TRAILER: &str = "rustle-error-bin";

impl ServiceError {
    /// Returns the kind of a notable error; `None` where `status` carries no [`ServiceError`], or none that is notable.
    pub fn notable_kind(status: &Status) -> Option<String> {
        status.metadata().get_bin(TRAILER)?;
        let error = Self::from(status.clone());
        error.is_notable().then(|| error.kind().to_owned())
    }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let detail = pb::ErrorDetail {
            kind: error.kind().to_owned(),
            retry_safe: error.retry_safe(),
            fields_json: serde_json::to_string(&error).unwrap_or_default(),
        };
        let mut status = Status::new(error.code(), error.to_string());
        status.metadata_mut().insert_bin(TRAILER, MetadataValue::from_bytes(&detail.encode_to_vec()));
        status
    }
}

impl From<Status> for ServiceError {
    /// Restores the error that a Rustle service sent. Any other status is the transport's, and safe to retry only where
    /// the request can't have been answered.
    fn from(status: Status) -> Self {
        let carried = status.metadata().get_bin(TRAILER).and_then(|value| value.to_bytes().ok());
        if let Some(detail) = carried.and_then(|bytes| pb::ErrorDetail::decode(bytes).ok()) {
            return serde_json::from_str(&detail.fields_json).unwrap_or_else(|_| {
                // An error of another release, which this one does not know: its promise holds all the same.
                let what = format!("{}: {}", detail.kind, status.message());
                if detail.retry_safe {
                    ServiceError::Unavailable { what }
                } else {
                    ServiceError::internal(what)
                }
            });
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown => {
                ServiceError::Unavailable { what: format!("{}: {}", status.code(), status.message()) }
            }
            code => ServiceError::internal(format!("{code}: {}", status.message())),
        }
    }
}
