//! Accounts of charges that come again: blocks that the same jobs read have one account.

use ledger::{DataSetRecord, LedgerError};

use super::bound::Bound;
use super::counted::Counted;

/// Accounts that were made of one data set.
#[derive(Debug, Default)]
pub struct Readings(Vec<Reading>);

/// ε of some charges together, at one δ.
#[derive(Debug)]
struct Reading {
    charges: Vec<Counted>,
    delta: f64,
    epsilon: f64,
    has_rho: bool,
}

impl Readings {
    /// Returns ε of all these charges together at the bound's δ, and whether their account is one in ρ.
    pub fn read(
        &mut self,
        bound: &Bound,
        charges: Vec<Counted>,
        record: &DataSetRecord,
    ) -> Result<(f64, bool), LedgerError> {
        let delta = bound.budget.delta;
        let is_same = |known: &&Reading| known.delta == delta && known.charges == charges;
        if let Some(Reading { epsilon, has_rho, .. }) = self.0.iter().find(is_same) {
            return Ok((*epsilon, *has_rho));
        }
        let account = bound.account(charges.clone(), record)?;
        let epsilon = bound.epsilon_of(&account)?;
        let has_rho = account.rho().is_some();
        self.0.push(Reading { charges, delta, epsilon, has_rho });
        Ok((epsilon, has_rho))
    }
}
