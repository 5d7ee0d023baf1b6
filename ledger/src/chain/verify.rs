//! The check of all tables against the chains of events: what the store's checksums can't notice.
//!
//! Each job's chain is walked from its first entry to its head, and its events are replayed on an empty job. The result
//! must equal the tables; any difference means that something was lost, added or altered.

use std::{collections::BTreeMap, path::Path};

use proto::CheckpointRecord;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableHandle};
use sha2::{Digest, Sha256};

use crate::{
    Head, JobRecord, LedgerError, ShardRecord, chain,
    error::Fail,
    rules::coverage,
    tables::{
        self, BINDINGS, BRANCHES, CHECKPOINTS, CURSORS, ENTRIES, HEADS, IDENTITY, JOBS, META, META_FORMAT,
        PLANS, SHARDS, branch_cursor::BranchCursor, branches_table::OpenedFrom,
    },
};

use super::replay::ReplayedJob;

/// Checks that the file has this build's format.
pub fn check_format(db: &Database, path: &Path) -> Result<(), LedgerError> {
    let read = || -> Result<Option<u64>, redb::Error> {
        Ok(db.begin_read()?.open_table(META)?.get(META_FORMAT)?.map(|value| value.value()))
    };
    match read().map_err(|error| damaged(path, error.to_string()))? {
        Some(tables::FORMAT) => Ok(()),
        found => Err(LedgerError::Format {
            path: path.to_owned(),
            found: found.unwrap_or(0),
            supported: tables::FORMAT,
        }),
    }
}

/// Checks a ledger of this build's format.
pub fn verify(db: &Database, path: &Path) -> Result<(), LedgerError> {
    let transaction = db.begin_read().map_err(|error| damaged(path, error.to_string()))?;
    check_all(&transaction).map_err(|fail| match fail {
        Fail::Refused(error) => error,
        Fail::Store(error) => damaged(path, error.to_string()),
        Fail::Record(reason) => damaged(path, reason),
    })
}

fn damaged(path: &Path, reason: String) -> LedgerError {
    LedgerError::Damaged { path: path.to_owned(), reason }
}

fn check_all(transaction: &ReadTransaction) -> Result<(), Fail> {
    let replayed = replay(transaction)?;
    check_jobs(transaction, &replayed)?;
    check_branches(transaction, &replayed)?;
    check_bindings(transaction, &replayed)?;
    check_checkpoints(transaction, &replayed)
}

/// Replays the chains of all jobs.
fn replay(transaction: &ReadTransaction) -> Result<BTreeMap<String, ReplayedJob>, Fail> {
    let mut replayed = BTreeMap::<String, (Head, ReplayedJob)>::new();
    for entry in transaction.open_table(ENTRIES)?.iter()? {
        let (key, stored) = entry?;
        let (job, index) = key.value();
        let (hash, event) = chain::split(stored.value())?;
        let (head, replayed_job) =
            replayed.entry(job.to_owned()).or_insert_with(|| (Head::empty(job), ReplayedJob::default()));
        let next = head.next(event);
        if index != head.entries || hash != next.hash {
            let reason = format!("the chain of job {job} breaks at entry {index}");
            return Err(Fail::Record(reason));
        }
        *head = next;
        let event = tables::decode(event)?;
        replayed_job
            .apply(job, event)
            .map_err(|what| Fail::Record(format!("job {job}, entry {index}: {what}")))?;
    }
    let mut heads = BTreeMap::new();
    for entry in transaction.open_table(HEADS)?.iter()? {
        let (job, head) = entry?;
        let (entries, hash) = head.value();
        heads.insert(job.value().to_owned(), Head { entries, hash });
    }
    let walked = replayed.iter().map(|(job, (head, _))| (job.clone(), *head)).collect::<BTreeMap<_, _>>();
    same("heads of the chains", &walked, &heads)?;
    Ok(replayed.into_iter().map(|(job, (_, replayed))| (job, replayed)).collect())
}

fn same<T: PartialEq>(what: &str, chain: &T, table: &T) -> Result<(), Fail> {
    if chain == table {
        Ok(())
    } else {
        Err(Fail::Record(format!("the {what} are not what the chain of events says")))
    }
}

fn check_jobs(transaction: &ReadTransaction, replayed: &BTreeMap<String, ReplayedJob>) -> Result<(), Fail> {
    let shards = transaction.open_table(SHARDS)?;
    let plans = transaction.open_table(PLANS)?;
    let ledger = tables::ledger_id(&transaction.open_table(IDENTITY)?)?;
    let mut jobs = 0;
    let mut shards_seen = 0;
    for entry in transaction.open_table(JOBS)?.iter()? {
        let (name, bytes) = entry?;
        let name = name.value();
        let record = tables::decode::<JobRecord>(bytes.value())?;
        let of_job = |what: &str| Fail::Record(format!("job {name}: {what}"));
        let mut own: Vec<ShardRecord> = Vec::new();
        for shard in shards.range((name, 0)..=(name, u32::MAX))? {
            own.push(tables::decode(shard?.1.value())?);
        }
        coverage::check(&record, &own).map_err(|error| of_job(&format!("its shards: {error}")))?;
        let plan = plans.get(name)?.ok_or_else(|| of_job("its plan is missing"))?;
        let replayed_job = replayed.get(name).ok_or_else(|| of_job("it has no chain of events"))?;
        replayed_job
            .check(name, &record, &own, Sha256::digest(plan.value()).into(), ledger)
            .map_err(|what| of_job(&format!("its {what} is not what its chain of events says")))?;
        (jobs, shards_seen) = (jobs + 1, shards_seen + own.len());
    }
    let stray =
        jobs != replayed.len() || plans.iter()?.count() != jobs || shards.iter()?.count() != shards_seen;
    if stray { Err(Fail::Record("there are records of jobs that are not there".to_owned())) } else { Ok(()) }
}

type ByBranch<T> = BTreeMap<(String, u64), T>;

/// Collects one map of all jobs, such as their branches, by job and number.
fn of_all<T: Clone>(
    replayed: &BTreeMap<String, ReplayedJob>,
    part: impl Fn(&ReplayedJob) -> &BTreeMap<u64, T>,
) -> ByBranch<T> {
    let of_job = |(job, replayed): (&String, &ReplayedJob)| -> Vec<_> {
        part(replayed).iter().map(|(number, value)| ((job.clone(), *number), value.clone())).collect()
    };
    replayed.iter().flat_map(of_job).collect()
}

fn check_branches(
    transaction: &ReadTransaction,
    replayed: &BTreeMap<String, ReplayedJob>,
) -> Result<(), Fail> {
    let mut branches = ByBranch::new();
    for entry in transaction.open_table(BRANCHES)?.iter()? {
        let (key, opened) = entry?;
        let opened = OpenedFrom::from_stored(opened.value());
        branches.insert((key.value().0.to_owned(), key.value().1), opened);
    }
    same(BRANCHES.name(), &of_all(replayed, |job| &job.branches), &branches)
}

fn check_bindings(
    transaction: &ReadTransaction,
    replayed: &BTreeMap<String, ReplayedJob>,
) -> Result<(), Fail> {
    let expected = of_all(replayed, |job| &job.cursors);
    let mut walked = ByBranch::<BranchCursor>::new();
    for entry in transaction.open_table(BINDINGS)?.iter()? {
        let (key, stored) = entry?;
        let (job, branch, row) = key.value();
        walked.entry((job.to_owned(), branch)).or_default().add(job, branch, row, &stored.value());
    }
    same("bindings", &expected, &walked)?;
    let mut cursors = ByBranch::new();
    for entry in transaction.open_table(CURSORS)?.iter()? {
        let (key, cursor) = entry?;
        cursors.insert((key.value().0.to_owned(), key.value().1), BranchCursor::from_stored(cursor.value()));
    }
    same("counts of bindings", &expected, &cursors)
}

fn check_checkpoints(
    transaction: &ReadTransaction,
    replayed: &BTreeMap<String, ReplayedJob>,
) -> Result<(), Fail> {
    let mut checkpoints = ByBranch::<[u8; 32]>::new();
    for entry in transaction.open_table(CHECKPOINTS)?.iter()? {
        let (key, stored) = entry?;
        tables::decode::<CheckpointRecord>(stored.value())?;
        let digest = Sha256::digest(stored.value()).into();
        checkpoints.insert((key.value().0.to_owned(), key.value().1), digest);
    }
    same(CHECKPOINTS.name(), &of_all(replayed, |job| &job.checkpoints), &checkpoints)
}
