//! An engine written in Python, for transports that this crate does not link, such as MPI.

use bytemuck::Pod;
use numpy::{Element, PyReadonlyArray1};
use plan::Grid;
use proto::{CoordinateRange, JobId, ServiceError};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{
    Ending, Engine, Job, Position, Reservation, ReserveOutcome, Resumed, RowRequest, grid_of,
};
use crate::error::{Refused, Result};
use crate::row_buffer::RowBuffer;
use crate::session::Session;
use crate::sink::Sink;
use crate::wait::{Stop, signals};

/// Opens a session over a Python object with the attributes `job`, `dimension`, `iterations` and `on_grid` and the methods
/// that [`PyEngine`] calls. Exceptions of the object reach the user of the session.
#[pyfunction]
pub fn session_over(py: Python<'_>, engine: Py<PyAny>) -> Result<Session> {
    let bound = engine.bind(py);
    let name: String = bound.getattr("job")?.extract()?;
    let job = Job {
        name: JobId::new(name)?,
        dimension: bound.getattr("dimension")?.extract()?,
        iterations: bound.getattr("iterations")?.extract()?,
    };
    let on_grid: bool = bound.getattr("on_grid")?.extract()?;
    py.detach(|| {
        let mut engine = PyEngine { engine, job, grid: None };
        if on_grid {
            engine.grid = grid_of(&engine.report(signals)?)?;
        }
        Session::open(std::sync::Arc::new(engine))
    })
}

/// Returns the exception for a service's error in JSON, or `None` for other text.
#[pyfunction]
pub fn refusal(py: Python<'_>, json: &str) -> Option<Py<PyAny>> {
    let error: ServiceError = serde_json::from_str(json).ok()?;
    Some(PyErr::from(Refused::Service(error)).into_value(py).into_any())
}

/// An [`Engine`] whose methods are those of a Python object.
struct PyEngine {
    engine: Py<PyAny>,
    job: Job,
    /// The grid of the plan's rows; `None` for rows of floats.
    grid: Option<Grid>,
}

impl PyEngine {
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        arguments: impl PyCallArgs<'py>,
    ) -> Result<Bound<'py, PyAny>> {
        Ok(self.engine.bind(py).call_method1(method, arguments)?)
    }
}

impl Engine for PyEngine {
    fn job(&self) -> &Job {
        &self.job
    }

    fn grid(&self) -> Option<Grid> {
        self.grid
    }

    fn position(&self, _stop: Stop) -> Result<Position> {
        let (branch, next_row) =
            Python::attach(|py| Ok::<_, Refused>(self.call(py, "position", ())?.extract()?))?;
        Ok(Position { branch, next_row })
    }

    fn fetch(&self, request: RowRequest, _is_bound: bool, sink: Sink<'_>, _stop: Stop) -> Result<()> {
        let RowRequest { branch, row, range, commitment } = request;
        Python::attach(|py| {
            let commitment = PyBytes::new(py, &commitment.to_bytes());
            let arguments = (branch, row, range.start, range.end, commitment);
            let answer = self.call(py, "row", arguments)?;
            match self.grid {
                None => put::<f32>(&answer, range, sink),
                Some(_) => put::<i32>(&answer, range, sink),
            }
        })
    }

    /// Reserves nothing: the object's Python runs on the training job's own thread alone.
    fn reserve(&self, _rows: &Reservation, _spare: Option<RowBuffer>) -> Result<ReserveOutcome> {
        Ok(ReserveOutcome::Nothing)
    }

    /// Does nothing: the processes that produce the rows decide how many to produce ahead.
    fn prefetch(&self, _rows: usize) {}

    fn cursor(&self, next_row: u64, _stop: Stop) -> Result<Vec<u8>> {
        Python::attach(|py| Ok(self.call(py, "cursor", (next_row,))?.extract()?))
    }

    fn resume(&self, cursor: &[u8], replay: bool, _stop: Stop) -> Result<Resumed> {
        let (branch, next_row, opened_branch) = Python::attach(|py| {
            let arguments = (PyBytes::new(py, cursor), replay);
            Ok::<_, Refused>(self.call(py, "resume", arguments)?.extract()?)
        })?;
        Ok(Resumed { position: Position { branch, next_row }, opened_branch })
    }

    fn rewind(&self, row: u64, _stop: Stop) -> Result<Position> {
        let (branch, next_row) =
            Python::attach(|py| Ok::<_, Refused>(self.call(py, "rewind", (row,))?.extract()?))?;
        Ok(Position { branch, next_row })
    }

    fn finish(&self, _destroy_key: bool, _stop: Stop) -> Result<Ending> {
        Err(Refused::invalid("finish", "of a session of mpi://", "of one of inproc:// or of a cluster"))
    }

    fn report(&self, _stop: Stop) -> Result<String> {
        Python::attach(|py| Ok(self.call(py, "report", ())?.extract()?))
    }
}

/// Delivers an array of values of four bytes.
fn put<V: Element + Pod + Sync>(
    answer: &Bound<'_, PyAny>,
    range: CoordinateRange,
    sink: Sink<'_>,
) -> Result<()> {
    let values: PyReadonlyArray1<'_, V> = answer.extract()?;
    let values = values.as_slice().map_err(|error| Refused::Here("internal", error.to_string()))?;
    if values.len() as u64 != range.len() {
        return Err(Refused::Here("internal", format!("{} values of {range}", values.len())));
    }
    answer.py().detach(|| sink.put(bytemuck::cast_slice(values)));
    Ok(())
}

impl Drop for PyEngine {
    fn drop(&mut self) {
        // Closing twice does nothing. An exception has no caller to reach here.
        Python::attach(|py| {
            if let Err(error) = self.engine.bind(py).call_method0("close") {
                error.write_unraisable(py, None);
            }
        });
    }
}
