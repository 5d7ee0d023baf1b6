//! All that was released, by whichever ledger, under the nonces that identify the noise: one row of it has one commitment,
//! and is in the account of a ledger.

use std::collections::{BTreeMap, BTreeSet};

use accounting::rewind::{ReleasedBranch, ReleasedRows, charge_with};
use ledger::{BranchReleases, Ledger, LedgerError};
use proto::{Commitment, JobId, NoiseId, Nonce};

use crate::cases::{Case, ROWS};
use crate::history::History;

#[derive(Debug, Default)]
pub struct Releases {
    /// By the nonces of job and branch, and the row.
    rows: BTreeMap<(Nonce, Nonce, u64), Commitment>,
    /// Of the adopted copy: its bindings, by the branch whose Z they have.
    on_copy: BTreeMap<(JobId, u64, u64), Commitment>,
}

/// The nonce of the branch whose Z a row has.
fn nonce_of_row(noise_id: &NoiseId, row: u64) -> Option<Nonce> {
    let segments = noise_id.lineage.segments().iter();
    segments.rev().find(|segment| segment.from_row <= row).map(|segment| segment.nonce)
}

impl History {
    /// A row was granted; `noise_id` is that of the branch that it was bound on.
    pub fn release(&mut self, job: &JobId, noise_id: &NoiseId, row: u64, commitment: Commitment) {
        let Some(nonce) = nonce_of_row(noise_id, row) else { return };
        let before = self.releases.rows.insert((noise_id.job_nonce, nonce, row), commitment);
        if before.is_some_and(|before| before != commitment) {
            self.violation(format!("{job} row {row} of {noise_id} was released under two commitments"));
        }
    }

    /// A row was granted by the adopted copy.
    pub fn bound_on_copy(&mut self, job: &JobId, noise_id: &NoiseId, row: u64, commitment: Commitment) {
        self.event(format!("{job} row {row} bound on the adopted copy"));
        self.release(job, noise_id, row, commitment);
        let of_z = noise_id.lineage.branch_of(row);
        self.releases.on_copy.insert((job.clone(), of_z, row), commitment);
    }

    /// Checks an adopted copy at the end: it has what it granted, and charges for all that was released of the branches that
    /// it knows, by either ledger.
    pub fn check_adopted(&mut self, ledger: &Ledger, cases: &[&'static Case]) {
        for ((job, branch, row), commitment) in self.releases.on_copy.clone() {
            match ledger.bindings(&job, branch, row..row + 1) {
                Ok(found) if found == [(row, commitment)] => {}
                found => {
                    self.violation(format!("{job} row {row}: granted by the adopted copy; now {found:?}"))
                }
            }
        }
        for case in cases {
            if let Err(error) = self.check_charges(ledger, case) {
                self.violation(format!("{}: no account of the adopted copy: {error:#}", case.job));
            }
        }
    }

    fn check_charges(&mut self, ledger: &Ledger, case: &Case) -> anyhow::Result<()> {
        let job = &case.job;
        let Some(record) = ledger.job(job)? else { return Ok(()) };
        let charged = ledger.charged(job)?;
        let nonces = nonces(ledger, job, &charged)?;
        let is_charged = |nonce: &Nonce, row: u64| {
            let branch = nonces.get(nonce)?;
            let releases = charged.iter().find(|releases| releases.branch == *branch)?;
            Some((*branch, releases.released.iter().any(|rows| rows.as_range().contains(&row))))
        };
        let of_job = self.releases.rows.keys().filter(|(of, ..)| *of == record.nonce);
        let of_job: Vec<_> = of_job.map(|(_, nonce, row)| (*nonce, *row)).collect();
        let doubt = ledger.doubt(job)?;
        let mut released = BTreeSet::new();
        for (nonce, row) in of_job {
            match is_charged(&nonce, row) {
                Some((branch, true)) => drop(released.insert((branch, row))),
                Some((branch, false)) => {
                    self.violation(format!(
                        "{job} row {row} of branch {branch} was released, and is not charged"
                    ));
                    released.insert((branch, row));
                }
                None if doubt.is_some() => {}
                None => self.violation(format!(
                    "{job} row {row} was released elsewhere, and no report says a word of it"
                )),
            }
        }
        let real = cost(case, &charged, |branch, row| released.contains(&(branch, row)))?;
        let said = cost(case, &charged, |branch, row| {
            let of = charged.iter().find(|releases| releases.branch == branch);
            of.is_some_and(|of| of.released.iter().any(|rows| rows.as_range().contains(&row)))
        })?;
        self.tally.costs_compared += 1;
        if real > said {
            self.violation(format!("{job} costs {said} by its ledger, and what was released costs {real}"));
        }
        Ok(())
    }
}

/// The branches of a job by their nonces.
fn nonces(
    ledger: &Ledger,
    job: &JobId,
    branches: &[BranchReleases],
) -> Result<BTreeMap<Nonce, u64>, LedgerError> {
    let nonce = |releases: &BranchReleases| {
        let lineage = ledger.lineage(job, releases.branch)?;
        Ok(lineage.segments().last().map(|segment| (segment.nonce, releases.branch)))
    };
    branches.iter().filter_map(|releases| nonce(releases).transpose()).collect()
}

/// The sensitivity of the rows of these branches that `is_released` names: ε grows with it.
fn cost(
    case: &Case,
    branches: &[BranchReleases],
    is_released: impl Fn(u64, u64) -> bool,
) -> anyhow::Result<f64> {
    let of_branch = |releases: &BranchReleases| {
        let rows = (0..ROWS).filter(|row| is_released(releases.branch, *row));
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for row in rows {
            match stretches.last_mut() {
                Some((_, end)) if *end == row => *end += 1,
                _ => stretches.push((row, row + 1)),
            }
        }
        ReleasedBranch {
            branch: releases.branch,
            parent: releases.parent,
            from_row: releases.from_row,
            released: stretches,
        }
    };
    let released = ReleasedRows { branches: branches.iter().map(of_branch).collect() };
    let plan = &case.plan;
    let sensitivity =
        |rows: std::ops::Range<u64>| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
    Ok(charge_with(ROWS, &released, sensitivity)?.so_far().value)
}
