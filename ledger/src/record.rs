//! The ledger's records of jobs and shards, and the outcomes of its calls.

use std::fmt;

use proto::{CoordinateRange, JobId, Lineage, NoiseId, Nonce, WorkerId, hex_digest};
use serde::{Deserialize, Serialize};

use crate::LedgerError;

/// The state of a job. It only moves down this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job binds rows.
    Running,
    /// The job binds no further row; bound rows may still be fetched.
    Finished,
    /// The job releases nothing any more. Its record stays, so that its name can't be used for the same rows again.
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

/// A job: its definition, which never changes, and its branch, layout and state, which do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The job's name.
    pub job: JobId,
    /// The job's nonce, drawn when it was created. Its noise is made from it, so that no other ledger makes the same.
    pub nonce: Nonce,
    /// The plan's text.
    pub plan_toml: String,
    /// Digest of the plan's canonical form.
    #[serde(with = "hex_digest")]
    pub plan_digest: [u8; 32],
    /// Coordinates of the vector.
    pub dimension: u64,
    /// Digest of the order of the parameters in the vector, which the noise depends on and the plan's digest doesn't cover.
    #[serde(with = "hex_digest")]
    pub layout_digest: [u8; 32],
    /// Rows of the plan.
    pub iterations: u64,
    /// The mechanism's name.
    pub mechanism: String,
    /// Commitment to the job's key.
    #[serde(with = "hex_digest")]
    pub key_commitment: [u8; 32],
    /// The branch that rows are bound on.
    pub branch: u64,
    /// The branches whose Z the rows of that branch have.
    pub lineage: Lineage,
    /// Number of shards.
    pub shards: u32,
    /// The number of the layout. It rises with every resharding.
    pub layout_epoch: u64,
    /// The job's state.
    pub state: JobState,
}

impl JobRecord {
    /// Returns what identifies the noise of the current branch, beside key and plan.
    pub fn noise_id(&self) -> NoiseId {
        NoiseId { job_nonce: self.nonce, lineage: self.lineage.clone() }
    }

    pub(crate) fn wrong_state(&self, allowed: &str) -> LedgerError {
        LedgerError::JobState {
            job: self.job.to_string(),
            state: self.state.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    /// Returns the error for a call on `branch`, which is not the current one any more.
    pub(crate) fn superseded(&self, branch: u64) -> LedgerError {
        LedgerError::BranchSuperseded {
            job: self.job.to_string(),
            branch,
            current: self.branch,
            from_row: self.lineage.from_row(),
        }
    }
}

/// A shard and its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// The shard's number.
    pub shard: u32,
    /// The shard's coordinates.
    pub range: CoordinateRange,
    /// The epoch of the owner's lease. It rises with every change of owner and never falls, also across resharding.
    pub epoch: u64,
    /// The worker that the shard is leased to.
    pub owner: Option<WorkerId>,
}

/// The outcome of [`crate::Ledger::create_job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The job was created.
    New,
    /// The same definition was there already.
    Existing,
}

/// The outcome of [`crate::Ledger::bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindOutcome {
    /// The number of rows that no earlier call had bound.
    pub newly: u64,
}

/// Counts of one branch's bindings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindingSummary {
    /// The number of rows bound of the branch's own Z.
    pub rows_bound: u64,
    /// One more than the highest bound row, at least the branch's first; rows before it may be unbound where a job
    /// skipped some.
    pub next_row: u64,
    /// Bindings refused for another commitment since this process opened the ledger; not durable.
    pub refused: u64,
}
