//! What exact commitments are made of.

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::error::not_contiguous;

/// Of the bytes of a sum, and where it lies.
#[pyfunction]
pub fn digest<'py>(
    py: Python<'py>,
    sum: PyReadonlyArray1<'py, u8>,
    start: u64,
    divide_by: f32,
) -> Result<Bound<'py, PyBytes>> {
    let bytes = sum.as_slice().map_err(not_contiguous)?;
    let digest: [u8; 32] = py.detach(|| {
        Sha256::new()
            .chain_update(b"rustle exact sum v1")
            .chain_update(start.to_le_bytes())
            .chain_update((bytes.len() as u64).to_le_bytes())
            .chain_update(divide_by.to_le_bytes())
            .chain_update(bytes)
            .finalize()
            .into()
    });
    Ok(PyBytes::new(py, &digest))
}
