//! What the ledger must have, whatever became of the disk: everything that was acknowledged to callers, with its
//! nonces, and, for the accountant, every row that may have been released.

use std::collections::BTreeSet;

use accounting::rewind::{ReleasedBranch, ReleasedRows};
use ledger::{Ledger, LedgerError};
use proto::{JobId, Lineage, NoiseId, Nonce};

use crate::cases::{Case, ROWS};
use crate::history::History;

/// Stands for the nonces of branches in a report, which lists none.
const NO_NONCE: Nonce = Nonce::from_bytes([0; 32]);

/// `None` where the ledger has no such job.
fn noise_id_in(ledger: &Ledger, job: &JobId, branch: u64) -> Result<Option<NoiseId>, LedgerError> {
    let Some(record) = ledger.job(job)? else { return Ok(None) };
    Ok(Some(NoiseId { job_nonce: record.nonce, lineage: ledger.lineage(job, branch)? }))
}

impl History {
    /// Checks that every acknowledged binding is in the ledger, and every acknowledged job and branch with its nonce,
    /// whatever happened to the disk.
    pub fn check_ledger(&mut self, ledger: &Ledger) {
        let mut lost = Vec::new();
        for ((job, branch, row), commitment) in &self.acked {
            let row_of = || format!("{job} row {row} of branch {branch}: acked, and");
            match ledger.bindings(job, *branch, *row..*row + 1) {
                Ok(found) if found == [(*row, *commitment)] => {}
                Ok(found) if found.is_empty() => lost.push(format!("{} lost", row_of())),
                Ok(_) => lost.push(format!("{} bound to another commitment", row_of())),
                Err(error) => lost.push(format!("{} not readable: {error}", row_of())),
            }
        }
        for (job, noise_id) in self.branches.acknowledged() {
            match noise_id_in(ledger, job, noise_id.lineage.branch()) {
                Ok(Some(found)) if found == *noise_id => {}
                Ok(Some(found)) => {
                    lost.push(format!("{job}: acknowledged as {noise_id}, but the ledger has {found}"))
                }
                Ok(None) => lost.push(format!("{job}: acknowledged as {noise_id}, but lost")),
                Err(error) => lost.push(format!("{job}: acknowledged as {noise_id}, but lost: {error}")),
            }
        }
        lost.iter().for_each(|lost| self.violation(lost));
        self.check_budget(ledger, false);
    }

    pub fn check_nothing_acked(&mut self) {
        if !self.acked.is_empty() || self.branches.acknowledged().next().is_some() {
            self.violation("all jobs and bindings are lost: there is no ledger");
        }
    }

    /// Checks the accountant's report at the end: it has all bound rows and no others, abandoned ones included.
    pub fn check_report(&mut self, ledger: &Ledger, cases: &[&'static Case]) {
        for case in cases {
            let job = &case.job;
            let Ok(report) = ledger.report(job) else { continue };
            match report["noise_id"].as_str().unwrap_or_default().parse::<NoiseId>() {
                Ok(noise_id) => {
                    self.learn(case, &noise_id, None);
                }
                Err(error) => self.violation(format!("{job}: the report's noise id: {error}")),
            }
            match serde_json::from_value::<ReleasedRows>(report["released"].clone()) {
                Ok(released) => self.check_released(job, &released),
                Err(error) => self.violation(format!("{job}: the accountant can't read the report: {error}")),
            }
        }
    }

    fn check_released(&mut self, job: &JobId, released: &ReleasedRows) {
        if let Err(error) = released.check(ROWS) {
            self.violation(format!("{job}: the accountant refuses the report: {error}"));
        }
        let rows = |branch: &ReleasedBranch| {
            let number = branch.branch;
            branch
                .released
                .clone()
                .into_iter()
                .flat_map(move |(start, end)| (start..end).map(move |row| (number, row)))
        };
        let listed: BTreeSet<(u64, u64)> = released.branches.iter().flat_map(rows).collect();
        let of_job = |((of, branch, row), _): (&(JobId, u64, u64), _)| (of == job).then_some((*branch, *row));
        let acked: BTreeSet<_> = self.acked.keys().filter_map(|row| of_job((row, ()))).collect();
        let asked: BTreeSet<_> = self.asked.keys().filter_map(|row| of_job((row, ()))).collect();
        for (branch, row) in acked.difference(&listed) {
            self.violation(format!(
                "{job}: the report has no row {row} of branch {branch}, which was released"
            ));
        }
        for (branch, row) in listed.difference(&asked) {
            self.violation(format!(
                "{job}: the report has row {row} of branch {branch}, which no trainer requested"
            ));
        }
        let newest = self.check_lineages(job, released);
        let is_abandoned = |(branch, row): &&(u64, u64)| {
            newest.as_ref().is_some_and(|newest| newest.branch_of(*row) != *branch)
        };
        self.tally.rows_abandoned += listed.iter().filter(is_abandoned).count() as u64;
    }

    /// Checks the lineages as the accountant derives them. Returns the newest, which has no nonces.
    fn check_lineages(&mut self, job: &JobId, released: &ReleasedRows) -> Option<Lineage> {
        let mut lineages: Vec<Lineage> = Vec::new();
        for of in &released.branches {
            let parent = of.parent.and_then(|parent| lineages.iter().find(|it| it.branch() == parent));
            let root = Lineage::of_job(NO_NONCE).rewound(0, of.branch, NO_NONCE);
            lineages.push(parent.map_or(root, |parent| parent.rewound(of.from_row, of.branch, NO_NONCE)));
        }
        for (branch, lineage) in (0..=self.branches.newest(job)).zip(&lineages) {
            let lineage = lineage.rows_and_branches();
            let acknowledged = self.branches.lineage(job, branch).map(Lineage::rows_and_branches);
            if let Some(acknowledged) = acknowledged.filter(|acknowledged| *acknowledged != lineage) {
                self.violation(format!(
                    "{job}: the report has branch {branch} as {lineage}, but it is {acknowledged}"
                ));
            }
        }
        if self.branches.newest(job) >= lineages.len() as u64 {
            self.violation(format!("{job}: the report lacks the newest branch"));
        }
        lineages.pop()
    }
}
