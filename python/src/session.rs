//! A training job's own end: rows for its steps, one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use numpy::PyReadwriteArray1;
use proto::{Commitment, CoordinateRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::announced::{Announced, Got};
use crate::announcing::Commitments;
use crate::engine::{Ahead, Asked, Engine};
use crate::error::{Refused, Result};
use crate::plans::Plan;
use crate::sink::{Out, Sink};
use crate::steps::{Steps, nonce};
use crate::wait::signals;

#[pyclass(frozen, module = "rustle._native")]
pub struct Session {
    engine: Mutex<Option<Arc<dyn Engine>>>,
    branch: AtomicU64,
    steps: Mutex<Steps>,
    announced: Announced,
    /// Nanoseconds from when rows were asked for until they were here.
    waited: AtomicU64,
    /// One call at a time.
    busy: AtomicBool,
    /// The process that opened it: a fork has none of its threads, and would draw on the same rows.
    process: u32,
    job: String,
    dimension: u64,
    iterations: u64,
}

/// The right to use a session, while it lasts.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Session {
    pub fn open(engine: Arc<dyn Engine>) -> Result<Self> {
        let place = engine.place(signals)?;
        let job = engine.job().clone();
        Ok(Self {
            engine: Mutex::new(Some(engine)),
            branch: AtomicU64::new(place.branch),
            steps: Mutex::new(Steps::new(place.next_row, nonce()?)),
            announced: Announced::default(),
            waited: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            process: std::process::id(),
            job: job.name.to_string(),
            dimension: job.dimension,
            iterations: job.iterations,
        })
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn let_go(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != std::process::id() {
            // The threads stayed with the parent, and so did the right to write to its ledger.
            std::mem::forget(engine);
        } else {
            drop(engine);
            self.announced.let_go();
        }
    }

    fn turn(&self) -> Result<(Turn<'_>, Arc<dyn Engine>)> {
        if self.process != std::process::id() {
            let text = "the session was opened before a fork; connect anew in each process, after forking";
            return Err(Refused::Here("forked", text.into()));
        }
        if self.busy.swap(true, Ordering::Acquire) {
            let text = "another thread is using the session; one trainer has it, one call at a time";
            return Err(Refused::Here("busy", text.into()));
        }
        let turn = Turn(&self.busy);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let engine =
            engine.ok_or_else(|| Refused::Here("closed", "the session is closed; connect anew".into()))?;
        Ok((turn, engine))
    }

    /// Values of a range of a step go to `out`.
    fn give(
        &self,
        py: Python<'_>,
        (step, start, length): (u64, u64, usize),
        commitment: Option<&[u8]>,
        out: Out<'_>,
    ) -> Result<()> {
        let commitment = commitment.map(Commitment::try_from).transpose()?;
        let (_turn, engine) = self.turn()?;
        let range = CoordinateRange::new(start, start.saturating_add(length as u64))?;
        let commitment = self.steps().admit(step, range, commitment)?;
        let branch = self.branch.load(Ordering::Relaxed);
        let asked = Asked { branch, row: step, range, commitment };
        let begun = Instant::now();
        let waited = AtomicU64::new(0);
        py.detach(|| match self.announced.put(asked, Sink::new(out, &waited), signals)? {
            Got::Not(sink, is_bound) => engine.give(asked, is_bound, sink, signals),
            Got::Given => Ok(()),
        })?;
        let waited = match waited.into_inner() {
            0 => begun.elapsed().as_nanos() as u64,
            waited => waited,
        };
        self.waited.fetch_add(waited, Ordering::Relaxed);
        self.steps().given(step, range, commitment);
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[pymethods]
impl Session {
    /// Overwrites `out` with noise of `step`, coordinates `start` to `start + len(out)`.
    fn fetch_into(
        &self,
        py: Python<'_>,
        step: u64,
        mut out: PyReadwriteArray1<'_, f32>,
        start: u64,
        commitment: Option<&[u8]>,
    ) -> Result<()> {
        let out = out.as_slice_mut().map_err(not_contiguous)?;
        self.give(py, (step, start, out.len()), commitment, Out::Copy(out))
    }

    /// Adds noise of `step`, coordinates `start` to `end`, divided by `divide_by`, to pieces: each with its first
    /// coordinate.
    fn add_into(
        &self,
        py: Python<'_>,
        step: u64,
        mut pieces: Vec<(u64, PyReadwriteArray1<'_, f32>)>,
        range: (u64, u64),
        commitment: Option<&[u8]>,
        divide_by: f32,
    ) -> Result<()> {
        if !(divide_by.is_finite() && divide_by > 0.0) {
            return Err(Refused::invalid("divide_by", divide_by, "finite and above zero"));
        }
        let (start, end) = range;
        let mut places = Vec::with_capacity(pieces.len());
        for (first, piece) in &mut pieces {
            let out = piece.as_slice_mut().map_err(not_contiguous)?;
            if *first < start || end.checked_sub(*first).is_none_or(|room| room < out.len() as u64) {
                let found = format!("{} values from coordinate {first} on", out.len());
                return Err(Refused::invalid("pieces", found, format!("within {start}..{end}")));
            }
            places.push(((*first - start) as usize, out));
        }
        let length = end.saturating_sub(start) as usize;
        self.give(py, (step, start, length), commitment, Out::Add(places, divide_by))
    }

    /// Begins to bind the next rows, at most `steps` from the next one on, and to fetch them where they are made
    /// elsewhere. `commitment`: bytes for one row, or what gives those of each.
    fn announce(
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
        let own = self.steps().admit(row, range, None)?;
        let (there, coming) = self.announced.there((branch, row), range, commitments.given(own));
        let Some(rows) = commitments.next_rows((row, there, coming), steps, self.iterations)? else {
            return Ok(());
        };
        if there == 0 {
            py.detach(|| self.announced.forget(signals))?;
        }
        let own = |row| self.steps().declared(row);
        let bound = (rows.start..rows.end).map(|row| commitments.of(row, own)).collect::<Result<_>>()?;
        let ahead = Ahead { branch, rows, range, commitments: bound };
        py.detach(|| self.announced.begin(engine, ahead))
    }

    fn prefetch(&self, py: Python<'_>, rows: usize) -> Result<()> {
        let (_turn, engine) = self.turn()?;
        py.detach(|| engine.prefetch(rows));
        Ok(())
    }

    /// The place before `step`; the next step where not given.
    #[pyo3(signature = (step=None))]
    fn cursor<'py>(&self, py: Python<'py>, step: Option<u64>) -> Result<Bound<'py, PyBytes>> {
        let (_turn, engine) = self.turn()?;
        let step = step.unwrap_or(self.steps().next());
        let cursor = py.detach(|| engine.cursor(step, signals))?;
        Ok(PyBytes::new(py, &cursor))
    }

    /// Whether a new branch was opened.
    fn resume(&self, py: Python<'_>, cursor: &[u8], replay: bool) -> Result<bool> {
        let (_turn, engine) = self.turn()?;
        let resumed = py.detach(|| {
            self.announced.forget(signals)?;
            engine.resume(cursor, replay, signals)
        })?;
        self.branch.store(resumed.place.branch, Ordering::Relaxed);
        self.steps().go_on(resumed.place.next_row, nonce()?);
        Ok(resumed.opened_branch)
    }

    fn rewind(&self, py: Python<'_>, step: u64) -> Result<()> {
        let (_turn, engine) = self.turn()?;
        let place = py.detach(|| {
            self.announced.forget(signals)?;
            engine.rewind(step, signals)
        })?;
        self.branch.store(place.branch, Ordering::Relaxed);
        self.steps().go_on(place.next_row, nonce()?);
        Ok(())
    }

    /// What other ranks of one training job need to bind the same rows: (branch, next step, nonce).
    fn share<'py>(&self, py: Python<'py>) -> (u64, u64, Bound<'py, PyBytes>) {
        let steps = self.steps();
        (self.branch.load(Ordering::Relaxed), steps.next(), PyBytes::new(py, &steps.nonce()))
    }

    /// Goes on where rank 0 is. `place`: its [`Session::share`].
    fn join(&self, py: Python<'_>, branch: u64, step: u64, nonce: &[u8]) -> Result<()> {
        let (_turn, _engine) = self.turn()?;
        let found = format!("{} bytes", nonce.len());
        let nonce = nonce.try_into().map_err(|_| Refused::invalid("nonce", found, "32 bytes"))?;
        py.detach(|| self.announced.forget(signals))?;
        self.branch.store(branch, Ordering::Relaxed);
        self.steps().go_on(step, nonce);
        Ok(())
    }

    fn report(&self, py: Python<'_>) -> Result<String> {
        let (_turn, engine) = self.turn()?;
        py.detach(|| engine.report(signals))
    }

    fn plan(&self, py: Python<'_>) -> Result<Plan> {
        let (_turn, engine) = self.turn()?;
        Ok(Plan(py.detach(|| engine.plan(signals))?))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.let_go());
    }

    #[getter]
    fn closed(&self) -> bool {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Seconds from when rows were asked for until they were here, all told.
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

pub fn not_contiguous(_: impl std::error::Error) -> Refused {
    Refused::Here("buffer", "the buffer is not contiguous; allowed: float32 in C order".into())
}
