//! Branches: a job that rewinds to a row draws fresh Z from that row on, under a new branch number.

use std::ops::Range;

use proto::{CommitmentKind, JobId, Lineage, Nonce, RowRange, model::OpenBranch};
use redb::ReadableTable;

use crate::{
    JobRecord, JobState, Ledger, LedgerError, Result, ShardRecord, chain,
    chain::{entries::archive_of, event::Event},
    data_set::{BranchCause, Recharge},
    error::Fail,
    store::Outcome,
    tables::{
        self, BINDINGS, BRANCHES, CURSORS, ENTRIES, JOBS, PLANS, SHARDS, branch_cursor::cursor_of,
        branches_table::OpenedFrom, jobs_table, shards_table,
    },
};

use super::{bindings::Bindings, charges};

/// A branch, and the rows of its Z that have been bound: all that may have been released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchReleases {
    /// The branch's number.
    pub branch: u64,
    /// The branch it was opened from; `None` for branch 0.
    pub parent: Option<u64>,
    /// The branch's first row.
    pub from_row: u64,
    /// The bound rows of its own Z.
    pub released: Vec<RowRange>,
}

/// The outcome of [`Ledger::open_branch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBranch {
    /// The job, on its new branch.
    pub job: JobRecord,
    /// All shards, under their new epochs.
    pub shards: Vec<ShardRecord>,
    /// False where the same request had opened the branch before.
    pub newly: bool,
}

impl Ledger {
    /// Opens the next branch at `from_row` of the parent, under `nonce`, and fences the branch before: every shard gets
    /// a new epoch, and keeps its owner. The same request again finds the branch it opened, with the nonce that it was
    /// opened with, while nothing is bound on it.
    ///
    /// # Errors
    ///
    /// [`LedgerError::BranchSuperseded`] where another branch than the expected one is current,
    /// [`LedgerError::JobState`], [`LedgerError::LineageFull`], or `from_row` is beyond the parent's next row.
    pub fn open_branch(&self, request: &OpenBranch, nonce: Nonce) -> Result<OpenedBranch> {
        self.open_charged_branch(request, nonce, None)
    }

    /// Opens a branch as [`Ledger::open_branch`] does, and charges the job's data set for it.
    ///
    /// # Errors
    /// [`LedgerError::DataSetChanged`] where the charge was decided on an earlier state: decide again.
    /// [`LedgerError::JobState`] for a job of a data set without a charge; [`LedgerError::ApprovalRequired`].
    pub fn open_charged_branch(
        &self,
        request: &OpenBranch,
        nonce: Nonce,
        recharge: Option<&Recharge>,
    ) -> Result<OpenedBranch> {
        self.open_branch_for(BranchCause::Rewind, request, nonce, recharge)
    }

    /// Opens a branch as [`Ledger::open_charged_branch`] does, however long the lineage gets: where a ledger is adopted, no job
    /// may keep the others from fresh noise, and each adoption adds one segment.
    ///
    /// # Errors
    /// Those of [`Ledger::open_charged_branch`], but for [`LedgerError::LineageFull`].
    pub fn open_adopted_branch(
        &self,
        request: &OpenBranch,
        nonce: Nonce,
        recharge: Option<&Recharge>,
    ) -> Result<OpenedBranch> {
        self.open_branch_for(BranchCause::Adoption, request, nonce, recharge)
    }

    fn open_branch_for(
        &self,
        cause: BranchCause,
        request: &OpenBranch,
        nonce: Nonce,
        recharge: Option<&Recharge>,
    ) -> Result<OpenedBranch> {
        let OpenBranch { job, from_row, expected_branch, .. } = request;
        let most_segments = match cause {
            BranchCause::Rewind => Lineage::MAX_SEGMENTS,
            BranchCause::Adoption => usize::MAX,
        };
        self.copies.check()?;
        self.store.write("open_branch", |transaction| {
            let mut jobs = transaction.open_table(JOBS)?;
            let mut record = jobs_table::existing(&jobs, job)?;
            record.plan_toml = jobs_table::plan_of(&transaction.open_table(PLANS)?, job)?;
            let mut branches = transaction.open_table(BRANCHES)?;
            let mut table = transaction.open_table(SHARDS)?;
            let parent = request.parent.unwrap_or(*expected_branch);
            if record.branch != *expected_branch {
                let cursor = cursor_of(&transaction.open_table(CURSORS)?, job, record.branch)?;
                let opened = branches.get((job.as_str(), record.branch))?;
                let opened_so = opened.map(|found| OpenedFrom::from_stored(found.value()));
                let opened_so = opened_so.map(|opened| (opened.parent, opened.from_row));
                let is_next = expected_branch.checked_add(1) == Some(record.branch);
                if is_next && cursor.rows_bound == 0 && opened_so == Some((parent, *from_row)) {
                    let shards = shards_table::all_of(&table, job)?;
                    return Ok(Outcome::Nothing(OpenedBranch { job: record, shards, newly: false }));
                }
                return Err(record.superseded(*expected_branch).into());
            }
            if record.state != JobState::Running {
                return Err(record.wrong_state("running, to be rewound").into());
            }
            let lineage = lineage_of(&branches, &record, parent)?;
            check_row(&record, &transaction.open_table(CURSORS)?, &lineage, *from_row)?;
            let branch = record
                .branch
                .checked_add(1)
                .ok_or_else(|| LedgerError::invalid("branch", record.branch, "below 2^64 - 1"))?;
            charges::recharge(transaction, request, branch, cause, recharge)?;
            let opened = OpenedFrom { parent, from_row: *from_row, nonce };
            branches.insert((job.as_str(), branch), opened.to_stored())?;
            let rewound = lineage.rewound(*from_row, branch, nonce);
            check_segments(&record, &lineage, &rewound, most_segments)?;
            (record.branch, record.lineage) = (branch, rewound);
            jobs_table::put(&mut jobs, &record)?;
            let mut shards = shards_table::all_of(&table, job)?;
            for shard in &mut shards {
                shard.epoch = shards_table::next_epoch(shard.epoch)?;
                table.insert((job.as_str(), shard.shard), tables::encode(shard)?.as_slice())?;
            }
            let from_row = *from_row;
            let shards_then = shards.clone();
            let event = Event::BranchOpened { branch, parent, from_row, nonce, shards: shards_then };
            chain::append(transaction, job, &event)?;
            Ok(Outcome::Commit(OpenedBranch { job: record, shards, newly: true }))
        })
    }

    /// Returns the lineage of any branch of the job.
    pub fn lineage(&self, job: &JobId, branch: u64) -> Result<Lineage> {
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            lineage_of(&transaction.open_table(BRANCHES)?, &record, branch)
        })
    }

    /// Returns every branch of the job with the bound rows of its Z: what an accountant charges for.
    pub fn released(&self, job: &JobId) -> Result<Vec<BranchReleases>> {
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let branches = transaction.open_table(BRANCHES)?;
            let bindings = transaction.open_table(BINDINGS)?;
            let archive = archive_of(&transaction.open_table(ENTRIES)?, job)?;
            let mut all = Vec::new();
            for branch in 0..=record.branch {
                let opened = branches.get((job.as_str(), branch))?;
                let opened = opened.map(|found| OpenedFrom::from_stored(found.value()));
                let parent = opened.map(|opened| opened.parent);
                let from_row = opened.map_or(0, |opened| opened.from_row);
                let released = match &archive {
                    Some(archive) => archive.released(branch),
                    None => bound_ranges(&bindings, job, branch, |_, _| ())?,
                };
                all.push(BranchReleases { branch, parent, from_row, released });
            }
            Ok(all)
        })
    }
}

/// Returns the bound rows of a branch's own Z, as ranges that are in order and apart, and has `visit` see each with what it is
/// bound to.
pub fn bound_ranges(
    bindings: &impl Bindings,
    job: &JobId,
    branch: u64,
    mut visit: impl FnMut(u64, &[u8; 33]),
) -> Result<Vec<RowRange>, Fail> {
    let mut ranges: Vec<RowRange> = Vec::new();
    for bound in bindings.range((job.as_str(), branch, 0)..=(job.as_str(), branch, u64::MAX))? {
        let (key, stored) = bound?;
        let row = key.value().2;
        visit(row, &stored.value());
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end = row + 1,
            _ => ranges.push(RowRange { start: row, end: row + 1 }),
        }
    }
    Ok(ranges)
}

/// Derives the lineage of a branch from the table of branches.
pub fn lineage_of(
    branches: &impl ReadableTable<(&'static str, u64), (u64, u64, [u8; 32])>,
    record: &JobRecord,
    branch: u64,
) -> Result<Lineage, Fail> {
    if branch == record.branch {
        return Ok(record.lineage.clone());
    }
    if branch > record.branch {
        let allowed = format!("0 to {}, the job's current branch", record.branch);
        return Err(LedgerError::invalid("branch", branch, allowed).into());
    }
    // From the branch back to branch 0, then forward again.
    let mut opened = Vec::new();
    let mut at = branch;
    while let Some(found) = branches.get((record.job.as_str(), at))?.map(|found| found.value()) {
        let from = OpenedFrom::from_stored(found);
        if from.parent >= at {
            let reason = format!("branch {at} of job {} has parent {}", record.job, from.parent);
            return Err(Fail::Record(reason));
        }
        opened.push((at, from));
        at = from.parent;
    }
    let root = Lineage::of_job(record.nonce);
    let rewound = |lineage: Lineage, (branch, from): (u64, OpenedFrom)| {
        lineage.rewound(from.from_row, branch, from.nonce)
    };
    Ok(opened.into_iter().rev().fold(root, rewound))
}

/// Checks that the new branch's first row is at most the parent's next row, and a row of the plan.
fn check_row(
    record: &JobRecord,
    cursors: &impl ReadableTable<(&'static str, u64), (u64, u64, [u8; 32])>,
    lineage: &Lineage,
    from_row: u64,
) -> Result<(), Fail> {
    if from_row >= record.iterations {
        let iterations = record.iterations;
        return Err(LedgerError::RowBeyondIterations { row: from_row, iterations }.into());
    }
    let next_row = cursor_of(cursors, &record.job, lineage.branch())?.next_row.max(lineage.from_row());
    if from_row > next_row {
        let allowed = format!("0 to {next_row}, the next row of branch {}", lineage.branch());
        return Err(LedgerError::invalid("from_row", from_row, allowed).into());
    }
    Ok(())
}

/// Checks that the rewind leaves no lineage of more than `most` segments. One that adds none to its parent is possible in any
/// case: an adoption may have left more.
fn check_segments(record: &JobRecord, parent: &Lineage, rewound: &Lineage, most: usize) -> Result<(), Fail> {
    let segments = rewound.segments().len();
    if segments <= most || segments <= parent.segments().len() {
        return Ok(());
    }
    Err(LedgerError::LineageFull { job: record.job.to_string(), from_row: parent.from_row() }.into())
}

/// Counts the rows bound in a part of one branch's Z, and returns whether all of them are bound to exact commitments.
pub fn bound_in(
    bindings: &impl Bindings,
    job: &JobId,
    branch: u64,
    rows: Range<u64>,
) -> Result<(u64, bool), Fail> {
    let exact = CommitmentKind::Exact.code();
    let mut count = 0;
    let mut all_exact = true;
    for bound in bindings.range((job.as_str(), branch, rows.start)..(job.as_str(), branch, rows.end))? {
        count += 1;
        all_exact &= bound?.1.value()[0] == exact;
    }
    Ok((count, all_exact))
}
