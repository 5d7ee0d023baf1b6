//! `rustle.Batches`: batches as accounts suppose them.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use batches::{Population, Scheme, Seed, Users};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use zeroize::Zeroizing;

use crate::error::{Refused, Result};

/// Ids are below 2⁵³.
type Ids<'py> = Bound<'py, PyArray1<i64>>;

/// (round, records, whose they are, how many are missing to the cap)
type Batch<'py> = (u64, Ids<'py>, Option<Ids<'py>>, Option<u64>);

#[pyclass(frozen, module = "rustle._native")]
pub struct Batches(batches::Batches);

#[pymethods]
impl Batches {
    /// `scheme`: JSON. `population`: how many records, how many each user owns, or which owners each has.
    #[new]
    fn new(scheme: &str, population: Drawn, iterations: u64, seed: &[u8]) -> Result<Self> {
        let scheme: Scheme = serde_json::from_str(scheme)?;
        let population = match population {
            Drawn::Records(records) => Population::Records(records),
            Drawn::Users(sizes) => Population::Users(Users::new(sizes)?),
            Drawn::Owners(owners) => Population::Owners(owners.get().0.clone()),
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

    /// SHA-256 of scheme and population, hexadecimal.
    #[getter]
    fn digest(&self) -> String {
        hex::encode(self.0.digest())
    }

    /// Returns what a bound on owners leaves, JSON, or nothing where records have no owners of this kind.
    fn owner_statistics(&self, py: Python<'_>) -> Result<Option<String>> {
        let found = py.detach(|| self.0.owner_statistics())?;
        Ok(found.map(|found| serde_json::to_string(&found)).transpose()?)
    }

    /// Returns the event for an accountant, JSON.
    fn event(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0.event())?)
    }
}

#[derive(FromPyObject)]
enum Drawn {
    Records(u64),
    Users(Vec<u64>),
    Owners(Py<Owners>),
}

#[pyclass(frozen, module = "rustle._native")]
pub struct Owners(batches::Owners);

#[pymethods]
impl Owners {
    /// `records`: the number of each and its owners, which are numbered from 0.
    #[new]
    fn new(records: Vec<(u64, Vec<u64>)>) -> Result<Self> {
        Ok(Self(batches::Owners::new(records)?))
    }

    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> Result<Self> {
        let of_file = |why: String| Refused::Here("batches", format!("{}: {why}", path.display()));
        let file = File::open(&path).map_err(|error| of_file(error.to_string()))?;
        let found = py.detach(|| batches::Owners::read(BufReader::new(file)));
        Ok(Self(found.map_err(|error| of_file(error.to_string()))?))
    }

    #[getter]
    fn records(&self) -> u64 {
        self.0.records()
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// One more than the largest number of a record.
    #[getter]
    fn end(&self) -> u64 {
        self.0.iter().map(|(record, _)| record + 1).max().unwrap_or(0)
    }
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
