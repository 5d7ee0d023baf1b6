//! The chains of data sets, beside those of jobs: one for each data set, in the same tables and the same form.

use std::collections::BTreeMap;

use proto::{DataSetId, Nonce};
use redb::{ReadTransaction, ReadableTable, TableHandle};

use super::{Head, append_to, data_set_event::DataSetEvent, entries::entries_of, entry::Entry};
use crate::{
    JobRecord, JobState, Ledger, Result, SweepRecord,
    data_set::{Charge, ChargeState, DataSetRecord},
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{self, CHARGES, CURSORS, DATA_SETS, JOBS, SWEEPS, branch_cursor::rows_bound, data_sets_table},
};

use super::data_set_replay::{ReplayedDataSet, ReplayedSweep};

/// What precedes a data set's name in the tables of chains. No job's name has a slash.
const PREFIX: &str = "data-set/";

/// Returns the name of the data set's chain.
pub fn chain_of(data_set: &DataSetId) -> String {
    format!("{PREFIX}{data_set}")
}

/// Returns the data set whose chain has this name; `None` for the chain of a job.
pub fn data_set_of(chain: &str) -> Option<&str> {
    chain.strip_prefix(PREFIX)
}

/// Appends an event to the data set's chain, in the transaction that changes the tables accordingly.
pub fn append(
    transaction: &RecordingTransaction<'_>,
    data_set: &DataSetId,
    event: &DataSetEvent,
) -> Result<(), Fail> {
    append_to(transaction, &chain_of(data_set), transaction.stamp(), &tables::encode(event)?)
}

/// Reads the end of the data set's chain.
pub fn head_of(
    heads: &impl ReadableTable<&'static str, (u64, [u8; 32])>,
    data_set: &DataSetId,
) -> Result<Head, Fail> {
    Head::read(heads, &chain_of(data_set))
}

impl Ledger {
    /// Returns entries of the data set's chain, as [`Ledger::entries`] does of a job's.
    pub fn data_set_entries(
        &self,
        data_set: &DataSetId,
        first: u64,
        most: usize,
        most_bytes: usize,
    ) -> Result<Vec<Entry>> {
        self.store.read(|transaction| {
            data_sets_table::existing(&transaction.open_table(DATA_SETS)?, data_set)?;
            entries_of(transaction, &chain_of(data_set), first, most, most_bytes)
        })
    }
}

/// Checks the tables of data sets and charges against the chains, and each charge against its job.
pub fn check(
    transaction: &ReadTransaction,
    mut replayed: BTreeMap<String, ReplayedDataSet>,
    ledger: Nonce,
) -> Result<(), Fail> {
    let mut records = BTreeMap::<String, (DataSetRecord, Nonce)>::new();
    for entry in transaction.open_table(DATA_SETS)?.iter()? {
        let (name, bytes) = entry?;
        records.insert(name.value().to_owned(), (tables::decode(bytes.value())?, ledger));
    }
    let created =
        |(name, data_set): (&String, &ReplayedDataSet)| Some((name.clone(), data_set.created.clone()?));
    same(DATA_SETS.name(), &replayed.iter().filter_map(created).collect(), &records)?;
    let mut walked = BTreeMap::<String, Charge>::new();
    for entry in transaction.open_table(CHARGES)?.iter()? {
        let (job, bytes) = entry?;
        walked.insert(job.value().to_owned(), tables::decode(bytes.value())?);
    }
    let of_all = replayed.values().flat_map(|data_set| data_set.charges.clone());
    let count: usize = replayed.values().map(|data_set| data_set.charges.len()).sum();
    same(CHARGES.name(), &of_all.collect(), &walked)?;
    if count != walked.len() {
        return Err(Fail::Record("a job is charged for in two data sets".to_owned()));
    }
    walked.iter().try_for_each(|(job, charge)| check_job(transaction, job, charge))?;
    check_sweeps(transaction, &mut replayed)
}

/// Checks the table of sweeps against the chains: each number of runs against its digest, and that no more were started.
fn check_sweeps(
    transaction: &ReadTransaction,
    replayed: &mut BTreeMap<String, ReplayedDataSet>,
) -> Result<(), Fail> {
    let mut walked = BTreeMap::new();
    for entry in transaction.open_table(SWEEPS)?.iter()? {
        let (sweep, bytes) = entry?;
        let record: SweepRecord = tables::decode(bytes.value())?;
        if record.started > record.runs {
            return Err(Fail::Record(format!("sweep {} has more runs than were drawn", record.sweep)));
        }
        walked.insert(sweep.value().to_owned(), ReplayedSweep::from(&record));
    }
    let count: usize = replayed.values().map(|data_set| data_set.sweeps.len()).sum();
    let of_all = replayed.values_mut().flat_map(|data_set| std::mem::take(&mut data_set.sweeps));
    same(SWEEPS.name(), &of_all.collect(), &walked)?;
    if count != walked.len() {
        return Err(Fail::Record("a sweep is charged for in two data sets".to_owned()));
    }
    Ok(())
}

/// Checks that the charge is that of a job of this ledger, and is settled where the job has ended and nowhere else.
fn check_job(transaction: &ReadTransaction, job: &str, charge: &Charge) -> Result<(), Fail> {
    let of_charge = |what: &str| Fail::Record(format!("the charge of job {job} is of {what}"));
    let record =
        transaction.open_table(JOBS)?.get(job)?.map(|bytes| tables::decode::<JobRecord>(bytes.value()));
    let record = record.transpose()?.ok_or_else(|| of_charge("no job that is there"))?;
    if record.nonce != charge.job_nonce {
        return Err(of_charge("another job of this name"));
    }
    if (record.state == JobState::Running) != (charge.state == ChargeState::Open) {
        return Err(of_charge("another state of the job"));
    }
    let bound = rows_bound(&transaction.open_table(CURSORS)?, &record.job)?;
    if charge.state == ChargeState::GivenBack && bound > 0 {
        return Err(of_charge("a job that had bound no row"));
    }
    Ok(())
}

fn same<T: PartialEq>(
    what: &str,
    chains: &BTreeMap<String, T>,
    table: &BTreeMap<String, T>,
) -> Result<(), Fail> {
    if chains == table {
        return Ok(());
    }
    Err(Fail::Record(format!("the {what} are not what the chains of data sets say")))
}
