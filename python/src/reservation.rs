//! Which rows to reserve next, and the commitments to bind them to.

use proto::{Commitment, RowRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Refused, Result};

/// The most steps that may be reserved. Every reserved row counts as released, whether or not it is used.
const MAX_RESERVED: u64 = 1024;

/// The commitments of reserved rows.
pub enum Commitments<'a, 'py> {
    /// Those that the session declares by itself.
    Declared,
    /// The one of the next row, which alone is reserved.
    One(Commitment),
    /// A Python function from a row to the bytes of its commitment.
    Function(&'a Bound<'py, PyAny>),
}

impl<'a, 'py> Commitments<'a, 'py> {
    /// Converts the argument of `reserve`: nothing, bytes, or a function.
    ///
    /// # Errors
    /// Bytes that are no commitment.
    pub fn from_python(argument: Option<&'a Bound<'py, PyAny>>) -> Result<Self> {
        let Some(argument) = argument else { return Ok(Self::Declared) };
        match argument.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::One(Commitment::try_from(bytes.as_bytes())?)),
            Err(_) => Ok(Self::Function(argument)),
        }
    }

    /// Returns the commitment of a row if no Python needs to be called for it. `declared` is the session's own.
    pub fn known(&self, declared: Commitment) -> Option<Commitment> {
        match self {
            Self::Declared => Some(declared),
            Self::One(commitment) => Some(*commitment),
            Self::Function(_) => None,
        }
    }

    /// Returns the commitment of `row`. May call Python: the caller must hold no lock.
    ///
    /// # Errors
    /// What the function raises, and values that are no commitment.
    pub fn of(&self, row: u64, declared: impl Fn(u64) -> Commitment) -> Result<Commitment> {
        match self {
            Self::Declared => Ok(declared(row)),
            Self::One(commitment) => Ok(*commitment),
            Self::Function(function) => {
                Ok(Commitment::try_from(&function.call1((row,))?.extract::<Vec<u8>>()?[..])?)
            }
        }
    }

    /// Returns the rows to reserve now, so that at most `steps` are reserved from `row` on. `available` of them are
    /// reserved already, and `pending` says whether some of these have not arrived. Returns `None` if none are needed.
    ///
    /// # Errors
    /// A number of steps that is not allowed.
    pub fn next_rows(
        &self,
        (row, available, pending): (u64, u64, bool),
        steps: u64,
        iterations: u64,
    ) -> Result<Option<RowRange>> {
        let allowed = if matches!(self, Self::One(_)) { 1 } else { MAX_RESERVED };
        if !(1..=allowed).contains(&steps) {
            return Err(Refused::invalid("steps", steps, format!("1 to {allowed}")));
        }
        // Two groups, so that one is fetched while the other is used.
        let (group, most) = if steps == 1 { (1, 1) } else { (steps / 2, steps / 2 * 2) };
        let rows = row + available..(row + available + group).min(iterations);
        if available + group > most || (available > 0 && pending) || rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(RowRange::new(rows.start, rows.end)?))
    }
}
