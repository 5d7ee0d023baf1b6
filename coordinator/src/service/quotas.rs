//! Quotas, as far as they need to know what a job has.

use proto::model::Bind;
use proto::{JobId, Result, ServiceError};

use crate::cluster::JobView;
use crate::coordinator::Coordinator;
use crate::quotas::{DurableTotals, Rate, Requester, RowsPermit, branch_bytes};

impl Coordinator {
    /// Takes one of what the job and the caller may do in a minute. Fails for a job that is not there.
    pub fn take_quota(&self, requester: &Requester, job: &JobId, rate: Rate) -> Result<()> {
        let shards = self.cluster().job(job)?.shards.len() as u64;
        self.quotas().take(requester, job, rate)?;
        if rate == Rate::Branches {
            self.quotas()
                .take_bytes(requester, branch_bytes(shards))
                .inspect_err(|_| self.quotas().give_back(requester, job, rate))?;
        }
        Ok(())
    }

    /// Admits the rows of a binding, as far as they are not bound already: a repetition is never refused. Where the
    /// ledger would not bind the rows in any case, its reason is the error.
    pub(super) async fn admit_rows(&self, requester: &Requester, bind: &Bind) -> Result<RowsPermit> {
        let Bind { job, rows, .. } = bind;
        let totals = self.durable_totals(job)?;
        let admitted = self.quotas().admit_rows(requester, job, totals, rows.len());
        if !matches!(admitted, Err(ServiceError::QuotaExceeded { .. })) {
            return admitted;
        }
        let asked = bind.clone();
        let unbound = self
            .with_ledger(move |ledger| {
                ledger.unbound(&asked.job, asked.branch, asked.rows, &asked.commitments)
            })
            .await?;
        // Other rows may have been bound meanwhile.
        self.quotas().admit_rows(requester, job, self.durable_totals(job)?, unbound)
    }

    /// Checks that the job may have one branch more than it has.
    pub(super) fn check_branch_quota(&self, job: &JobId, expected_branch: u64) -> Result<()> {
        let totals = self.durable_totals(job)?;
        // A request for the branch that it opened before opens none.
        if totals.branches != expected_branch {
            return Ok(());
        }
        self.quotas().check_branch(job, totals)
    }

    fn durable_totals(&self, job: &JobId) -> Result<DurableTotals> {
        let cluster = self.cluster();
        let JobView { record, rows_ever_bound, shards, .. } = cluster.job(job)?;
        Ok(DurableTotals { branches: record.branch, rows: *rows_ever_bound, shards: shards.len() as u64 })
    }
}
