//! Calls of a session whose plan is on a grid: rows and sums of integers.

use numpy::PyReadwriteArray1;
use pyo3::prelude::*;

use crate::error::{Result, not_contiguous};
use crate::session::Session;
use crate::sink::Out;
use crate::steps::StepRequest;
use crate::sums::Purpose;

/// Returns whether the session's rows are integers.
#[pyfunction]
pub fn is_on_grid(session: &Session) -> bool {
    session.grid().is_ok()
}

/// Overwrites `out` with the noise of `step` in steps of the grid, coordinates `start` to `start + len(out)`.
#[pyfunction]
pub fn fetch_integers(
    py: Python<'_>,
    session: &Session,
    step: u64,
    mut out: PyReadwriteArray1<'_, i32>,
    start: u64,
    commitment: Option<&[u8]>,
) -> Result<()> {
    session.grid()?;
    let out = out.as_slice_mut().map_err(not_contiguous)?;
    let request = StepRequest { step, start, length: out.len(), commitment, purpose: Purpose::Noise };
    session.deliver(py, request, Out::CopyIntegers(out))
}

/// Adds the noise of `step` in steps of the grid to integers, coordinates `start` to `start + len(sum)`. `digest`: the keyed
/// digest of the sum; without one, noise is added once under a declared commitment.
#[pyfunction]
#[pyo3(signature = (session, step, sum, start, commitment, digest=None))]
pub fn release_integers(
    py: Python<'_>,
    session: &Session,
    step: u64,
    mut sum: PyReadwriteArray1<'_, i64>,
    start: u64,
    commitment: Option<&[u8]>,
    digest: Option<[u8; 32]>,
) -> Result<()> {
    let grid = session.grid()?;
    let sum = sum.as_slice_mut().map_err(not_contiguous)?;
    grid.check_integers(sum)?;
    let purpose = digest.map_or(Purpose::SumOnce, Purpose::Sum);
    let request = StepRequest { step, start, length: sum.len(), commitment, purpose };
    session.deliver(py, request, Out::AddIntegers(sum))
}
