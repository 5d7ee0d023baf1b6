//! Binding: each row of a branch's Z to one commitment, for ever. This is the guard of every release.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use proto::{Commitment, JobId, RowRange};
use redb::ReadableTable;

use crate::{
    BindOutcome, BindingSummary, JobRecord, JobState, Ledger, LedgerError, Result, chain,
    chain::{
        entries::archive_of,
        event::{BoundRow, Event},
        stamp::Principal,
    },
    error::Fail,
    store::{Outcome, recording::RecordingTransaction},
    tables::{
        BINDINGS, CURSORS, ENTRIES, JOBS,
        branch_cursor::{cursor_of, rows_bound},
        jobs_table,
    },
};

/// The number of refused bindings of each job's branch since the ledger was opened.
pub type Refusals = Arc<Mutex<HashMap<(JobId, u64), u64>>>;

/// The table of bindings, in a transaction that reads or writes.
pub trait Bindings: ReadableTable<(&'static str, u64, u64), [u8; 33]> {}
impl<T: ReadableTable<(&'static str, u64, u64), [u8; 33]>> Bindings for T {}

impl Ledger {
    /// Binds all of the rows or none; `commitments[i]` is for row `rows.start + i`. Returns once that is durable.
    ///
    /// A row that is already bound to the same commitment is no error. `branch` must be the current one; rows before it
    /// was opened keep the Z, and with it the binding, of the branch that they are from.
    ///
    /// # Errors
    ///
    /// [`LedgerError::AlreadyBound`] where a row is bound to another commitment, [`LedgerError::BranchSuperseded`]
    /// where the job was rewound, [`LedgerError::JobState`], [`LedgerError::RowBeyondIterations`]; or the store failed.
    /// [`LedgerError::Copied`] and [`LedgerError::Unanchored`], also where that came up while the rows were bound.
    pub fn bind(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<BindOutcome> {
        let by = self.store.principal().clone();
        let request = Request { job: job.clone(), branch, rows, commitments: commitments.into(), by };
        request.check()?;
        self.copies.check()?;
        // Again once it is durable: a commit may outlast the lease, and the anchor may be replaced meanwhile. The rows stay bound,
        // and the same call gets them once the ledger binds again.
        let bound = self.bind_checked(request).and_then(|bound| self.copies.check().map(|()| bound));
        self.count_refusal(job, branch, &bound);
        bound
    }

    fn bind_checked(&self, request: Request) -> Result<BindOutcome> {
        // A retry finds everything bound: it needs no commit, and no place in the queue of writers.
        let unbound = self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, &request.job)?;
            request.unbound(&record, &transaction.open_table(BINDINGS)?)
        })?;
        if unbound.is_empty() {
            return Ok(BindOutcome { newly: 0 });
        }
        let commit = |batch: &[&Request]| {
            self.store.write("bind", |transaction| {
                let outcomes = batch.iter().map(|request| match bind_one(transaction, request) {
                    Err(Fail::Refused(error)) => Ok(Err(error)),
                    outcome => outcome.map(Ok),
                });
                let outcomes = outcomes.collect::<Result<Vec<Result<BindOutcome>>, Fail>>()?;
                let is_new = |outcome: &Result<BindOutcome>| matches!(outcome, Ok(bound) if bound.newly > 0);
                Ok(if outcomes.iter().any(is_new) {
                    Outcome::Commit(outcomes)
                } else {
                    Outcome::Nothing(outcomes)
                })
            })
        };
        self.group_commit.run(request, commit, |reason| self.store.stop(reason.to_owned()))
    }

    /// Returns the number of the rows that [`Ledger::bind`] would newly bind. Binds nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Ledger::bind`] that say why it may not bind them.
    pub fn unbound(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<u64> {
        let by = self.store.principal().clone();
        let request = Request { job: job.clone(), branch, rows, commitments: commitments.into(), by };
        request.check()?;
        let unbound = self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            request.unbound(&record, &transaction.open_table(BINDINGS)?)
        });
        self.count_refusal(job, branch, &unbound);
        unbound.map(|unbound| unbound.len() as u64)
    }

    fn count_refusal<T>(&self, job: &JobId, branch: u64, outcome: &Result<T>) {
        if let Err(LedgerError::AlreadyBound { .. }) = outcome {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            *refusals.entry((job.clone(), branch)).or_default() += 1;
        }
    }

    /// Returns counts of the bindings of the branch's own Z.
    pub fn binding_summary(&self, job: &JobId, branch: u64) -> Result<BindingSummary> {
        let (cursor, first) = self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let branches = transaction.open_table(crate::tables::BRANCHES)?;
            let opened = branches.get((record.job.as_str(), branch))?.map(|found| found.value().1);
            Ok((cursor_of(&transaction.open_table(CURSORS)?, job, branch)?, opened.unwrap_or(0)))
        })?;
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = refusals.get(&(job.clone(), branch)).copied().unwrap_or(0);
        Ok(BindingSummary { rows_bound: cursor.rows_bound, next_row: cursor.next_row.max(first), refused })
    }

    /// Returns the number of rows that the job has bound, on all of its branches together.
    pub fn rows_bound(&self, job: &JobId) -> Result<u64> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            rows_bound(&transaction.open_table(CURSORS)?, job)
        })
    }

    /// Returns the bound rows of the branch's own Z among `rows`, in order.
    ///
    /// # Errors
    /// [`LedgerError::JobState`] for an archived job, whose bindings were removed.
    pub fn bindings(&self, job: &JobId, branch: u64, rows: Range<u64>) -> Result<Vec<(u64, Commitment)>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            if archive_of(&transaction.open_table(ENTRIES)?, job)?.is_some() {
                let job = job.to_string();
                let allowed = "a job that is not archived: its bindings were removed, and are in the export of the ledger that was \
                               taken before `rustle ledger compact`, if one was"
                    .to_owned();
                return Err(LedgerError::JobState {
                    job,
                    state: format!("{} and archived", record.state),
                    allowed,
                }
                .into());
            }
            let table = transaction.open_table(BINDINGS)?;
            bound_rows(&table, job, branch, rows)
        })
    }
}

/// A call of [`Ledger::bind`].
pub struct Request {
    job: JobId,
    branch: u64,
    rows: RowRange,
    commitments: Box<[Commitment]>,
    /// Who calls: one transaction commits the calls of several.
    by: Principal,
}

/// The branch whose Z a row has, and the row to bind.
type Unbound = (u64, BoundRow);

/// Binds all rows of the request, or changes nothing.
fn bind_one(transaction: &RecordingTransaction<'_>, request: &Request) -> Result<BindOutcome, Fail> {
    // Read again: another call may have bound some of the rows meanwhile.
    let record = jobs_table::existing(&transaction.open_table(JOBS)?, &request.job)?;
    let mut bindings = transaction.open_table(BINDINGS)?;
    let unbound = request.unbound(&record, &bindings)?;
    let mut cursors = transaction.open_table(CURSORS)?;
    let job = request.job.as_str();
    for rows in unbound.chunk_by(|one, next| one.0 == next.0) {
        let branch = rows[0].0;
        let mut cursor = cursor_of(&cursors, &request.job, branch)?;
        for (_, BoundRow { row, commitment }) in rows {
            let stored = commitment.to_bytes();
            bindings.insert((job, branch, *row), stored)?;
            cursor.add(job, branch, *row, &stored);
        }
        cursors.insert((job, branch), cursor.to_stored())?;
        let rows = rows.iter().map(|(_, bound)| *bound).collect();
        chain::append_by(transaction, &request.job, &request.by, &Event::Bound { branch, rows })?;
    }
    Ok(BindOutcome { newly: unbound.len() as u64 })
}

impl Request {
    fn check(&self) -> Result<()> {
        let rows = self.rows;
        if rows.start >= rows.end {
            return Err(LedgerError::invalid("rows", rows, "start < end"));
        }
        if self.commitments.len() as u64 != rows.len() {
            let allowed = format!("one for each of the {} rows {rows}", rows.len());
            return Err(LedgerError::invalid("commitments", self.commitments.len(), allowed));
        }
        Ok(())
    }

    /// Returns the rows that this call would newly bind. Error: the reason why it may not.
    fn unbound(&self, record: &JobRecord, bindings: &impl Bindings) -> Result<Vec<Unbound>, Fail> {
        if record.state == JobState::Destroyed {
            return Err(record.wrong_state("nothing is released from a destroyed job").into());
        }
        if self.branch < record.branch {
            return Err(record.superseded(self.branch).into());
        }
        if self.branch > record.branch {
            let allowed = format!("{}, the job's current branch", record.branch);
            return Err(LedgerError::invalid("branch", self.branch, allowed).into());
        }
        if self.rows.end > record.iterations {
            let row = self.rows.start.max(record.iterations);
            return Err(LedgerError::RowBeyondIterations { row, iterations: record.iterations }.into());
        }
        let mut unbound = Vec::new();
        for (branch, rows) in record.lineage.cut(self.rows) {
            let bound: HashMap<u64, Commitment> =
                bound_rows(bindings, &self.job, branch, rows.as_range())?.into_iter().collect();
            for row in rows.as_range() {
                let commitment = self.commitments[(row - self.rows.start) as usize];
                match bound.get(&row) {
                    None => unbound.push((branch, BoundRow { row, commitment })),
                    Some(existing) if *existing == commitment => {}
                    Some(_) => return Err(self.already_bound(branch, row).into()),
                }
            }
        }
        if record.state != JobState::Running && !unbound.is_empty() {
            return Err(record.wrong_state("rows that were bound while it was running").into());
        }
        Ok(unbound)
    }

    fn already_bound(&self, branch: u64, row: u64) -> LedgerError {
        LedgerError::AlreadyBound { job: self.job.to_string(), branch, row }
    }
}

fn bound_rows(
    table: &impl Bindings,
    job: &JobId,
    branch: u64,
    rows: Range<u64>,
) -> Result<Vec<(u64, Commitment)>, Fail> {
    let mut bound = Vec::new();
    for entry in table.range((job.as_str(), branch, rows.start)..(job.as_str(), branch, rows.end))? {
        let (key, stored) = entry?;
        bound.push((key.value().2, commitment(&stored.value())?));
    }
    Ok(bound)
}

/// Reads a stored commitment.
pub fn commitment(stored: &[u8]) -> Result<Commitment, Fail> {
    Commitment::try_from(stored).map_err(|error| Fail::Record(error.to_string()))
}
