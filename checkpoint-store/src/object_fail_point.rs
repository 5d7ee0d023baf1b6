//! Fail points of a checkpoint's objects.

/// Fails with [`crate::CheckpointError::Store`] where the point is armed with `return`, with the text that it was armed
/// with. Expands to nothing without the feature `failpoints`.
macro_rules! object_fail_point {
    ($name:literal, $object:expr) => {
        durable_io::fail_point!($name, |reason| crate::CheckpointError::Store {
            object: $object.to_string(),
            reason: reason.unwrap_or_else(|| concat!("injected at ", $name).to_owned()),
        });
    };
}

pub(crate) use object_fail_point;
