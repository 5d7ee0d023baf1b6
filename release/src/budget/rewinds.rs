//! Rewinds of a job that a budget pays for: the branch is opened together with its charge, or not at all.

use accounting::rewind::{ReleasedBranch, ReleasedRows, charge_with};
use accounting::{AccountingError, Event, MatrixMechanism, Sampling};
use ledger::{
    BranchReleases, ChargeState, ChargedJob, JobRecord, Ledger, LedgerError, OpenedBranch, Recharge,
};
use plan::{Participation, Plan, PlanError, PlanSpec};
use proto::model::{NeighbouringRelation, OpenBranch};
use proto::{Nonce, RowRange};

use super::admission::check_fits;
use super::bound::{Bound, ChargeKind};
use super::counted::with_twice_the_sensitivity;
use super::decision::decide;
use super::events::{self, invalid};

/// Opens a branch as [`Ledger::open_branch`] does, and charges the job's data set for what the job leaves behind.
///
/// # Errors
/// [`LedgerError::BudgetExceeded`] where the budget does not hold that: nothing is written, and the job stays where it is.
/// Else those of [`Ledger::open_branch`].
pub fn open_branch(ledger: &Ledger, request: &OpenBranch, nonce: Nonce) -> Result<OpenedBranch, LedgerError> {
    open_for(ledger, request, nonce, Cause::Rewind)
}

/// Opens the branch of a job whose ledger is adopted, and charges the job's data set as if the other copy of the ledger
/// released all rows of the branch before from the request's row on. The budget need not hold that: the other copy may have
/// spent it, and the charge says so.
///
/// # Errors
/// Those of [`Ledger::open_adopted_branch`].
pub fn open_adopted_branch(
    ledger: &Ledger,
    request: &OpenBranch,
    nonce: Nonce,
) -> Result<OpenedBranch, LedgerError> {
    open_for(ledger, request, nonce, Cause::Adoption)
}

/// Why a branch is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    Rewind,
    Adoption,
}

fn open_for(
    ledger: &Ledger,
    request: &OpenBranch,
    nonce: Nonce,
    cause: Cause,
) -> Result<OpenedBranch, LedgerError> {
    decide(|| {
        let recharge = recharge(ledger, request, cause)?;
        match cause {
            Cause::Rewind => ledger.open_charged_branch(request, nonce, recharge.as_ref()),
            Cause::Adoption => ledger.open_adopted_branch(request, nonce, recharge.as_ref()),
        }
    })
}

/// Returns the charge that the job has once the branch is open. `None` for a job without one, and for a request that the
/// ledger answers or refuses by itself.
fn recharge(ledger: &Ledger, request: &OpenBranch, cause: Cause) -> Result<Option<Recharge>, LedgerError> {
    let OpenBranch { job, from_row, expected_branch, parent } = request;
    let Some(charge) = ledger.charge(job)? else { return Ok(None) };
    let Some(record) = ledger.job(job)? else { return Ok(None) };
    let is_open = charge.state == ChargeState::Open && charge.sweep.is_none();
    if record.branch != *expected_branch || !is_open {
        return Ok(None);
    }
    let state = ledger.data_set(&charge.data_set)?;
    let released = ledger.released(job)?;
    let rows_bound = released.iter().flat_map(|branch| &branch.released).map(RowRange::len).sum();
    let charged = match cause {
        Cause::Rewind => ledger.charged(job)?,
        Cause::Adoption => ledger.charged_once_adopted(&record, *from_row)?,
    };
    let mut rows = released_rows(&charged);
    rows.branches.push(ReleasedBranch {
        branch: record.branch + 1,
        parent: Some(parent.unwrap_or(record.branch)),
        from_row: *from_row,
        released: Vec::new(),
    });
    if rows.check(record.iterations).is_err() {
        return Ok(None);
    }
    let planned = events::from_text(job, &charge.planned)?;
    let asked = rewound(&record, &planned, &rows, state.record.neighbouring)?;
    let event = events::to_text(&asked)?;
    if event != charge.event && cause == Cause::Rewind {
        let others = |charged: &ChargedJob| charged.job != *job;
        for bound in
            Bound::of_charge(&state.record, ChargeKind::Rewind(charge.tenant.as_ref()), &charge.blocks)?
        {
            let asked = bound.counted(asked.clone(), &charge.blocks, &state.record);
            check_fits(&state, &bound, others, &asked, || None)?;
        }
    }
    Ok(Some(Recharge { event, expected: state.head, rows_bound }))
}

/// Describes a job's whole plan together with the stretches of rows that its branches left behind: the plan's own event where
/// there are none. Stretches add to no amplified account, so that with them the job's batches count as in any order.
///
/// A record that joins a full batch pushes another one out, in the rounds of its own participation alone, so that each of these
/// sums moves by two contributions: where records are added and removed, capped batches count with twice the sensitivity.
fn rewound(
    record: &JobRecord,
    planned: &Event,
    rows: &ReleasedRows,
    neighbouring: NeighbouringRelation,
) -> Result<Event, LedgerError> {
    let Event::MatrixMechanism(run) = planned else {
        return Err(invalid("charge", planned.name(), "matrix-mechanism, the event of a plan"));
    };
    let plan = Plan::from_toml_str(&record.plan_toml).map_err(of_plan)?;
    // The participation that the event's batches keep, which may be wider than the plan's.
    let participation = Participation { min_sep: run.min_sep, max_participations: run.max_participations };
    let plan = Plan::new(PlanSpec { participation, ..plan.spec().clone() }).map_err(of_plan)?;
    let sensitivity = |rows| plan.accounted_sensitivity_of(rows).map_err(|error| Uncharged(of_plan(error)));
    let charge = charge_with(plan.iterations(), rows, sensitivity).map_err(|Uncharged(error)| error)?;
    if charge.abandoned.is_empty() {
        return Ok(planned.clone());
    }
    let whole = MatrixMechanism { sampling: Sampling::AnyOrder, ..run.clone() };
    let stretches = charge.abandoned.iter().filter(|stretch| stretch.sensitivity > 0.0).map(|stretch| {
        // Rounded down, so that μ = 1/σ is no less than the stretch's.
        Event::Gaussian { noise_multiplier: (run.noise_multiplier / stretch.sensitivity).next_down() }
    });
    let events = std::iter::once(Event::MatrixMechanism(whole)).chain(stretches).collect();
    let event = Event::Composed { events };
    let is_capped = matches!(run.sampling, Sampling::CyclicPoisson { cap: Some(_), .. });
    if is_capped && neighbouring == NeighbouringRelation::AddRemove {
        return with_twice_the_sensitivity(event).map_err(events::unaccounted);
    }
    Ok(event)
}

/// The reason why there is no charge.
struct Uncharged(LedgerError);

impl From<AccountingError> for Uncharged {
    fn from(error: AccountingError) -> Self {
        Self(events::unaccounted(error))
    }
}

fn of_plan(error: PlanError) -> LedgerError {
    invalid("plan", "without a sensitivity", error.to_string())
}

/// Returns what the ledger has released, as the accountant takes it. A bound row counts as released.
pub fn released_rows(branches: &[BranchReleases]) -> ReleasedRows {
    let branch = |releases: &BranchReleases| ReleasedBranch {
        branch: releases.branch,
        parent: releases.parent,
        from_row: releases.from_row,
        released: releases.released.iter().map(|rows| (rows.start, rows.end)).collect(),
    };
    ReleasedRows { branches: branches.iter().map(branch).collect() }
}
