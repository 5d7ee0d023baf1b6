//! The check of all tables against the chains of events: what the store's checksums can't notice.
//!
//! Each job's chain is walked from its first entry to its head, and its events are replayed on an empty job. The result
//! must equal the tables; any difference means that something was lost, added or altered.

use std::{collections::BTreeMap, panic::resume_unwind, path::Path, thread};

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

use super::{
    approval_check,
    archive_check::SeenEntries,
    bound_text,
    data_set_replay::ReplayedDataSet,
    data_sets, entries,
    event::Event,
    replay::ReplayedJob,
    stamp::{self, Stamp},
};

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
    check_all(db).map_err(|fail| match fail {
        Fail::Refused(error) => error,
        Fail::Store(error) => damaged(path, error.to_string()),
        Fail::Record(reason) => damaged(path, reason),
    })
}

fn damaged(path: &Path, reason: String) -> LedgerError {
    LedgerError::Damaged { path: path.to_owned(), reason }
}

fn check_all(db: &Database) -> Result<(), Fail> {
    let transaction = db.begin_read().map_err(|error| Fail::Store(error.into()))?;
    // Both go through all that was ever bound, and take nearly all of the time.
    let (replayed, bound) = thread::scope(|scope| {
        let bound = scope.spawn(|| walk_bindings(db));
        let replayed = replay(&transaction);
        (replayed, bound.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let Replayed { jobs: replayed, data_sets, .. } = replayed?;
    check_jobs(&transaction, &replayed)?;
    check_branches(&transaction, &replayed)?;
    check_bindings(&transaction, &replayed, &bound?)?;
    check_checkpoints(&transaction, &replayed)?;
    data_sets.values().try_for_each(|data_set| approval_check::check(&transaction, &data_set.approvals))?;
    data_sets::check(&transaction, data_sets, tables::ledger_id(&transaction.open_table(IDENTITY)?)?)
}

/// What the chains say, by name.
#[derive(Default)]
pub struct Replayed {
    jobs: BTreeMap<String, ReplayedJob>,
    data_sets: BTreeMap<String, ReplayedDataSet>,
    /// Of jobs that are not archived what an archive may have to agree with; `None` for a ledger's tables, in which no archive
    /// is beside what it stands for.
    seen: Option<BTreeMap<String, SeenEntries>>,
}

impl Replayed {
    /// Returns a replay of chains in which an archive may follow the entries that it stands for, which it is compared with.
    pub fn comparing_archives() -> Self {
        Self { seen: Some(BTreeMap::new()), ..Self::default() }
    }

    /// Applies the next entry of a chain, which follows `head`.
    pub fn apply(&mut self, chain: &str, head: Head, entry: &[u8]) -> Result<(), Fail> {
        let applied = match data_sets::data_set_of(chain) {
            Some(name) => {
                let (Stamp { at_ms, .. }, fields) = Stamp::split_stored(entry)?;
                let data_set = self.data_sets.entry(name.to_owned()).or_default();
                data_set.apply(name, at_ms, tables::decode(&stamp::event_of(fields))?)
            }
            None => {
                let fields = stamp::fields_of(entry)?;
                let event = match bound_text::read(fields) {
                    Some(bound) => bound,
                    None => tables::decode(&stamp::event_of(fields))?,
                };
                self.see(chain, head, entry, &event)
                    .and_then(|()| self.jobs.entry(chain.to_owned()).or_default().apply(chain, head, event))
            }
        };
        applied.map_err(|what| Fail::Record(what.to_owned()))
    }

    fn see(&mut self, chain: &str, head: Head, entry: &[u8], event: &Event) -> Result<(), &'static str> {
        let is_first = !self.jobs.contains_key(chain);
        match (&mut self.seen, event) {
            (None, Event::Archived(_)) if !is_first => {
                Err("an archive beside the entries that it stands for")
            }
            (Some(seen), Event::Archived(archive)) if !is_first => {
                seen.remove(chain).ok_or("an archive after another one")?.check(archive)
            }
            (None, _) | (Some(_), Event::Archived(_)) => Ok(()),
            (Some(seen), event) => seen.entry(chain.to_owned()).or_default().take(head.entries, entry, event),
        }
    }
}

/// Replays the chains of all jobs and data sets.
fn replay(transaction: &ReadTransaction) -> Result<Replayed, Fail> {
    let mut replayed = Replayed::default();
    let mut walked = BTreeMap::<String, Head>::new();
    for entry in transaction.open_table(ENTRIES)?.iter()? {
        let (key, stored) = entry?;
        let (chain, index) = key.value();
        let of_chain =
            |what: &str| Fail::Record(format!("the chain of {} at entry {index}: {what}", shown(chain)));
        let (hash, event) = chain::split(stored.value())?;
        let head = match walked.get(chain) {
            Some(head) => *head,
            None => entries::head_before(chain, index, event)?,
        };
        let next = head.next(event);
        if index != head.entries || hash != next.hash {
            return Err(of_chain("it breaks"));
        }
        walked.insert(chain.to_owned(), next);
        replayed.apply(chain, head, event).map_err(|fail| match fail {
            Fail::Record(what) => of_chain(&what),
            fail => fail,
        })?;
    }
    let mut heads = BTreeMap::new();
    for entry in transaction.open_table(HEADS)?.iter()? {
        let (job, head) = entry?;
        let (entries, hash) = head.value();
        heads.insert(job.value().to_owned(), Head { entries, hash });
    }
    same("heads of the chains", &walked, &heads)?;
    Ok(replayed)
}

/// Returns how an error calls the chain of this name.
fn shown(chain: &str) -> String {
    data_sets::data_set_of(chain).map_or_else(|| format!("job {chain}"), |name| format!("data set {name}"))
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

/// Counts the bindings of each branch anew.
fn walk_bindings(db: &Database) -> Result<ByBranch<BranchCursor>, Fail> {
    let transaction = db.begin_read().map_err(|error| Fail::Store(error.into()))?;
    let mut walked = ByBranch::<BranchCursor>::new();
    for entry in transaction.open_table(BINDINGS)?.iter()? {
        let (key, stored) = entry?;
        let (job, branch, row) = key.value();
        walked.entry((job.to_owned(), branch)).or_default().add(job, branch, row, &stored.value());
    }
    Ok(walked)
}

fn check_bindings(
    transaction: &ReadTransaction,
    replayed: &BTreeMap<String, ReplayedJob>,
    bound: &ByBranch<BranchCursor>,
) -> Result<(), Fail> {
    let expected = of_all(replayed, |job| &job.cursors);
    let mut kept = expected.clone();
    kept.retain(|(job, _), _| !replayed[job].is_archived);
    same("bindings", &kept, bound)?;
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
