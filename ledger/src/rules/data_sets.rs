//! Data sets: recorded once, under one definition, with a budget that may be replaced.

use proto::{
    DataSetId, JobId, TenantId,
    model::{GuardedChange, PrivacyBudget},
};
use redb::{ReadTransaction, ReadableTable};

use super::{approvals, charges, sweep_runs};
use crate::{
    Created, Head, JobRecord, Ledger, LedgerError, Result,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    data_set::{Charge, ChargedJob, DataSetRecord, DataSetState},
    error::Fail,
    store::Outcome,
    tables::{
        self, CHARGES, CURSORS, DATA_SETS, ENTRIES, HEADS, IDENTITY, JOBS,
        branch_cursor::rows_bound,
        data_sets_table::{charge_of, existing, find},
        jobs_table,
    },
};

use super::adoptions::adoptions_in;

impl Ledger {
    /// Records a data set. The same definition again is no error.
    ///
    /// # Errors
    /// [`LedgerError::AlreadyExists`] where the name is in use with another definition; [`LedgerError::Invalid`] for a rule on
    /// approvals where it is not known which person acts.
    pub fn create_data_set(&self, record: &DataSetRecord) -> Result<Created> {
        self.store.write("create_data_set", |transaction| {
            let mut data_sets = transaction.open_table(DATA_SETS)?;
            if let Some(existing) = find(&data_sets, &record.data_set)? {
                same_definition(&existing, record)?;
                return Ok(Outcome::Nothing(Created::Existing));
            }
            self.copies.check()?;
            let approval_rule = record.approvals.as_ref().map(|approvals| approvals.rule);
            if approval_rule.is_some() && transaction.stamp().by.person().is_none() {
                return Err(without_person().into());
            }
            data_sets.insert(record.data_set.as_str(), tables::encode(record)?.as_slice())?;
            let DataSetRecord { unit, neighbouring, budget, per_block, .. } = *record;
            let ledger = tables::ledger_id(&transaction.redb().open_table(IDENTITY)?)?;
            let event =
                DataSetEvent::DataSetCreated { ledger, unit, neighbouring, budget, per_block, approval_rule };
            chains::append(transaction, &record.data_set, &event)?;
            Ok(Outcome::Commit(Created::New))
        })
    }

    /// Replaces the budget, which the caller found to hold all charges.
    ///
    /// # Errors
    /// [`LedgerError::DataSetChanged`] unless the end of the chain is still the expected one: decide again;
    /// [`LedgerError::ApprovalRequired`].
    pub fn grant_budget(&self, data_set: &DataSetId, budget: PrivacyBudget, expected: Head) -> Result<()> {
        self.store.write("grant_budget", |transaction| {
            let mut data_sets = transaction.open_table(DATA_SETS)?;
            let mut record = existing(&data_sets, data_set)?;
            charges::check_head(&transaction.open_table(HEADS)?, data_set, expected)?;
            if record.budget == budget {
                return Ok(Outcome::Nothing(()));
            }
            self.copies.check()?;
            approvals::take(transaction, &mut record, &GuardedChange::Budget { budget })?;
            record.budget = budget;
            data_sets.insert(data_set.as_str(), tables::encode(&record)?.as_slice())?;
            chains::append(transaction, data_set, &DataSetEvent::BudgetGranted { budget })?;
            Ok(Outcome::Commit(()))
        })
    }

    /// Sets a tenant's share, which the caller found to hold the tenant's charges, or takes it away.
    ///
    /// # Errors
    /// [`LedgerError::DataSetChanged`] unless the end of the chain is still the expected one: decide again;
    /// [`LedgerError::NotFound`] where a share that is to be taken away is not there; [`LedgerError::ApprovalRequired`].
    pub fn set_share(
        &self,
        data_set: &DataSetId,
        tenant: &TenantId,
        share: Option<PrivacyBudget>,
        expected: Head,
    ) -> Result<()> {
        self.store.write("set_share", |transaction| {
            let mut data_sets = transaction.open_table(DATA_SETS)?;
            let mut record = existing(&data_sets, data_set)?;
            charges::check_head(&transaction.open_table(HEADS)?, data_set, expected)?;
            let before = record.shares.get(tenant).copied();
            if share.is_none() && before.is_none() {
                let name = format!("{tenant} in data set {data_set}");
                return Err(LedgerError::NotFound { what: "share of tenant", name }.into());
            }
            if before == share {
                return Ok(Outcome::Nothing(()));
            }
            self.copies.check()?;
            approvals::take(
                transaction,
                &mut record,
                &GuardedChange::Share { tenant: tenant.clone(), share },
            )?;
            match share {
                Some(share) => record.shares.insert(tenant.clone(), share),
                None => record.shares.remove(tenant),
            };
            data_sets.insert(data_set.as_str(), tables::encode(&record)?.as_slice())?;
            chains::append(transaction, data_set, &DataSetEvent::ShareSet { tenant: tenant.clone(), share })?;
            Ok(Outcome::Commit(()))
        })
    }

    /// Returns the names of all data sets, in order.
    pub fn data_sets(&self) -> Result<Vec<DataSetId>> {
        self.store.read(|transaction| {
            let mut names = Vec::new();
            for entry in transaction.open_table(DATA_SETS)?.iter()? {
                names.push(tables::decode::<DataSetRecord>(entry?.1.value())?.data_set);
            }
            Ok(names)
        })
    }

    /// Returns the data set with all its charges, as they are at one moment.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`] where there is no data set of this name.
    pub fn data_set(&self, data_set: &DataSetId) -> Result<DataSetState> {
        self.store.read(|transaction| {
            let record = existing(&transaction.open_table(DATA_SETS)?, data_set)?;
            let head = chains::head_of(&transaction.open_table(HEADS)?, data_set)?;
            let sweeps = sweep_runs::of_data_set(transaction, data_set)?;
            Ok(DataSetState { charges: charges_in(transaction, data_set)?, sweeps, record, head })
        })
    }

    /// Returns what the job is charged for; `None` for a job outside of every data set.
    pub fn charge(&self, job: &JobId) -> Result<Option<Charge>> {
        self.store.read(|transaction| charge_of(&transaction.open_table(CHARGES)?, job))
    }
}

fn charges_in(transaction: &ReadTransaction, data_set: &DataSetId) -> Result<Vec<ChargedJob>, Fail> {
    let jobs = transaction.open_table(JOBS)?;
    let cursors = transaction.open_table(CURSORS)?;
    let identity = transaction.open_table(IDENTITY)?;
    let entries = transaction.open_table(ENTRIES)?;
    let mut charged = Vec::new();
    for entry in transaction.open_table(CHARGES)?.iter()? {
        let (job, bytes) = entry?;
        let charge: Charge = tables::decode(bytes.value())?;
        if charge.data_set != *data_set {
            continue;
        }
        let job = JobId::new(job.value()).map_err(|error| Fail::Record(error.to_string()))?;
        let record = jobs_table::existing(&jobs, &job)?;
        let bound = rows_bound(&cursors, &job)?;
        let JobRecord { state, branch, .. } = record;
        let is_adopted = !adoptions_in(&identity, &entries, &job)?.is_empty();
        charged.push(ChargedJob { job, charge, state, branch, rows_bound: bound, is_adopted });
    }
    Ok(charged)
}

/// Returns the refusal of a rule where no caller is known to be a person: no change could ever be approved.
fn without_person() -> LedgerError {
    let allowed = "by a caller whose token names a person (rustle token new --role ROLE --person NAME --out FILE --tokens-file FILE), \
                   at a coordinator: elsewhere no caller is known to be another person than the one who acts";
    LedgerError::invalid("approval_rule", "asked for by a caller without a person", allowed)
}

/// Checks that two records define the same data set.
fn same_definition(existing: &DataSetRecord, requested: &DataSetRecord) -> Result<()> {
    let budget = |record: &DataSetRecord| {
        let PrivacyBudget { epsilon, delta } = record.budget;
        format!("ε = {epsilon} at δ = {delta}")
    };
    let rule = |record: &DataSetRecord| match &record.approvals {
        Some(approvals) => format!("with {} rewinds free", approvals.rule.free_rewinds),
        None => "none".to_owned(),
    };
    let pairs = [
        ("approval_rule", rule(existing), rule(requested)),
        ("unit", existing.unit.to_string(), requested.unit.to_string()),
        ("neighbouring", existing.neighbouring.to_string(), requested.neighbouring.to_string()),
        ("budget", budget(existing), budget(requested)),
        ("per_block", existing.per_block.to_string(), requested.per_block.to_string()),
    ];
    match pairs.iter().find(|(_, old, new)| old != new) {
        None => Ok(()),
        Some((what, old, new)) => Err(LedgerError::AlreadyExists {
            what: "data set",
            name: existing.data_set.to_string(),
            difference: format!("{what} is {old}, requested {new}"),
        }),
    }
}
