//! Which rows to announce next, and what they are bound to.

use proto::{Commitment, CoordinateRange, RowRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::announced::{Announced, Asked};
use crate::engine::Ahead;
use crate::error::{Refused, Result};
use crate::steps::Steps;
use crate::wait::signals;

/// All of them are paid for.
const MOST_ANNOUNCED: u64 = 1024;

/// What announced rows are bound to.
pub enum Commitments<'a, 'py> {
    /// What the session makes up.
    Own,
    /// The next row alone is announced.
    One(Commitment),
    /// Called with a row.
    Each(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Commitments<'a, 'py> {
    pub fn from_python(given: Option<&'a Bound<'py, PyAny>>) -> Result<Self> {
        let Some(given) = given else { return Ok(Self::Own) };
        match given.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::One(Commitment::try_from(bytes.as_bytes())?)),
            Err(_) => Ok(Self::Each(given)),
        }
    }

    fn of(&self, row: u64, steps: &Steps) -> Result<Commitment> {
        match self {
            Self::Own => Ok(steps.declared(row)),
            Self::One(given) => Ok(*given),
            Self::Each(of) => Ok(Commitment::try_from(&of.call1((row,))?.extract::<Vec<u8>>()?[..])?),
        }
    }
}

/// One call of `announce`.
pub struct Announcing<'a, 'py> {
    pub branch: u64,
    pub range: CoordinateRange,
    /// Rows of the job.
    pub iterations: u64,
    /// Rows, from the next step's on.
    pub at_most: u64,
    pub commitments: Commitments<'a, 'py>,
}

impl Announcing<'_, '_> {
    pub fn check(&self) -> Result<()> {
        let allowed = if matches!(self.commitments, Commitments::One(_)) { 1 } else { MOST_ANNOUNCED };
        if (1..=allowed).contains(&self.at_most) {
            return Ok(());
        }
        Err(Refused::invalid("steps", self.at_most, format!("1 to {allowed}")))
    }

    /// `None` where enough rows are announced or coming.
    pub fn next(&self, steps: &Steps, announced: &Announced) -> Result<Option<Ahead>> {
        let (branch, range, row) = (self.branch, self.range, steps.next());
        let own = steps.admit(row, range, None)?;
        let commitment = match &self.commitments {
            Commitments::Own => Some(own),
            Commitments::One(given) => Some(*given),
            Commitments::Each(_) => None,
        };
        let (there, coming) = announced.there(Asked { branch, row, range, commitment })?;
        if there == 0 {
            announced.forget(signals)?;
        }
        // Two groups, so that one comes while the other is used.
        let group = self.at_most.div_ceil(2);
        if there + group > self.at_most || (there > 0 && coming) {
            return Ok(None);
        }
        let rows = row + there..(row + there + group).min(self.iterations);
        if rows.is_empty() {
            return Ok(None);
        }
        let commitments = rows.clone().map(|row| self.commitments.of(row, steps)).collect::<Result<_>>()?;
        Ok(Some(Ahead { branch, rows: RowRange::new(rows.start, rows.end)?, range, commitments }))
    }
}
