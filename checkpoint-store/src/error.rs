//! The errors of the checkpoint store. They never hold noise, state or keys.

use proto::{InvalidValue, ServiceError};

/// An error of the checkpoint store. None of them concerns a release: a lost or damaged checkpoint costs time only.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CheckpointError {
    /// An argument that can't be accepted.
    #[error(transparent)]
    Invalid(#[from] InvalidValue),
    /// An object that is missing, damaged, or not the one that was requested.
    #[error("checkpoint {object}: {reason}")]
    Unusable {
        /// The object's name.
        object: String,
        /// The reason why it can't be used.
        reason: String,
    },
    /// The folder or bucket failed. The same call may succeed later.
    #[error("checkpoint store, {object}: {reason}")]
    Store {
        /// The object's name, or the store's URL.
        object: String,
        /// The store's own text.
        reason: String,
    },
}

impl CheckpointError {
    pub(crate) fn invalid(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        InvalidValue::new(field, value, allowed).into()
    }
}

impl From<CheckpointError> for ServiceError {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Invalid(error) => error.into(),
            CheckpointError::Unusable { object, reason } => Self::Checkpoint { object, reason },
            // An object may always be written or read again: it is no release.
            error @ CheckpointError::Store { .. } => Self::Unavailable { what: error.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_store_may_be_tried_again() {
        let invalid = ServiceError::from(CheckpointError::invalid("object", "x", "y"));
        assert_eq!(invalid, ServiceError::invalid("object", "x", "y"));
        let object = "j/1/0-512.shard".to_owned();
        let unusable = ServiceError::from(CheckpointError::Unusable {
            object: object.clone(),
            reason: "it is empty".to_owned(),
        });
        assert_eq!((unusable.kind(), unusable.retry_safe()), ("checkpoint", false));
        let store = ServiceError::from(CheckpointError::Store { object, reason: "no space".to_owned() });
        assert_eq!((store.kind(), store.retry_safe()), ("unavailable", true));
        assert!(store.to_string().contains("checkpoint store, j/1/0-512.shard: no space"), "{store}");
    }
}
