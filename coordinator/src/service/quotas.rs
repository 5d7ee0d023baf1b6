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
            self.quotas().take_bytes(requester, branch_bytes(shards))?;
        }
        Ok(())
    }

    /// Admits the rows of a binding, as far as they are not bound already: a repetition is never refused.
    pub(super) async fn admit_rows(&self, requester: &Requester, bind: &Bind) -> Result<RowsPermit> {
        let Bind { job, rows, .. } = bind;
        let totals = self.durable_totals(job)?;
        let admitted = self.quotas().admit_rows(requester, job, totals, rows.len());
        if !matches!(admitted, Err(ServiceError::QuotaExceeded { .. })) {
            return admitted;
        }
        let unbound = self.unbound_rows(bind).await?;
        self.quotas().admit_rows(requester, job, totals, unbound)
    }

    /// Counts the rows of a binding that are not bound.
    async fn unbound_rows(&self, bind: &Bind) -> Result<u64> {
        let job = bind.job.clone();
        let rows = bind.rows;
        let lineage = self.cluster().job(&job)?.record.lineage.clone();
        self.with_ledger(move |ledger| {
            let mut bound = 0;
            for (branch, piece) in lineage.cut(rows) {
                bound += ledger.bindings(&job, branch, piece.as_range())?.len() as u64;
            }
            Ok(rows.len().saturating_sub(bound))
        })
        .await
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
