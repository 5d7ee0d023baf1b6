//! What the ledger keeps about jobs, shards and checkpoints.

use std::fmt;

use proto::{CoordinateRange, JobId, Lineage, WorkerId, hex_digest};
use serde::{Deserialize, Serialize};

use crate::LedgerError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    Running,
    /// Binds no further row; what is bound may still be fetched.
    Finished,
    /// Releases nothing any more. Its bindings stay, so that its name can't be used for the same rows again.
    Destroyed,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobState::Running => "running",
            JobState::Finished => "finished",
            JobState::Destroyed => "destroyed",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    pub job: JobId,
    pub plan_toml: String,
    #[serde(with = "hex_digest")]
    pub plan_digest: [u8; 32],
    pub dimension: u64,
    pub iterations: u64,
    pub mechanism: String,
    #[serde(with = "hex_digest")]
    pub key_commitment: [u8; 32],
    /// The branch that rows are bound on.
    pub branch: u64,
    /// Whose Z the rows of that branch have.
    #[serde(default)]
    pub lineage: Lineage,
    pub shards: u32,
    /// Rises with every resharding.
    pub layout_epoch: u64,
    pub state: JobState,
}

impl JobRecord {
    pub(crate) fn wrong_state(&self, allowed: &str) -> LedgerError {
        LedgerError::JobState {
            job: self.job.to_string(),
            state: self.state.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    /// The error for a call on `branch`, which is not the current one any more.
    pub(crate) fn superseded(&self, branch: u64) -> LedgerError {
        LedgerError::BranchSuperseded {
            job: self.job.to_string(),
            branch,
            current: self.branch,
            from_row: self.lineage.from_row(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    pub shard: u32,
    pub range: CoordinateRange,
    /// Rises with every change of owner and never falls, also across resharding.
    pub epoch: u64,
    pub owner: Option<WorkerId>,
}

/// What [`crate::Ledger::create_job`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    New,
    /// The same definition was there already.
    Existing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindOutcome {
    /// Rows that no earlier call had bound.
    pub newly: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindingSummary {
    pub rows_bound: u64,
    /// One more than the last bound row, at least the branch's first; rows before it may be unbound where a job
    /// skipped some.
    pub next_row: u64,
    /// Bindings refused for another commitment since this process opened the ledger; not durable.
    pub refused: u64,
}
