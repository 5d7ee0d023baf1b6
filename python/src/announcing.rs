//! Which rows to announce next, and what they are bound to.

use proto::{Commitment, RowRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Refused, Result};

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

    /// The one given for `row`, where that is known before Python is asked.
    pub fn given(&self, own: Commitment) -> Option<Commitment> {
        match self {
            Self::Own => Some(own),
            Self::One(given) => Some(*given),
            Self::Each(_) => None,
        }
    }

    /// `own`: what the session makes up for a row. Calls Python: no lock may be held.
    pub fn of(&self, row: u64, own: impl Fn(u64) -> Commitment) -> Result<Commitment> {
        match self {
            Self::Own => Ok(own(row)),
            Self::One(given) => Ok(*given),
            Self::Each(of) => Ok(Commitment::try_from(&of.call1((row,))?.extract::<Vec<u8>>()?[..])?),
        }
    }

    /// The rows to announce next, so that at most `steps` of them are: `there` are from `row` on, and some may be
    /// `coming`. `None` where that is enough.
    pub fn next_rows(
        &self,
        (row, there, coming): (u64, u64, bool),
        steps: u64,
        iterations: u64,
    ) -> Result<Option<RowRange>> {
        let allowed = if matches!(self, Self::One(_)) { 1 } else { MOST_ANNOUNCED };
        if !(1..=allowed).contains(&steps) {
            return Err(Refused::invalid("steps", steps, format!("1 to {allowed}")));
        }
        // Two groups, so that one comes while the other is used.
        let (group, most) = if steps == 1 { (1, 1) } else { (steps / 2, steps / 2 * 2) };
        let rows = row + there..(row + there + group).min(iterations);
        if there + group > most || (there > 0 && coming) || rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(RowRange::new(rows.start, rows.end)?))
    }
}
