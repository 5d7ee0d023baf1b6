//! Places where tests make a checkpoint fail or stop (feature `failpoints`); without the feature they are nothing.

/// Fails with [`crate::LedgerError::ObjectStore`] where a test says `return`.
macro_rules! fail_point {
    ($name:literal, $object:expr) => {
        fail::fail_point!($name, |reason: Option<String>| Err(crate::LedgerError::ObjectStore {
            object: $object.to_string(),
            reason: reason.unwrap_or_else(|| concat!("injected at ", $name).to_owned()),
        }))
    };
}

pub(crate) use fail_point;
