//! Charges: what each job of a data set costs. Each function changes a charge within the transaction that does what it
//! pays for, so that neither is there without the other.
//!
//! Whether a charge fits a budget is decided above this crate, on a [`DataSetState`](crate::DataSetState). A change states
//! the end of the chain that it was decided on, and is refused where another one was appended meanwhile: of two callers who
//! decided on the same state one must decide again.
//!
//! A row can't be bound beyond its charge: the charge is for all n rows of the plan on the current branch, together with
//! what each branch before had released, and [`Ledger::bind`](crate::Ledger::bind) refuses rows ≥ n and every branch but
//! the current one.

use std::collections::BTreeSet;

use proto::{
    BlockId, DataSetId, JobId, SweepId, TenantId,
    model::{GuardedChange, OpenBranch},
};
use redb::ReadableTable;

use super::{approvals, sweep_runs};
use crate::{
    Head, JobRecord, LedgerError, Result,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    data_set::{BranchCause, Charge, ChargeState, Recharge, Reservation},
    error::Fail,
    store::recording::RecordingTransaction,
    tables::{
        self, CHARGES, CURSORS, DATA_SETS, HEADS,
        branch_cursor::rows_bound,
        data_sets_table::{charge_of, existing, put_charge},
    },
};

/// Reserves the whole plan of a job that is being created.
pub fn reserve(
    transaction: &RecordingTransaction<'_>,
    job: &JobRecord,
    reservation: &Reservation,
) -> Result<(), Fail> {
    let Reservation { data_set, event, expected, sweep, tenant, blocks } = reservation;
    let record = existing(&transaction.open_table(DATA_SETS)?, data_set)?;
    if sweep.is_none() {
        record.check_blocks(blocks)?;
    }
    let changed = || LedgerError::DataSetChanged { data_set: data_set.to_string() };
    check_head(&transaction.open_table(HEADS)?, data_set, expected.ok_or_else(changed)?)?;
    let charge = Charge {
        data_set: data_set.clone(),
        job_nonce: job.nonce,
        planned: event.clone(),
        event: event.clone(),
        state: ChargeState::Open,
        sweep: sweep.clone(),
        tenant: tenant.clone(),
        blocks: blocks.clone(),
    };
    put_charge(&mut transaction.open_table(CHARGES)?, &job.job, &charge)?;
    if let Some(sweep) = sweep {
        return sweep_runs::start_run(transaction, job, reservation, sweep);
    }
    let reserved = DataSetEvent::Reserved {
        job: job.job.clone(),
        job_nonce: job.nonce,
        charge: event.clone(),
        tenant: tenant.clone(),
        blocks: blocks.clone(),
    };
    chains::append(transaction, data_set, &reserved)
}

/// Checks that a job that exists is charged for in the way that a request to create it asks for.
pub fn check_same(
    transaction: &RecordingTransaction<'_>,
    job: &JobId,
    requested: Option<&Reservation>,
) -> Result<(), Fail> {
    let charge = charge_of(&transaction.open_table(CHARGES)?, job)?;
    let none = || "none".to_owned();
    let old = charge.as_ref().map_or_else(none, |charge| charge.data_set.to_string());
    let new = requested.map_or_else(none, |reservation| reservation.data_set.to_string());
    let difference = match (&charge, requested) {
        _ if old != new => format!("data set is {old}, requested {new}"),
        (Some(charge), Some(requested)) if charge.sweep != requested.sweep => {
            let name = |sweep: &Option<SweepId>| sweep.as_ref().map_or_else(none, ToString::to_string);
            format!("sweep is {}, requested {}", name(&charge.sweep), name(&requested.sweep))
        }
        (Some(charge), Some(requested)) if charge.tenant != requested.tenant => {
            let name = |tenant: &Option<TenantId>| tenant.as_ref().map_or_else(none, ToString::to_string);
            format!("tenant is {}, requested {}", name(&charge.tenant), name(&requested.tenant))
        }
        (Some(charge), Some(requested)) if charge.blocks != requested.blocks => {
            format!("blocks are {}, requested {}", named(&charge.blocks), named(&requested.blocks))
        }
        (Some(charge), Some(requested)) if charge.planned != requested.event => {
            format!("account is {}, requested {}", charge.planned, requested.event)
        }
        _ => return Ok(()),
    };
    Err(LedgerError::AlreadyExists { what: "job", name: job.to_string(), difference }.into())
}

fn named(blocks: &BTreeSet<BlockId>) -> String {
    let names: Vec<&str> = blocks.iter().map(BlockId::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Charges a job for a branch that it opens. A rewind that costs nothing takes no approval, nor does an adoption.
pub fn recharge(
    transaction: &RecordingTransaction<'_>,
    request: &OpenBranch,
    branch: u64,
    cause: BranchCause,
    recharge: Option<&Recharge>,
) -> Result<(), Fail> {
    let job = &request.job;
    let Some(charge) = charge_of(&transaction.open_table(CHARGES)?, job)? else { return Ok(()) };
    sweep_runs::check_no_run(job, charge.sweep.as_ref())?;
    let data_set = charge.data_set.clone();
    let Some(Recharge { event, expected, rows_bound: computed_on }) = recharge else {
        let state = format!("charged for in data set {data_set}");
        let allowed = "a branch that its budget pays for, as a coordinator opens it".to_owned();
        return Err(LedgerError::JobState { job: job.to_string(), state, allowed }.into());
    };
    check_head(&transaction.open_table(HEADS)?, &data_set, *expected)?;
    // A row bound since is one more that the job leaves behind.
    if rows_bound(&transaction.open_table(CURSORS)?, job)? != *computed_on {
        return Err(LedgerError::DataSetChanged { data_set: data_set.to_string() }.into());
    }
    if charge.event == *event {
        return Ok(());
    }
    let adopted = cause == BranchCause::Adoption;
    if !adopted {
        let mut data_sets = transaction.open_table(DATA_SETS)?;
        let mut record = existing(&data_sets, &data_set)?;
        if approvals::take(transaction, &mut record, &GuardedChange::from(request))? {
            data_sets.insert(data_set.as_str(), tables::encode(&record)?.as_slice())?;
        }
    }
    let changed = Charge { event: event.clone(), ..charge };
    put_charge(&mut transaction.open_table(CHARGES)?, job, &changed)?;
    let recharged = DataSetEvent::Recharged { job: job.clone(), branch, charge: event.clone(), adopted };
    chains::append(transaction, &data_set, &recharged)
}

/// Settles the charge of a job that ends. It is given back where the job has bound no row, unless `keeps_charge`; else all
/// of it stays.
pub fn settle(transaction: &RecordingTransaction<'_>, job: &JobId, keeps_charge: bool) -> Result<(), Fail> {
    let Some(charge) = charge_of(&transaction.open_table(CHARGES)?, job)? else { return Ok(()) };
    if charge.state != ChargeState::Open {
        return Ok(());
    }
    // What was drawn for a sweep is charged for whatever its runs did.
    let keeps_charge = keeps_charge || charge.sweep.is_some();
    let given_back = !keeps_charge && rows_bound(&transaction.open_table(CURSORS)?, job)? == 0;
    let state = if given_back { ChargeState::GivenBack } else { ChargeState::Final };
    let data_set = charge.data_set.clone();
    put_charge(&mut transaction.open_table(CHARGES)?, job, &Charge { state, ..charge })?;
    chains::append(transaction, &data_set, &DataSetEvent::Settled { job: job.clone(), given_back })
}

/// Checks that nothing was appended to the data set's chain since a decision was made.
pub fn check_head(
    heads: &impl ReadableTable<&'static str, (u64, [u8; 32])>,
    data_set: &DataSetId,
    expected: Head,
) -> Result<(), Fail> {
    if chains::head_of(heads, data_set)? == expected {
        return Ok(());
    }
    Err(LedgerError::DataSetChanged { data_set: data_set.to_string() }.into())
}
