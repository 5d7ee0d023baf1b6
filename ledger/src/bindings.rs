//! Binding: each row of a job's branch to one commitment, for ever. This is the guard of every release.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use proto::{Commitment, JobId, RowRange};
use redb::ReadableTable;

use crate::{
    BindingSummary, Bound, JobRecord, JobState, Ledger, LedgerError, Result, jobs,
    store::{Change, Fail},
    tables::{BINDINGS, CURSORS, JOBS},
    verify::Cursor,
};

/// Refused bindings of each job's branch since the ledger was opened.
pub type Refusals = Arc<Mutex<HashMap<(JobId, u64), u64>>>;

trait Bindings: ReadableTable<(&'static str, u64, u64), [u8; 32]> {}
impl<T: ReadableTable<(&'static str, u64, u64), [u8; 32]>> Bindings for T {}

impl Ledger {
    /// Binds all of the rows or none; `commitments[i]` is for row `rows.start + i`. A row that is bound to the same
    /// commitment already is fine.
    pub fn bind(
        &self,
        job: &JobId,
        branch: u64,
        rows: RowRange,
        commitments: &[Commitment],
    ) -> Result<Bound> {
        let request = Request { job, branch, rows, commitments };
        request.check()?;
        let bound = self.bind_checked(&request);
        if let Err(LedgerError::AlreadyBound { .. }) = &bound {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            *refusals.entry((job.clone(), branch)).or_default() += 1;
        }
        bound
    }

    fn bind_checked(&self, request: &Request) -> Result<Bound> {
        // A retry finds everything bound: it needs no commit, and no place in the queue of writers.
        let unbound = self.store.read(|transaction| {
            let record = jobs::existing(&transaction.open_table(JOBS)?, request.job)?;
            request.unbound(&record, &transaction.open_table(BINDINGS)?)
        })?;
        if unbound.is_empty() {
            return Ok(Bound { newly: 0 });
        }
        self.store.write(|transaction| {
            // Read again: another call may have bound some of the rows meanwhile.
            let record = jobs::existing(&transaction.open_table(JOBS)?, request.job)?;
            let mut bindings = transaction.open_table(BINDINGS)?;
            let mut cursors = transaction.open_table(CURSORS)?;
            let unbound = request.unbound(&record, &bindings)?;
            if unbound.is_empty() {
                return Ok(Change::Nothing(Bound { newly: 0 }));
            }
            let (job, branch) = (request.job.as_str(), request.branch);
            let mut cursor =
                cursors.get((job, branch))?.map(|c| Cursor::from_stored(c.value())).unwrap_or_default();
            for (row, commitment) in &unbound {
                bindings.insert((job, branch, *row), commitment.0)?;
                cursor.add(job, branch, *row, &commitment.0);
            }
            cursors.insert((job, branch), cursor.to_stored())?;
            Ok(Change::Commit(Bound { newly: unbound.len() as u64 }))
        })
    }

    pub fn binding_summary(&self, job: &JobId, branch: u64) -> Result<BindingSummary> {
        let cursor = self.store.read(|transaction| {
            jobs::existing(&transaction.open_table(JOBS)?, job)?;
            let cursor = transaction.open_table(CURSORS)?.get((job.as_str(), branch))?;
            Ok(cursor.map(|cursor| Cursor::from_stored(cursor.value())).unwrap_or_default())
        })?;
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = refusals.get(&(job.clone(), branch)).copied().unwrap_or(0);
        Ok(BindingSummary { rows_bound: cursor.rows_bound, next_row: cursor.next_row, refused })
    }

    /// The bound rows among `rows`, in order.
    pub fn bindings(&self, job: &JobId, branch: u64, rows: Range<u64>) -> Result<Vec<(u64, Commitment)>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.store.read(|transaction| {
            jobs::existing(&transaction.open_table(JOBS)?, job)?;
            let table = transaction.open_table(BINDINGS)?;
            bound_rows(&table, job, branch, rows)
        })
    }
}

/// A call of `bind`.
struct Request<'a> {
    job: &'a JobId,
    branch: u64,
    rows: RowRange,
    commitments: &'a [Commitment],
}

impl Request<'_> {
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

    /// The rows that this call would newly bind, or why it may not.
    fn unbound(&self, record: &JobRecord, bindings: &impl Bindings) -> Result<Vec<(u64, Commitment)>, Fail> {
        if record.state == JobState::Destroyed {
            return Err(jobs::wrong_state(record, "nothing is released from a destroyed job").into());
        }
        if self.branch != record.branch {
            let allowed = format!("{}, the job's current branch", record.branch);
            return Err(LedgerError::invalid("branch", self.branch, allowed).into());
        }
        if self.rows.end > record.iterations {
            let row = self.rows.start.max(record.iterations);
            return Err(LedgerError::RowBeyondIterations { row, iterations: record.iterations }.into());
        }
        let bound: HashMap<u64, Commitment> =
            bound_rows(bindings, self.job, self.branch, self.rows.as_range())?.into_iter().collect();
        let mut unbound = Vec::new();
        for (row, commitment) in self.rows.as_range().zip(self.commitments) {
            match bound.get(&row) {
                None => unbound.push((row, *commitment)),
                Some(existing) if existing == commitment => {}
                Some(_) => return Err(self.already_bound(row).into()),
            }
        }
        if record.state != JobState::Running && !unbound.is_empty() {
            return Err(jobs::wrong_state(record, "rows that were bound while it was running").into());
        }
        Ok(unbound)
    }

    fn already_bound(&self, row: u64) -> LedgerError {
        LedgerError::AlreadyBound { job: self.job.to_string(), branch: self.branch, row }
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
        let (key, commitment) = entry?;
        bound.push((key.value().2, Commitment(commitment.value())));
    }
    Ok(bound)
}
