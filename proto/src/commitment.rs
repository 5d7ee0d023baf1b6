//! What a row is bound to.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ServiceError;

/// Digest of what a step's gradient is made of. It must change whenever the released sum could change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Commitment(pub [u8; 32]);

impl Commitment {
    /// A `declared` commitment from any text that names the step's data.
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::new().chain_update(b"rustle commitment v1").chain_update(text).finalize().into())
    }
}

impl TryFrom<&[u8]> for Commitment {
    type Error = ServiceError;
    fn try_from(bytes: &[u8]) -> Result<Self, ServiceError> {
        bytes
            .try_into()
            .map(Self)
            .map_err(|_| ServiceError::invalid("commitment", format!("{} bytes", bytes.len()), "32 bytes"))
    }
}

impl fmt::Debug for Commitment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commitment({}…)", hex::encode(&self.0[..6]))
    }
}
