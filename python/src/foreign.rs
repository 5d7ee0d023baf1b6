//! An engine written in Python: what reaches noise by a way that this crate does not link, such as MPI.

use numpy::PyReadonlyArray1;
use proto::{JobId, ServiceError};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{Ahead, Announced, Asked, Engine, Job, Place, Resumed};
use crate::error::{Refused, Result};
use crate::held::Held;
use crate::session::Session;
use crate::sink::Sink;
use crate::wait::Stop;

/// A session over an engine: an object with `job`, `dimension` and `iterations` and the methods called below. What it
/// raises reaches the user of the session.
#[pyfunction]
pub fn session_over(py: Python<'_>, engine: Py<PyAny>) -> Result<Session> {
    let bound = engine.bind(py);
    let name: String = bound.getattr("job")?.extract()?;
    let job = Job {
        name: JobId::new(name)?,
        dimension: bound.getattr("dimension")?.extract()?,
        iterations: bound.getattr("iterations")?.extract()?,
    };
    py.detach(|| Session::open(std::sync::Arc::new(Foreign { engine, job })))
}

/// The exception of an error as services spell it: one JSON object. `None` where it is none.
#[pyfunction]
pub fn refusal(py: Python<'_>, json: &str) -> Option<Py<PyAny>> {
    let error: ServiceError = serde_json::from_str(json).ok()?;
    Some(PyErr::from(Refused::Service(error)).into_value(py).into_any())
}

struct Foreign {
    engine: Py<PyAny>,
    job: Job,
}

impl Foreign {
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        arguments: impl PyCallArgs<'py>,
    ) -> Result<Bound<'py, PyAny>> {
        Ok(self.engine.bind(py).call_method1(method, arguments)?)
    }
}

impl Engine for Foreign {
    fn job(&self) -> &Job {
        &self.job
    }

    fn place(&self, _stop: Stop) -> Result<Place> {
        let (branch, next_row) =
            Python::attach(|py| Ok::<_, Refused>(self.call(py, "place", ())?.extract()?))?;
        Ok(Place { branch, next_row })
    }

    fn give(&self, asked: Asked, _is_bound: bool, sink: Sink<'_>, _stop: Stop) -> Result<()> {
        let Asked { branch, row, range, commitment } = asked;
        Python::attach(|py| {
            let commitment = PyBytes::new(py, &commitment.to_bytes());
            let arguments = (branch, row, range.start, range.end, commitment);
            let answer = self.call(py, "row", arguments)?;
            let values: PyReadonlyArray1<'_, f32> = answer.extract()?;
            let values = values.as_slice().map_err(|error| Refused::Here("internal", error.to_string()))?;
            if values.len() as u64 != range.len() {
                return Err(Refused::Here("internal", format!("{} values of {range}", values.len())));
            }
            py.detach(|| sink.put(values));
            Ok(())
        })
    }

    /// Nothing: its Python is called by the training job's own thread alone.
    fn announce(&self, _ahead: &Ahead, _spare: Option<Held>) -> Result<Announced> {
        Ok(Announced::Nothing)
    }

    /// Rows are made ahead where they are made.
    fn prefetch(&self, _rows: usize) {}

    fn cursor(&self, next_row: u64, _stop: Stop) -> Result<Vec<u8>> {
        Python::attach(|py| Ok(self.call(py, "cursor", (next_row,))?.extract()?))
    }

    fn resume(&self, cursor: &[u8], replay: bool, _stop: Stop) -> Result<Resumed> {
        let (branch, next_row, opened_branch) = Python::attach(|py| {
            let arguments = (PyBytes::new(py, cursor), replay);
            Ok::<_, Refused>(self.call(py, "resume", arguments)?.extract()?)
        })?;
        Ok(Resumed { place: Place { branch, next_row }, opened_branch })
    }

    fn rewind(&self, row: u64, _stop: Stop) -> Result<Place> {
        let (branch, next_row) =
            Python::attach(|py| Ok::<_, Refused>(self.call(py, "rewind", (row,))?.extract()?))?;
        Ok(Place { branch, next_row })
    }

    fn report(&self, _stop: Stop) -> Result<String> {
        Python::attach(|py| Ok(self.call(py, "report", ())?.extract()?))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // Closing twice does nothing, and there is no caller to raise to.
        Python::attach(|py| {
            if let Err(error) = self.engine.bind(py).call_method0("close") {
                error.write_unraisable(py, None);
            }
        });
    }
}
