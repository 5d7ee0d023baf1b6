//! What one job has in the ledger for good.

use node::config::units::show_bytes;
use proto::{JobId, Result, ServiceError};

use super::settings::{FLAG_JOB_BRANCHES, FLAG_JOB_BYTES, FLAG_JOB_ROWS, QuotaSettings};

/// The most bytes of a ledger's file that a row takes, rounded up: one that is bound alone while many jobs bind in turn
/// (docs/operations.md). Rows that are bound together take less.
const ROW_BYTES: u64 = 600;
/// Bytes for a branch besides its shards.
const BRANCH_BYTES: u64 = 1024;
/// Bytes for each shard of the job, which every branch writes down anew.
const BRANCH_SHARD_BYTES: u64 = 128;

/// Returns an estimate of the bytes that rows take in the ledger.
pub fn rows_bytes(rows: u64) -> u64 {
    rows.saturating_mul(ROW_BYTES)
}

/// Returns an estimate of the bytes that a branch of a job with so many shards takes in the ledger.
pub fn branch_bytes(shards: u64) -> u64 {
    BRANCH_BYTES + shards.saturating_mul(BRANCH_SHARD_BYTES)
}

/// What one job has in the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableTotals {
    /// Branches opened, besides the first.
    pub branches: u64,
    /// Rows bound, on all branches.
    pub rows: u64,
    /// The job's shards.
    pub shards: u64,
}

impl DurableTotals {
    /// Returns an estimate of the bytes.
    fn bytes(&self) -> u64 {
        rows_bytes(self.rows).saturating_add(self.branches.saturating_mul(branch_bytes(self.shards)))
    }

    /// Fails where one of the totals is beyond its quota.
    pub fn check(&self, settings: &QuotaSettings, job: &JobId) -> Result<()> {
        self.check_or(settings, job, "a new job, whose ε is added to this one's, continues the work")
    }

    /// Fails where one of the totals that the job's plan leads to is beyond its quota.
    pub fn check_planned(&self, settings: &QuotaSettings, job: &JobId) -> Result<()> {
        self.check_or(settings, job, "the job gets a plan of fewer iterations")
    }

    fn check_or(&self, settings: &QuotaSettings, job: &JobId, otherwise: &str) -> Result<()> {
        let exceeded = |counted: &str, limit: String, flag: &str| ServiceError::QuotaExceeded {
            what: format!("{counted} of job {job}"),
            limit,
            remedy: format!("an operator raises {flag}, or {otherwise}"),
            retry_after_ms: None,
        };
        if self.branches > settings.job_branches {
            return Err(exceeded("branches opened", settings.job_branches.to_string(), FLAG_JOB_BRANCHES));
        }
        if self.rows > settings.job_rows {
            return Err(exceeded("rows bound on all branches", settings.job_rows.to_string(), FLAG_JOB_ROWS));
        }
        if self.bytes() > settings.job_bytes {
            return Err(exceeded("bytes in the ledger", show_bytes(settings.job_bytes), FLAG_JOB_BYTES));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_total_is_named_with_the_flag_that_raises_it() {
        let settings =
            QuotaSettings { job_branches: 5, job_rows: 100, job_bytes: 70_000, ..QuotaSettings::default() };
        let job = JobId::new("j").unwrap();
        let within = DurableTotals { branches: 5, rows: 100, shards: 1 };
        assert_eq!(within.check(&settings, &job), Ok(()));
        for (beyond, flag) in [
            (DurableTotals { branches: 6, ..within }, "--max-job-branches"),
            (DurableTotals { rows: 101, ..within }, "--max-job-rows"),
            (DurableTotals { shards: 64, ..within }, "--max-job-bytes"),
        ] {
            let error = beyond.check(&settings, &job).unwrap_err();
            assert!(error.kind() == "quota_exceeded" && !error.retry_safe(), "{error}");
            assert!(error.to_string().contains(flag) && error.to_string().contains("job j"), "{error}");
        }
    }

    /// An ordinary training has millions of rows and is rewound hundreds of times.
    #[test]
    fn the_defaults_hold_an_ordinary_training() {
        let settings = QuotaSettings::default();
        let large = DurableTotals { branches: 1_000, rows: 4_000_000, shards: 512 };
        assert_eq!(large.check(&settings, &JobId::new("j").unwrap()), Ok(()));
    }
}
