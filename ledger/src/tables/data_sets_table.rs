//! Reads and writes of the tables of data sets and charges.

use proto::{DataSetId, JobId};
use redb::ReadableTable;

use crate::{
    LedgerError,
    data_set::{Charge, DataSetRecord},
    error::Fail,
    store::recording::RecordingTable,
    tables,
};

/// Returns the data set's record; `None` where there is none of this name.
pub fn find(
    data_sets: &impl ReadableTable<&'static str, &'static [u8]>,
    data_set: &DataSetId,
) -> Result<Option<DataSetRecord>, Fail> {
    data_sets.get(data_set.as_str())?.map(|bytes| tables::decode(bytes.value())).transpose()
}

/// Returns the data set's record. Error: there is no such data set.
pub fn existing(
    data_sets: &impl ReadableTable<&'static str, &'static [u8]>,
    data_set: &DataSetId,
) -> Result<DataSetRecord, Fail> {
    let missing = || LedgerError::NotFound { what: "data set", name: data_set.to_string() };
    find(data_sets, data_set)?.ok_or_else(|| missing().into())
}

/// Returns what the job is charged for; `None` for a job outside of every data set.
pub fn charge_of(
    charges: &impl ReadableTable<&'static str, &'static [u8]>,
    job: &JobId,
) -> Result<Option<Charge>, Fail> {
    charges.get(job.as_str())?.map(|bytes| tables::decode(bytes.value())).transpose()
}

/// Writes what the job is charged for.
pub fn put_charge(
    charges: &mut RecordingTable<'_, &'static str, &'static [u8]>,
    job: &JobId,
    charge: &Charge,
) -> Result<(), Fail> {
    charges.insert(job.as_str(), tables::encode(charge)?.as_slice())?;
    Ok(())
}
