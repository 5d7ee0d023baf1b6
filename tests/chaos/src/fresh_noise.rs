//! Jobs that go on in an adopted copy of a ledger, or anew where a ledger was lost, with noise that no other ledger has.

use proto::{Commitment, NoiseId, ServiceError, pb};

use crate::{
    Session,
    calls::{bind, fetch, in_time},
    cases::{Case, ROWS},
    history::Violation,
    rewinds::{answered, expect_other, expect_refused, expect_row},
};

/// Rows that are made of each job.
const MADE: u64 = 3;
const DELTA: f64 = 1e-6;

/// The cluster under test and the one beside it.
pub struct Both<'a> {
    pub main: &'a Session,
    pub side: &'a Session,
    /// Number of the round: each has commitments of its own.
    pub round: u64,
}

impl Both<'_> {
    fn commitment(&self, case: &Case, row: u64) -> Commitment {
        Commitment::of_text(&format!("copy {} {} {row}", self.round, case.job))
    }

    /// Continues a job of an adopted copy from its first unbound row. Checks that its noise is fresh, that rows bound before come as
    /// they were, and that all else is refused. Returns how many fresh rows were made.
    pub async fn adopted(&self, case: &Case) -> anyhow::Result<u64> {
        let job = &case.job;
        let found = match answered(async || in_time(self.side.client.jobs().get(job)).await).await {
            // It is younger than the copy.
            Err(ServiceError::NotFound { .. }) => return Ok(0),
            found => found?,
        };
        let noise_id = NoiseId::try_from(&found)?;
        let Some(own) = noise_id.lineage.segments().last().filter(|own| own.branch > 0).copied() else {
            let bound = self.main.history.acked_rows(job).len() as u64;
            if bound < ROWS {
                let text = format!("{job} of {bound} rows: a copy was adopted, and its noise is {noise_id}");
                self.side.history.violation(Violation::Doubled, text);
            }
            return Ok(0);
        };
        let made = self.train(case, &noise_id, own.branch, own.from_row).await?;
        for (row, acked) in
            self.main.history.acked_rows(job).into_iter().filter(|(row, _)| *row < own.from_row).take(2)
        {
            let values =
                answered(async || fetch(self.side, job, own.branch, row, acked.commitment).await).await?;
            expect_row(self.side, job, row, &values, &case.rows[row as usize]);
            self.main.history.released(&format!("{job} row {row} by a copy"), acked.commitment, &values);
            let of = self.commitment(case, row);
            let thief = answered(async || bind(self.side, job, own.branch, row, of).await).await;
            expect_refused(self.side, job, row, thief.map(drop), |error| {
                matches!(error, ServiceError::AlreadyBound { .. })
            });
        }
        let row = own.from_row.min(ROWS - 1);
        let left = answered(async || bind(self.side, job, 0, row, self.commitment(case, row)).await).await;
        expect_refused(self.side, job, row, left.map(drop), |error| {
            matches!(error, ServiceError::BranchSuperseded { .. })
        });
        let report = answered(async || in_time(self.side.client.jobs().report(job, DELTA)).await).await?;
        let report: serde_json::Value = serde_json::from_str(&report)?;
        if !report["ledger_doubt"].is_string() {
            let text = format!("{job}: the report of an adopted copy says nothing of that: {report}");
            self.side.history.violation(Violation::Served, text);
        }
        Ok(made)
    }

    /// Creates a job under the name that it had in a lost ledger.
    pub async fn anew(&self, case: &Case) -> anyhow::Result<u64> {
        let jobs = self.side.client.jobs();
        let created: pb::Job = answered(async || in_time(jobs.create(case.request.clone())).await).await?;
        self.train(case, &NoiseId::try_from(&created)?, 0, 0).await
    }

    /// Binds and fetches some rows from this one on. No other ledger may have made them.
    async fn train(&self, case: &Case, noise_id: &NoiseId, branch: u64, from: u64) -> anyhow::Result<u64> {
        let Case { job, .. } = case;
        let end = (from + MADE).min(ROWS);
        let expected = case.rows_of(noise_id, 0..end)?;
        for row in from..end {
            let of = self.commitment(case, row);
            answered(async || bind(self.side, job, branch, row, of).await).await?;
            let values = answered(async || fetch(self.side, job, branch, row, of).await).await?;
            expect_row(self.side, job, row, &values, &expected[row as usize]);
            expect_other(self.side, job, row, &values, &case.rows[row as usize]);
            self.main.history.released(&format!("{job} row {row} by a copy"), of, &values);
        }
        Ok(end.saturating_sub(from))
    }
}
