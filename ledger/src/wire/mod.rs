//! Decoders of what lies in etcd, public for fuzzing alone: no promise is made about them.

pub mod change;
pub mod json_codec;
pub mod log_record;

pub use crate::error::Fail;
