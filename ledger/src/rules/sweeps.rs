//! Sweeps: recorded with their charge and their number of runs, which is drawn once.

use proto::SweepId;

use super::{
    charges,
    sweep_runs::{existing, find},
};
use crate::{
    Created, Head, Ledger, LedgerError, Result, SweepRecord,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    store::Outcome,
    tables::{self, DATA_SETS, HEADS, SWEEPS, data_sets_table},
};

impl Ledger {
    /// Records a sweep, whose charge the caller found to fit on the chain's end `expected`. The same definition again is no
    /// error, and the sweep keeps the number of runs that was drawn first.
    ///
    /// # Errors
    /// [`LedgerError::AlreadyExists`] where the name is in use with another definition; [`LedgerError::DataSetChanged`]:
    /// decide again.
    pub fn create_sweep(&self, record: &SweepRecord, expected: Head) -> Result<Created> {
        self.store.write("create_sweep", |transaction| {
            let SweepRecord { sweep, data_set, run, charge, .. } = record;
            if record.started > 0 {
                return Err(LedgerError::invalid("started", record.started, "0, as of a new sweep").into());
            }
            let mut sweeps = transaction.open_table(SWEEPS)?;
            if let Some(existing) = find(&sweeps, sweep)? {
                same_definition(&existing, record)?;
                return Ok(Outcome::Nothing(Created::Existing));
            }
            self.copies.check()?;
            data_sets_table::existing(&transaction.open_table(DATA_SETS)?, data_set)?;
            charges::check_head(&transaction.open_table(HEADS)?, data_set, expected)?;
            sweeps.insert(sweep.as_str(), tables::encode(record)?.as_slice())?;
            let reserved = DataSetEvent::SweepReserved {
                sweep: sweep.clone(),
                run: run.clone(),
                charge: charge.clone(),
                commitment: record.commitment(),
            };
            chains::append(transaction, data_set, &reserved)?;
            Ok(Outcome::Commit(Created::New))
        })
    }

    /// Returns the sweep.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`] where there is no sweep of this name.
    pub fn sweep(&self, sweep: &SweepId) -> Result<SweepRecord> {
        self.store.read(|transaction| existing(&transaction.open_table(SWEEPS)?, sweep))
    }
}

/// Checks that two records define the same sweep, whatever was drawn for it.
fn same_definition(existing: &SweepRecord, requested: &SweepRecord) -> Result<()> {
    let pairs = [
        ("data set", existing.data_set.as_str(), requested.data_set.as_str()),
        ("run", &existing.run, &requested.run),
        ("charge", &existing.charge, &requested.charge),
    ];
    match pairs.iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((what, old, new)) => Err(LedgerError::AlreadyExists {
            what: "sweep",
            name: existing.sweep.to_string(),
            difference: format!("{what} is {old}, requested {new}"),
        }),
    }
}
