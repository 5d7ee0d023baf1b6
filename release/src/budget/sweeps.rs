//! Sweeps: a random number of runs of one event, of which only the best is published (Papernot and Steinke 2021,
//! arXiv:2110.03620). The data set is charged for the selection in place of the runs.

use std::collections::BTreeSet;

use accounting::{AccountingError, Event, RunCount};
use ledger::{Created, DataSetRecord, Ledger, LedgerError, Reservation, SweepRecord};
use proto::SweepId;
use proto::model::BudgetedAccount;

use super::admission::{admitted, check_same_neighbours};
use super::bound::ChargeKind;
use super::decision::decide;
use super::events::{self, invalid};
use crate::job::JobDefinition;

/// The most runs of a sweep, on average.
const MAX_MEAN: f64 = 10_000.0;

/// A sweep that is to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Its name.
    pub sweep: SweepId,
    /// The mean number of runs, at most 10,000.
    pub mean: f64,
    /// η of a truncated negative binomial number of runs; `None` for a Poisson number.
    pub shape: Option<f64>,
}

/// Records a sweep over runs of `run`, whose selection the data set's budget holds, and draws its number of runs. A sweep
/// that exists under the same definition reserves nothing more, and keeps its number.
///
/// # Errors
/// [`LedgerError::BudgetExceeded`] where the budget does not hold it, with the least noise multiplier of a run that would
/// fit; [`LedgerError::NotFound`] for an unknown data set; [`LedgerError::Invalid`] for another unit or relation than the
/// data set's, for a distribution that is none, and for a run whose selection has no account.
pub fn create_sweep(
    ledger: &Ledger,
    sweep: &Sweep,
    account: &BudgetedAccount,
    run: &Event,
) -> Result<Created, LedgerError> {
    let Sweep { sweep: name, mean, shape } = sweep;
    if *mean > MAX_MEAN {
        return Err(invalid("runs", mean, "at most 10000 on average"));
    }
    let not_counted = |error: AccountingError| invalid("runs", mean, error.to_string());
    let number = RunCount::new(*mean, *shape).map_err(not_counted)?;
    let run = events::of_any_plan(run);
    let charge = Event::RepeatAndSelect { event: Box::new(run.clone()), mean: *mean, shape: *shape };
    let seed = seed()?;
    let record = SweepRecord {
        sweep: name.clone(),
        data_set: account.data_set.clone(),
        run: events::to_text(&run)?,
        charge: events::to_text(&charge)?,
        seed,
        runs: number.quantile(uniform(&seed)),
        started: 0,
    };
    decide(|| {
        let state = ledger.data_set(&account.data_set)?;
        check_same_neighbours(&state.record, account)?;
        let exists = state.sweeps.iter().any(|other| other.sweep == *name);
        if !exists {
            check_has_no_blocks(&state.record)?;
        }
        let expected =
            if exists { state.head } else { admitted(&state, &charge, ChargeKind::Sweep, &BTreeSet::new())? };
        ledger.create_sweep(&record, expected)
    })
}

/// Creates a job as the next run of a sweep. A job that exists as one is none that starts now.
///
/// # Errors
/// [`LedgerError::Invalid`] where all runs that were drawn have started, and for a job of another event than the sweep's
/// runs; [`LedgerError::NotFound`] for an unknown sweep; and those of [`Ledger::create_job`].
pub fn create_run(
    ledger: &Ledger,
    sweep: &SweepId,
    job: &JobDefinition,
    account: &BudgetedAccount,
    event: &Event,
) -> Result<Created, LedgerError> {
    let event = events::to_text(&events::of_any_plan(event))?;
    decide(|| {
        let state = ledger.data_set(&account.data_set)?;
        check_same_neighbours(&state.record, account)?;
        let reservation = Reservation {
            data_set: account.data_set.clone(),
            event: event.clone(),
            expected: Some(state.head),
            sweep: Some(sweep.clone()),
            tenant: None,
            blocks: BTreeSet::new(),
        };
        ledger.create_charged_job(&job.record, &job.shards, Some(&reservation))
    })
}

/// Refuses sweeps where there are blocks: they name none, and would be charged in all of them, those of the future too.
fn check_has_no_blocks(record: &DataSetRecord) -> Result<(), LedgerError> {
    if !record.per_block && record.blocks.is_empty() {
        return Ok(());
    }
    let allowed =
        format!("in a data set without blocks, as sweeps name none: data set {} has some", record.data_set);
    Err(invalid("sweep", "not allowed", allowed))
}

fn seed() -> Result<[u8; 32], LedgerError> {
    let mut seed = [0; 32];
    let none =
        |error| invalid("seed", "not drawn", format!("random bytes of the operating system ({error})"));
    getrandom::fill(&mut seed).map_err(none)?;
    Ok(seed)
}

/// Returns a number uniform in `[0, 1)`. The rest of the seed stays unknown to who learns the number of runs.
fn uniform(seed: &[u8; 32]) -> f64 {
    let head = seed.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (head >> 11) as f64 / (1u64 << 53) as f64
}
