//! Data sets and sweeps in the ledger of a folder.

use std::path::{Path, PathBuf};

use ledger::{DataSetRecord, Ledger};
use proto::model::{AddBlock, BudgetedAccount, PrivacyBudget, named_blocks};
use proto::{BlockId, DataSetId, Day, SweepId};
use pyo3::prelude::*;
use release::budget::{self, Sweep};

use crate::error::{Refused, Result};
use crate::opening::{nonce, taken_up};
use crate::plans::Plan;
use crate::run_folder;

/// The data set that a job draws on, its unit, its relation, the sampling of its batches as JSON, and the blocks that it reads.
pub type AccountWords = (String, String, String, String, Vec<String>);

/// Reads the words of an account.
///
/// # Errors
/// A name, unit or relation that is none, and a block that is named twice.
pub fn account_of((data_set, unit, neighbouring, sampling, blocks): AccountWords) -> Result<BudgetedAccount> {
    let data_set = DataSetId::new(data_set)?;
    Ok(BudgetedAccount {
        data_set,
        unit: unit.parse()?,
        neighbouring: neighbouring.parse()?,
        sampling,
        tenant: None,
        blocks: named_blocks(blocks)?,
    })
}

fn ledger_of(folder: &Path) -> Result<Ledger> {
    let not_created = |error| Refused::Here("store", format!("folder {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(not_created)?;
    run_folder::open_ledger(folder, nonce()?)
}

/// Opens the folder's ledger to write to it. It is compared with its anchor before: a copy reserves nothing.
fn ledger_to_write(folder: &Path) -> Result<Ledger> {
    let ledger = ledger_of(folder)?;
    taken_up(ledger, &run_folder::anchor_place(folder)?, false)
}

/// Records a data set in the folder's ledger, which begins where there is none. `words`: its name, unit and relation;
/// `amount`: ε and δ of its budget; `per_block`: whether that is of each block.
#[pyfunction]
pub fn create_data_set(
    py: Python<'_>,
    folder: PathBuf,
    words: (String, String, String),
    amount: (f64, f64),
    per_block: bool,
) -> Result<()> {
    let record = DataSetRecord {
        data_set: DataSetId::new(words.0)?,
        unit: words.1.parse()?,
        neighbouring: words.2.parse()?,
        budget: PrivacyBudget::new(amount.0, amount.1)?,
        shares: Default::default(),
        blocks: Default::default(),
        per_block,
        approvals: None,
    };
    py.detach(|| {
        ledger_to_write(&folder)?.create_data_set(&record)?;
        Ok(())
    })
}

/// Replaces a data set's budget by one that holds all charges.
#[pyfunction]
pub fn grant_budget(py: Python<'_>, folder: PathBuf, data_set: String, amount: (f64, f64)) -> Result<()> {
    let data_set = DataSetId::new(data_set)?;
    let budget = PrivacyBudget::new(amount.0, amount.1)?;
    py.detach(|| Ok(budget::grant(&ledger_to_write(&folder)?, &data_set, budget)?))
}

/// Records a block of a data set. `days`: its first day, and the first one after it.
#[pyfunction]
pub fn add_block(
    py: Python<'_>,
    folder: PathBuf,
    data_set: String,
    block: String,
    days: (String, String),
    amount: Option<(f64, f64)>,
) -> Result<()> {
    let request = AddBlock {
        data_set: DataSetId::new(data_set)?,
        block: BlockId::new(block)?,
        from: Day::new(days.0)?,
        until: Day::new(days.1)?,
        budget: amount.map(|(epsilon, delta)| PrivacyBudget::new(epsilon, delta)).transpose()?,
    };
    py.detach(|| Ok(budget::add_block(&ledger_to_write(&folder)?, &request)?))
}

/// The report on a data set, as JSON, Markdown or HTML.
#[pyfunction]
pub fn data_set_report(py: Python<'_>, folder: PathBuf, data_set: String, format: &str) -> Result<String> {
    let data_set = DataSetId::new(data_set)?;
    py.detach(|| {
        let ledger = ledger_of(&folder)?;
        let state = ledger.data_set(&data_set)?;
        let used = match state.record.approvals {
            Some(_) => {
                let entries = ledger.data_set_entries(&data_set, 0, usize::MAX, usize::MAX)?;
                budget::approvals_used(entries.iter().map(|entry| entry.event.as_str()))?
            }
            None => Vec::new(),
        };
        let report = budget::report_of(&budget::message_of(&state)?, used, env!("CARGO_PKG_VERSION"));
        match format {
            "json" => Ok(serde_json::to_string(&report)?),
            "markdown" => Ok(report.markdown()),
            "html" => Ok(report.html()),
            other => Err(Refused::invalid("format", format!("{other:?}"), "markdown, html, json")),
        }
    })
}

/// Records a sweep over runs of a plan, and draws its number of runs.
#[pyfunction]
pub fn create_sweep(
    py: Python<'_>,
    folder: PathBuf,
    sweep: String,
    account: AccountWords,
    plan: &Plan,
    runs: (f64, Option<f64>),
) -> Result<()> {
    let account = account_of(account)?;
    let sweep = Sweep { sweep: SweepId::new(sweep)?, mean: runs.0, shape: runs.1 };
    py.detach(|| {
        let run = budget::planned_event(&plan.0, &account)?;
        budget::create_sweep(&ledger_to_write(&folder)?, &sweep, &account, &run)?;
        Ok(())
    })
}

/// The number of runs that have started, whether all that were drawn have, and the sweep's event as JSON.
#[pyfunction]
pub fn sweep_state(py: Python<'_>, folder: PathBuf, sweep: String) -> Result<(u64, bool, String)> {
    let sweep = SweepId::new(sweep)?;
    py.detach(|| {
        let record = ledger_of(&folder)?.sweep(&sweep)?;
        Ok((record.started, record.is_complete(), record.charge))
    })
}
