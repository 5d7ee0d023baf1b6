//! What exact commitments are made of.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Result;
use crate::error::not_contiguous;
use crate::session::Session;

/// Returns the keyed digest of the bytes of a sum in pieces, of its step, the coordinate where it begins, and the number
/// that it was divided by. Only this session, those that resume at its cursors, and its other ranks can make it.
#[pyfunction]
pub fn digest<'py>(
    py: Python<'py>,
    session: &Bound<'py, Session>,
    step: u64,
    sum: Vec<PyReadonlyArray1<'py, u8>>,
    start: u64,
    divide_by: f32,
) -> Result<Bound<'py, PyBytes>> {
    let pieces = sum.iter().map(|piece| piece.as_slice().map_err(not_contiguous));
    let pieces = pieces.collect::<Result<Vec<&[u8]>>>()?;
    let session = session.get();
    let digest = py.detach(|| session.digest(step, start, divide_by, &pieces));
    Ok(PyBytes::new(py, &digest))
}
