//! Delivery of a step's noise, and the position that decides what may be delivered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proto::{Commitment, CoordinateRange};
use pyo3::prelude::*;

use super::Session;
use crate::engine::{Ending, Position, RowRequest};
use crate::error::{Refused, Result};
use crate::reserved_rows::Lookup;
use crate::secret::SumPlace;
use crate::sink::{Out, Sink};
use crate::steps::StepRequest;
use crate::sum_grid::SumGrid;
use crate::wait::signals;

impl Session {
    /// Writes values of a range of a step to `out`.
    pub fn deliver(&self, py: Python<'_>, request: StepRequest<'_>, out: Out<'_>) -> Result<()> {
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

    /// Returns the use of a row that is added to the pieces of a sum, whose range begins at `start`. Under a plan on a grid
    /// the sum is checked and rounded to it.
    ///
    /// # Errors
    /// Values that no grid holds, and a plan whose sums are of integers.
    pub(super) fn addition<'a>(
        &self,
        step: u64,
        start: u64,
        pieces: Vec<(usize, &'a mut [f32])>,
        divide_by: f32,
    ) -> Result<Out<'a>> {
        let Some(grid) = self.grid else { return Ok(Out::Add(pieces, divide_by)) };
        let branch = self.branch.load(Ordering::Relaxed);
        let rounding = grid.rounding(divide_by, self.steps().secret().dither_seed(branch, step))?;
        pieces.iter().try_for_each(|(_, piece)| rounding.check(piece))?;
        Ok(Out::Round(pieces, rounding, start))
    }

    /// Ends the job. Rows that are reserved are given up first: they would be delivered without being bound again.
    pub fn finish(&self, py: Python<'_>, destroy_key: bool) -> Result<Ending> {
        let (_turn, engine) = self.turn()?;
        py.detach(|| {
            self.reserved.discard(signals)?;
            engine.finish(destroy_key, signals)
        })
    }

    /// Refuses rows of floating-point numbers where the plan has integers.
    pub(super) fn check_floats(&self) -> Result<()> {
        match self.grid {
            None => Ok(()),
            Some(_) => Err(Refused::Here(
                "grid_rows_are_integers",
                "the plan has [grid], so its rows are integers; allowed: an int32 buffer, or privatize_ of a float32 sum, \
                 which rounds it to the grid first"
                    .into(),
            )),
        }
    }

    /// Returns the grid of the plan's rows.
    ///
    /// # Errors
    /// A plan without one.
    pub fn grid(&self) -> Result<SumGrid> {
        let allowed = "float32: the plan has no [grid], and its rows are floating-point numbers";
        self.grid.ok_or_else(|| Refused::invalid("buffer", "integers", allowed))
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
