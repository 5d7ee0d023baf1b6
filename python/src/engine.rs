//! The engine of a session: it binds rows to commitments and produces or fetches their values.

use plan::grid::GridPlan;
use plan::{Grid, Plan};
use proto::{Commitment, CoordinateRange, JobId, RowRange};

use crate::error::Result;
use crate::row_buffer::RowBuffer;
use crate::sink::Sink;
use crate::wait::Stop;

/// A job's name and shape.
#[derive(Clone, Debug)]
pub struct Job {
    /// The job's name.
    pub name: JobId,
    /// Coordinates of the flattened parameter vector.
    pub dimension: u64,
    /// Rows n of the plan.
    pub iterations: u64,
}

/// A job's position.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The branch that rows are bound on.
    pub branch: u64,
    /// One more than the highest row bound on the branch.
    pub next_row: u64,
}

/// The outcome of resuming at a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Resumed {
    /// The position that the job continues at.
    pub position: Position,
    /// Whether that is on another branch than the cursor's.
    pub opened_branch: bool,
}

/// A request for one row's values of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRequest {
    /// The branch that the row must be of.
    pub branch: u64,
    /// The row, counted from 0.
    pub row: u64,
    /// The coordinates.
    pub range: CoordinateRange,
    /// The commitment to bind the row to.
    pub commitment: Commitment,
}

/// Rows to bind, and to fetch where they come from elsewhere, before their steps.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// The branch that the rows must be of.
    pub branch: u64,
    /// The rows.
    pub rows: RowRange,
    /// The coordinates of each row.
    pub range: CoordinateRange,
    /// The commitments to bind the rows to, one per row.
    pub commitments: Vec<Commitment>,
}

/// The outcome of a reservation.
pub enum ReserveOutcome {
    /// Nothing was bound: the rows must be requested as if there were no reservation.
    Nothing,
    /// The rows are bound, durably, and the engine has their values at once when they are requested.
    Bound,
    /// The rows are bound, and their values are here.
    Fetched(RowBuffer),
}

/// What the end of a job leaves behind.
#[derive(Clone, Debug)]
pub struct Ending {
    /// What can no longer be done, and what still can.
    pub statement: String,
    /// Whether a key was to be deleted that is not the engine's to delete.
    pub is_key_left: bool,
}

/// A source of bound rows: this process, a cluster, or an object written in Python.
pub trait Engine: Send + Sync {
    /// Returns the job.
    fn job(&self) -> &Job;

    /// Returns the plan that the job was created with: by default the one in its report.
    fn plan(&self, stop: Stop) -> Result<Plan> {
        Ok(report::Job::read(&self.report(stop)?)?.1)
    }

    /// Returns the grid of the plan's rows; `None` for rows of floating-point numbers.
    fn grid(&self) -> Option<Grid> {
        None
    }

    /// Returns the job's position.
    fn position(&self, stop: Stop) -> Result<Position>;

    /// Binds the row to the commitment, durably, unless a reservation `is_bound` already; then writes its values to
    /// `sink`. Nothing is written before the whole row is here.
    fn fetch(&self, request: RowRequest, is_bound: bool, sink: Sink<'_>, stop: Stop) -> Result<()>;

    /// Binds the rows together, durably, and fetches them into `spare` where it fits, unless [`fetch`](Self::fetch) has
    /// their values at once. Runs on a thread of its own and calls no Python.
    fn reserve(&self, rows: &Reservation, spare: Option<RowBuffer>) -> Result<ReserveOutcome>;

    /// Sets how many rows to keep produced ahead of the next one.
    fn prefetch(&self, rows: usize);

    /// Returns a cursor of the job's position before `next_row`, below 256 bytes. Changes nothing.
    fn cursor(&self, next_row: u64, stop: Stop) -> Result<Vec<u8>>;

    /// Continues at a cursor: on its branch where nothing was bound beyond it, or where all rows beyond it are bound to
    /// `exact` commitments and `replay` promises the same ones again; else on a new branch.
    fn resume(&self, cursor: &[u8], replay: bool, stop: Stop) -> Result<Resumed>;

    /// Opens a branch on which rows from `row` on have fresh noise.
    fn rewind(&self, row: u64, stop: Stop) -> Result<Position>;

    /// Ends the job: no further row is bound. With `destroy_key` no row is delivered again either, and the key is deleted
    /// where it is the engine's own. A second time does nothing.
    ///
    /// # Errors
    /// A key that others need, and a caller who may not do this. Nothing was changed then.
    fn finish(&self, destroy_key: bool, stop: Stop) -> Result<Ending>;

    /// Returns the job's report as one JSON object: its plan, and the rows released on each branch.
    fn report(&self, stop: Stop) -> Result<String>;
}

/// Returns the grid of the plan in a job's report.
pub fn grid_of(report: &str) -> Result<Option<Grid>> {
    let plan = report::Job::read(report)?.1;
    Ok(plan.on_grid().map(GridPlan::grid))
}
