//! A value that is refused, for pure functions that decide nothing else.

use crate::ServiceError;

/// A value outside of what is allowed. Every crate makes its own error of it, and a service answers
/// [`ServiceError::InvalidArgument`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; allowed: {allowed}")]
pub struct InvalidValue {
    /// The name of the argument or field.
    pub field: &'static str,
    /// The value as text.
    pub value: String,
    /// The values that would be accepted.
    pub allowed: String,
}

impl InvalidValue {
    /// Creates the error for `field`.
    pub fn new(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }
}

impl From<InvalidValue> for ServiceError {
    fn from(error: InvalidValue) -> Self {
        let InvalidValue { field, value, allowed } = error;
        Self::invalid(field, value, allowed)
    }
}
