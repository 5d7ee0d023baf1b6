//! `rustle.Batches`: batches as accounts suppose them.

use std::sync::{Mutex, PoisonError};

use batches::{Population, Scheme, Seed, Users};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use zeroize::Zeroizing;

use crate::error::Result;

/// Ids are below 2⁵³.
type Ids<'py> = Bound<'py, PyArray1<i64>>;

/// (round, records, whose they are, how many are missing to the cap)
type Batch<'py> = (u64, Ids<'py>, Option<Ids<'py>>, Option<u64>);

#[pyclass(frozen, module = "rustle._native")]
pub struct Batches(batches::Batches);

#[pymethods]
impl Batches {
    /// `scheme`: JSON. `population`: how many records, or how many each user owns.
    #[new]
    fn new(scheme: &str, population: Owners, iterations: u64, seed: &[u8]) -> Result<Self> {
        let scheme: Scheme = serde_json::from_str(scheme)?;
        let population = match population {
            Owners::Records(records) => Population::Records(records),
            Owners::Users(sizes) => Population::Users(Users::new(sizes)?),
        };
        let seed = Seed::from_bytes(&Zeroizing::new(seed.to_vec()))?;
        Ok(Self(batches::Batches::new(scheme, population, iterations, seed)?))
    }

    fn batch<'py>(&self, py: Python<'py>, round: u64) -> Result<Batch<'py>> {
        let batch = py.detach(|| self.0.batch(round))?;
        Ok(given(py, batch))
    }

    fn rounds(&self, py: Python<'_>, start: u64, end: u64) -> Result<Rounds> {
        Ok(Rounds(Mutex::new(py.detach(|| self.0.rounds(start..end))?)))
    }

    #[getter]
    fn iterations(&self) -> u64 {
        self.0.iterations()
    }

    /// Returns the event for an accountant, JSON.
    fn event(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0.event())?)
    }
}

#[derive(FromPyObject)]
enum Owners {
    Records(u64),
    Users(Vec<u64>),
}

#[pyclass(frozen, module = "rustle._native")]
pub struct Rounds(Mutex<batches::Rounds>);

#[pymethods]
impl Rounds {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Batch<'py>> {
        let next = || self.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        py.detach(next).map(|batch| given(py, batch))
    }
}

fn given(py: Python<'_>, batch: batches::Batch) -> Batch<'_> {
    let ids = |ids: Vec<u64>| ids.into_iter().map(|id| id as i64).collect::<Vec<_>>().into_pyarray(py);
    (batch.round, ids(batch.ids), batch.users.map(ids), batch.padding)
}
