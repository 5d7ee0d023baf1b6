//! Delivery of a step's noise, and the position that decides what may be delivered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proto::{Commitment, CoordinateRange};
use pyo3::prelude::*;

use super::Session;
use crate::engine::{Position, RowRequest};
use crate::error::Result;
use crate::reserved_rows::Lookup;
use crate::secret::SumPlace;
use crate::sink::{Out, Sink};
use crate::steps::StepRequest;
use crate::wait::signals;

impl Session {
    /// Writes values of a range of a step to `out`.
    pub(super) fn deliver(&self, py: Python<'_>, request: StepRequest<'_>, out: Out<'_>) -> Result<()> {
        let StepRequest { step, start, length, commitment, purpose } = request;
        let commitment = commitment.map(Commitment::try_from).transpose()?;
        let (_turn, engine) = self.turn()?;
        let range = CoordinateRange::new(start, start.saturating_add(length as u64))?;
        let commitment = self.steps().admit(step, range, commitment, purpose)?;
        let branch = self.branch.load(Ordering::Relaxed);
        let request = RowRequest { branch, row: step, range, commitment };
        let begun = Instant::now();
        let waited = AtomicU64::new(0);
        py.detach(|| match self.reserved.take(request, Sink::new(out, &waited), signals)? {
            Lookup::Missing(sink, is_bound) => engine.fetch(request, is_bound, sink, signals),
            Lookup::Written => Ok(()),
        })?;
        let waited = match waited.into_inner() {
            0 => begun.elapsed().as_nanos() as u64,
            waited => waited,
        };
        self.waited.fetch_add(waited, Ordering::Relaxed);
        self.steps().record(step, range, commitment, purpose);
        Ok(())
    }

    /// Returns the keyed digest of a sum, at its place on the session's branch.
    pub fn digest(&self, row: u64, start: u64, divide_by: f32, pieces: &[&[u8]]) -> [u8; 32] {
        let branch = self.branch.load(Ordering::Relaxed);
        let secret = self.steps().secret().clone();
        secret.digest(SumPlace { branch, row, start, divide_by }, pieces)
    }

    /// Continues at a position, with the declared commitments that `nonce` yields.
    pub(super) fn turn_to(&self, position: Position, nonce: [u8; 32]) {
        let before = self.branch.swap(position.branch, Ordering::Relaxed);
        self.steps().continue_at(position.next_row, nonce, position.branch != before);
    }
}
