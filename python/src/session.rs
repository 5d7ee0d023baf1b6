//! A training job's own end: rows for its steps, one after the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use proto::{Commitment, CoordinateRange};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sha2::{Digest, Sha256};

use crate::announced::{Announced, Asked};
use crate::engine::{Engine, Sink};
use crate::error::{Refused, Result};
use crate::plans::Plan;
use crate::steps::Steps;
use crate::wait::signals;

#[pyclass(frozen, module = "rustle._native")]
pub struct Session {
    engine: Mutex<Option<Arc<dyn Engine>>>,
    branch: AtomicU64,
    steps: Mutex<Steps>,
    announced: Announced,
    /// One call at a time.
    busy: AtomicBool,
    /// Whoever opened it: a fork has none of its threads, and would draw on the same rows.
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

    fn give(
        &self,
        py: Python<'_>,
        (step, start): (u64, u64),
        commitment: Option<Commitment>,
        (sink, length): (Sink<'_>, usize),
    ) -> Result<()> {
        let (_turn, engine) = self.turn()?;
        let range = CoordinateRange::new(start, start.saturating_add(length as u64))?;
        let commitment = self.steps().admit(step, range, commitment)?;
        let branch = self.branch.load(Ordering::Relaxed);
        let asked = Asked { branch, row: step, range, commitment };
        py.detach(|| match self.announced.put(asked, sink, signals)? {
            Some(sink) => engine.give(branch, step, range, commitment, sink, signals),
            None => Ok(()),
        })?;
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
        let commitment = commitment.map(Commitment::try_from).transpose()?;
        let out = out.as_slice_mut().map_err(not_contiguous)?;
        let length = out.len();
        self.give(py, (step, start), commitment, (Sink::Copy(out), length))
    }

    /// Adds noise of `step`, divided by `divide_by`, to `out`.
    fn add_into(
        &self,
        py: Python<'_>,
        step: u64,
        mut out: PyReadwriteArray1<'_, f32>,
        start: u64,
        commitment: Option<&[u8]>,
        divide_by: f32,
    ) -> Result<()> {
        if !(divide_by.is_finite() && divide_by > 0.0) {
            return Err(Refused::invalid("divide_by", divide_by, "finite and above zero"));
        }
        let commitment = commitment.map(Commitment::try_from).transpose()?;
        let out = out.as_slice_mut().map_err(not_contiguous)?;
        let length = out.len();
        self.give(py, (step, start), commitment, (Sink::Add(out, divide_by), length))
    }

    /// Begins to bind the next step's row, and to fetch it where it is made elsewhere.
    fn announce(&self, py: Python<'_>, start: u64, end: u64, commitment: Option<&[u8]>) -> Result<()> {
        let commitment = commitment.map(Commitment::try_from).transpose()?;
        let (_turn, engine) = self.turn()?;
        let range = CoordinateRange::new(start, end)?;
        let (row, branch) = (self.steps().next(), self.branch.load(Ordering::Relaxed));
        let commitment = self.steps().admit(row, range, commitment)?;
        let asked = Asked { branch, row, range, commitment };
        py.detach(|| self.announced.begin(engine, asked, signals))
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
    fn join(&self, branch: u64, step: u64, nonce: &[u8]) -> Result<()> {
        let (_turn, _engine) = self.turn()?;
        let found = format!("{} bytes", nonce.len());
        let nonce = nonce.try_into().map_err(|_| Refused::invalid("nonce", found, "32 bytes"))?;
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

    /// The digest of an exact commitment: of the bytes of a sum, and where it lies.
    #[staticmethod]
    fn digest<'py>(
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
}

fn not_contiguous(_: impl std::error::Error) -> Refused {
    Refused::Here("buffer", "the buffer is not contiguous; allowed: float32 in C order".into())
}

fn nonce() -> Result<[u8; 32]> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce)
        .map_err(|error| Refused::Here("internal", format!("the system's randomness: {error}")))?;
    Ok(nonce)
}
