//! The session of a training job: rows for its steps, one after another.

mod delivery;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use numpy::PyReadwriteArray1;
use proto::CoordinateRange;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::engine::{Engine, Position, Reservation};
use crate::error::{Refused, Result, not_contiguous};
use crate::plans::Plan;
use crate::reservation::Commitments;
use crate::reserved_rows::ReservedRows;
use crate::secret::{Secret, random_bytes};
use crate::sink::{Out, targets};
use crate::steps::{StepRequest, Steps};
use crate::sum_grid::SumGrid;
use crate::sums::Purpose;
use crate::turn::Turn;
use crate::wait::signals;

/// The native half of `rustle.Session`.
#[pyclass(frozen, module = "rustle._native")]
pub struct Session {
    engine: Mutex<Option<Arc<dyn Engine>>>,
    branch: AtomicU64,
    steps: Mutex<Steps>,
    reserved: ReservedRows,
    /// Nanoseconds between requests for rows and their arrival.
    waited: AtomicU64,
    /// One call at a time.
    busy: AtomicBool,
    /// The process that opened the session. A fork has none of its threads, and would use the same rows.
    process: u32,
    job: String,
    dimension: u64,
    iterations: u64,
    /// The grid of the plan's rows; `None` for rows of floating-point numbers.
    grid: Option<SumGrid>,
}

impl Session {
    /// Opens a session at the engine's position.
    ///
    /// # Errors
    /// The engine's, and a system without randomness.
    pub fn open(engine: Arc<dyn Engine>) -> Result<Self> {
        let position = engine.position(signals)?;
        let job = engine.job().clone();
        let grid = engine.grid().map(SumGrid::new);
        Ok(Self {
            engine: Mutex::new(Some(engine)),
            branch: AtomicU64::new(position.branch),
            steps: Mutex::new(Steps::new(position.next_row, random_bytes()?, Secret::draw()?)),
            reserved: ReservedRows::default(),
            waited: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            process: std::process::id(),
            job: job.name.to_string(),
            dimension: job.dimension,
            iterations: job.iterations,
            grid,
        })
    }

    fn engine(&self) -> MutexGuard<'_, Option<Arc<dyn Engine>>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session; a second time does nothing.
    fn end(&self) {
        let engine = self.engine().take();
        if self.process != std::process::id() {
            // Threads and the right to write to the ledger stayed with the parent.
            std::mem::forget(engine);
        } else {
            drop(engine);
            self.reserved.close();
        }
    }

    /// Takes the right to use the session, and its engine.
    fn turn(&self) -> Result<(Turn<'_>, Arc<dyn Engine>)> {
        let turn = Turn::take(&self.busy, self.process)?;
        let engine = self.engine().clone();
        let engine =
            engine.ok_or_else(|| Refused::Here("closed", "the session is closed; connect anew".into()))?;
        Ok((turn, engine))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Session {
    /// Overwrites `out` with the noise of `step`, coordinates `start` to `start + len(out)`.
    fn fetch_into(
        &self,
        py: Python<'_>,
        step: u64,
        mut out: PyReadwriteArray1<'_, f32>,
        start: u64,
        commitment: Option<&[u8]>,
    ) -> Result<()> {
        self.check_floats()?;
        let out = out.as_slice_mut().map_err(not_contiguous)?;
        let request = StepRequest { step, start, length: out.len(), commitment, purpose: Purpose::Noise };
        self.deliver(py, request, Out::Copy(out))
    }

    /// Adds the noise of `step`, coordinates `start` to `end`, divided by `divide_by`, to pieces: each with its first
    /// coordinate. Under a plan on a grid they are rounded to it first. `sum`: its keyed digest; without one, noise is added once under a declared commitment.
    #[pyo3(signature = (step, pieces, range, commitment, divide_by, sum=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of one Python call")]
    fn add_into(
        &self,
        py: Python<'_>,
        step: u64,
        mut pieces: Vec<(u64, PyReadwriteArray1<'_, f32>)>,
        range: (u64, u64),
        commitment: Option<&[u8]>,
        divide_by: f32,
        sum: Option<[u8; 32]>,
    ) -> Result<()> {
        if !(divide_by.is_finite() && divide_by > 0.0) {
            return Err(Refused::invalid("divide_by", divide_by, "finite and above zero"));
        }
        let (start, end) = range;
        let targets = targets(&mut pieces, start..end)?;
        let length = end.saturating_sub(start) as usize;
        let purpose = sum.map_or(Purpose::SumOnce, Purpose::Sum);
        let request = StepRequest { step, start, length, commitment, purpose };
        let out = self.addition(step, start, targets, divide_by)?;
        self.deliver(py, request, out)
    }

    /// Records that the noise of `step` in coordinates `start` to `end` goes to a sum, or is discarded with one.
    fn used(&self, step: u64, start: u64, end: u64) -> Result<()> {
        self.steps().note_used(step, CoordinateRange::new(start, end)?);
        Ok(())
    }

    /// Starts to bind the next rows, at most `steps` from the next one on, and to fetch them where they come from
    /// elsewhere. `commitment`: bytes for one row, or a function from a row to its bytes.
    fn reserve(
        &self,
        py: Python<'_>,
        start: u64,
        end: u64,
        steps: u64,
        commitment: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let commitments = Commitments::from_python(commitment)?;
        let range = CoordinateRange::new(start, end)?;
        let (_turn, engine) = self.turn()?;
        let row = self.steps().next();
        let branch = self.branch.load(Ordering::Relaxed);
        let own = self.steps().admit(row, range, None, Purpose::Noise)?;
        let (available, pending) = self.reserved.available((branch, row), range, commitments.known(own));
        let Some(rows) = commitments.next_rows((row, available, pending), steps, self.iterations)? else {
            return Ok(());
        };
        if available == 0 {
            py.detach(|| self.reserved.discard(signals))?;
        }
        let own = |row| self.steps().declared(row);
        let bound = (rows.start..rows.end).map(|row| commitments.of(row, own)).collect::<Result<_>>()?;
        let reservation = Reservation { branch, rows, range, commitments: bound };
        py.detach(|| self.reserved.start(engine, reservation))
    }

    /// Sets how many rows to keep produced ahead.
    fn prefetch(&self, py: Python<'_>, rows: usize) -> Result<()> {
        let (_turn, engine) = self.turn()?;
        py.detach(|| engine.prefetch(rows));
        Ok(())
    }

    /// Returns a cursor of the position before `step`, by default the next one.
    #[pyo3(signature = (step=None))]
    fn cursor<'py>(&self, py: Python<'py>, step: Option<u64>) -> Result<Bound<'py, PyBytes>> {
        let (_turn, engine) = self.turn()?;
        let step = step.unwrap_or(self.steps().next());
        let cursor = py.detach(|| engine.cursor(step, signals))?;
        Ok(PyBytes::new(py, &self.steps().secret().with_cursor(&cursor)))
    }

    /// Continues at a cursor. Returns whether a new branch was opened.
    fn resume(&self, py: Python<'_>, cursor: &[u8], replay: bool) -> Result<bool> {
        let (_turn, engine) = self.turn()?;
        let (secret, cursor) = Secret::of_cursor(cursor, replay)?;
        let resumed = py.detach(|| {
            self.reserved.discard(signals)?;
            engine.resume(cursor, replay, signals)
        })?;
        if let Some(secret) = secret {
            self.steps().set_secret(secret);
        }
        self.turn_to(resumed.position, random_bytes()?);
        Ok(resumed.opened_branch)
    }

    /// Opens a branch on which rows from `step` on have fresh noise.
    fn rewind(&self, py: Python<'_>, step: u64) -> Result<()> {
        let (_turn, engine) = self.turn()?;
        let position = py.detach(|| {
            self.reserved.discard(signals)?;
            engine.rewind(step, signals)
        })?;
        self.turn_to(position, random_bytes()?);
        Ok(())
    }

    /// Returns what other ranks of one training job need to bind the same rows: (branch, next step, the bytes
    /// that enter commitments).
    fn share<'py>(&self, py: Python<'py>) -> (u64, u64, Bound<'py, PyBytes>) {
        let steps = self.steps();
        (self.branch.load(Ordering::Relaxed), steps.next(), PyBytes::new(py, &steps.shared()))
    }

    /// Continues at the position that rank 0 returned from [`Session::share`].
    fn join(&self, py: Python<'_>, branch: u64, step: u64, shared: &[u8]) -> Result<()> {
        let (_turn, _engine) = self.turn()?;
        let ([nonce, secret], []) = shared.as_chunks::<32>() else {
            let found = format!("{} bytes", shared.len());
            return Err(Refused::invalid("nonce", found, "64, as share() returned"));
        };
        py.detach(|| self.reserved.discard(signals))?;
        self.steps().set_secret(Secret::new(*secret));
        self.turn_to(Position { branch, next_row: step }, *nonce);
        Ok(())
    }

    /// Returns the job's report as one JSON object.
    fn report(&self, py: Python<'_>) -> Result<String> {
        let (_turn, engine) = self.turn()?;
        py.detach(|| engine.report(signals))
    }

    /// Returns the plan that the job was created with.
    fn plan(&self, py: Python<'_>) -> Result<Plan> {
        let (_turn, engine) = self.turn()?;
        Ok(Plan(py.detach(|| engine.plan(signals))?))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }

    #[getter]
    fn closed(&self) -> bool {
        self.engine().is_none()
    }

    /// Returns the seconds between all requests for rows so far and their arrival.
    #[getter]
    fn waited(&self) -> f64 {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed)).as_secs_f64()
    }

    #[getter]
    fn job(&self) -> &str {
        &self.job
    }

    #[getter]
    fn dimension(&self) -> u64 {
        self.dimension
    }

    #[getter]
    fn iterations(&self) -> u64 {
        self.iterations
    }

    #[getter]
    fn branch(&self) -> u64 {
        self.branch.load(Ordering::Relaxed)
    }

    #[getter]
    fn next_step(&self) -> u64 {
        self.steps().next()
    }
}
