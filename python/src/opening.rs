//! What opening an engine in this process takes: a processor that computes rightly, a ledger that is no copy, and the job.

use std::sync::{Arc, OnceLock};

use ledger::{AnchorPlace, Ledger};
use node::process::each_core::on_each_core;
use node::process::rng;
use noise_kernel::grid::GridMechanism;
use noise_kernel::{Backend, KernelError};
use plan::{Coefficients, Plan};
use proto::model::BudgetedAccount;
use proto::{Nonce, SweepId};
use release::job::JobDefinition;
use release::{adoption, budget};

use crate::error::{Refused, Result};

/// The numbers that rows are made with.
pub enum Numbers {
    Floats(Arc<Coefficients>),
    Integers(Arc<GridMechanism>),
}

impl Numbers {
    /// Returns those of a plan.
    ///
    /// # Errors
    /// Coefficients that no kernel has.
    pub fn of(plan: &Plan) -> Result<Self> {
        Ok(match plan.on_grid() {
            None => Self::Floats(Arc::new(plan.coefficients()?)),
            Some(on_grid) => {
                let mechanism = GridMechanism::of_plan(on_grid.coefficients(), plan.iterations())?;
                Self::Integers(Arc::new(mechanism))
            }
        })
    }
}

/// Takes the ledger up, and adopts it where it is a copy that is to go on.
pub fn taken_up(ledger: Ledger, place: &AnchorPlace, adopt: bool) -> Result<Ledger> {
    ledger.take_up(place, nonce()?)?;
    if adopt && ledger.copied().is_some() {
        return Ok(adoption::adopt(&ledger, place, nonce)?.0);
    }
    Ok(ledger)
}

/// Makes rows of known noise on every core, once in a process.
pub fn check_every_core() -> Result<()> {
    static CHECKED: OnceLock<Result<(), KernelError>> = OnceLock::new();
    let check = || on_each_core(|| noise_kernel::check_known_answers(Backend::Auto));
    Ok(CHECKED.get_or_init(|| check().map_err(|failed| failed.error)).clone()?)
}

/// Creates the job, together with what a data set is charged for it.
pub fn create_job(
    ledger: &Ledger,
    plan: &Plan,
    definition: &JobDefinition,
    budgeted: Option<(BudgetedAccount, Option<SweepId>)>,
) -> Result<()> {
    let Some((account, sweep)) = budgeted else {
        ledger.create_job(&definition.record, &definition.shards)?;
        return Ok(());
    };
    let event = budget::planned_event(plan, &account)?;
    match sweep {
        None => budget::create_job(ledger, definition, &account, &event)?,
        Some(sweep) => budget::create_run(ledger, &sweep, definition, &account, &event)?,
    };
    Ok(())
}

/// Draws the nonce of a ledger, a job or a branch.
pub fn nonce() -> Result<Nonce> {
    rng::nonce().map_err(|error| Refused::Here("internal", format!("random bytes: {error}")))
}
