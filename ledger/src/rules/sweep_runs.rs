//! Runs of sweeps: each job of a sweep is counted against the number that was drawn.

use proto::{DataSetId, JobId, SweepId};
use redb::{ReadTransaction, ReadableTable};

use crate::{
    JobRecord, LedgerError, Result, SweepRecord,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    data_set::Reservation,
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{self, SWEEPS},
};

/// Counts a job that is being created as a run of its sweep. Fails where as many have started as were drawn.
pub fn start_run(
    transaction: &RecordingTransaction<'_>,
    job: &JobRecord,
    reservation: &Reservation,
    sweep: &SweepId,
) -> Result<(), Fail> {
    let mut sweeps = transaction.open_table(SWEEPS)?;
    let record = existing(&sweeps, sweep)?;
    let of_sweep = |what: &str| format!("{what}, as sweep {sweep} has");
    if record.data_set != reservation.data_set {
        let allowed = of_sweep(record.data_set.as_str());
        return Err(LedgerError::invalid("data_set", &reservation.data_set, allowed).into());
    }
    if record.run != reservation.event {
        let allowed = of_sweep(&record.run);
        return Err(LedgerError::invalid("account", &reservation.event, allowed).into());
    }
    if record.is_complete() {
        let allowed = "a sweep with a run left: all runs that were drawn for this one have started";
        return Err(LedgerError::invalid("sweep", sweep, allowed).into());
    }
    let started = record.started + 1;
    sweeps.insert(sweep.as_str(), tables::encode(&SweepRecord { started, ..record })?.as_slice())?;
    let event = DataSetEvent::RunStarted { sweep: sweep.clone(), job: job.job.clone(), job_nonce: job.nonce };
    chains::append(transaction, &reservation.data_set, &event)
}

/// Refuses to let a run go back: what it then released is more than the sweep is charged for.
pub fn check_no_run(job: &JobId, sweep: Option<&SweepId>) -> Result<()> {
    let Some(sweep) = sweep else { return Ok(()) };
    Err(LedgerError::JobState {
        job: job.to_string(),
        state: format!("a run of sweep {sweep}"),
        allowed: "continued where it stopped: the charge of its sweep holds no rewinds. A run that can't continue counts as \
                  one without a result"
            .to_owned(),
    })
}

/// Returns the sweeps that a data set is charged for.
pub fn of_data_set(transaction: &ReadTransaction, data_set: &DataSetId) -> Result<Vec<SweepRecord>, Fail> {
    let mut found = Vec::new();
    for entry in transaction.open_table(SWEEPS)?.iter()? {
        let record: SweepRecord = tables::decode(entry?.1.value())?;
        if record.data_set == *data_set {
            found.push(record);
        }
    }
    Ok(found)
}

/// Returns the sweep; `None` where there is none of this name.
pub fn find(
    sweeps: &impl ReadableTable<&'static str, &'static [u8]>,
    sweep: &SweepId,
) -> Result<Option<SweepRecord>, Fail> {
    sweeps.get(sweep.as_str())?.map(|bytes| tables::decode(bytes.value())).transpose()
}

/// Returns the sweep. Error: there is no such sweep.
pub fn existing(
    sweeps: &impl ReadableTable<&'static str, &'static [u8]>,
    sweep: &SweepId,
) -> Result<SweepRecord, Fail> {
    let missing = || LedgerError::NotFound { what: "sweep", name: sweep.to_string() };
    find(sweeps, sweep)?.ok_or_else(|| missing().into())
}
