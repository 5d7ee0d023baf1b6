//! The ledger's records of sweeps: a random number of runs, charged for as one selection among them.

use std::fmt;

use proto::{DataSetId, SweepId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What precedes the seed in the digest that commits to it.
const DOMAIN: &[u8] = b"rustle sweep v1";

/// A sweep, with the number of runs that was drawn for it. The number and the seed are secrets: chains have a digest of them,
/// and no message or `Debug` shows them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRecord {
    /// The sweep's name.
    pub sweep: SweepId,
    /// The data set that is charged for it.
    pub data_set: DataSetId,
    /// The event of one run, as JSON: that of every job of the sweep.
    pub run: String,
    /// The event that the data set is charged for, as JSON, from the beginning and for ever.
    pub charge: String,
    /// The random bytes that the number of runs was drawn from.
    pub seed: [u8; 32],
    /// The number of runs that was drawn. It never changes.
    pub runs: u64,
    /// The jobs of the sweep that were created so far.
    pub started: u64,
}

impl SweepRecord {
    /// Returns the digest, hexadecimal, that binds the sweep to its number of runs and hides it from all who lack the seed.
    pub fn commitment(&self) -> String {
        let digest = Sha256::new().chain_update(DOMAIN).chain_update(self.seed);
        hex::encode(digest.chain_update(self.runs.to_le_bytes()).finalize())
    }

    /// Returns whether every run that was drawn has been started.
    pub fn is_complete(&self) -> bool {
        self.started >= self.runs
    }
}

impl fmt::Debug for SweepRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SweepRecord");
        shown.field("sweep", &self.sweep).field("data_set", &self.data_set).field("charge", &self.charge);
        shown.finish_non_exhaustive()
    }
}
