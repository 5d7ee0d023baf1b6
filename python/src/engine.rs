//! What makes or fetches rows, bound to commitments: in this process or a cluster.

use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId, RowRange};

use crate::error::Result;
use crate::held::Held;
use crate::sink::Sink;
use crate::wait::Stop;

/// Who a job is.
#[derive(Clone, Debug)]
pub struct Job {
    pub name: JobId,
    /// Coordinates of the flattened parameter vector.
    pub dimension: u64,
    /// Rows n of the plan.
    pub iterations: u64,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub branch: u64,
    /// One more than the highest row bound on the branch.
    pub next_row: u64,
}

/// How a job goes on at a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Resumed {
    pub place: Place,
    pub opened_branch: bool,
}

/// A row, to the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub branch: u64,
    pub row: u64,
    pub range: CoordinateRange,
    pub commitment: Commitment,
}

/// What came of rows that were asked for early.
pub enum Announced {
    /// Nothing: they are asked for in the ordinary way.
    Nothing,
    /// They are bound, durably; the engine has their values at once.
    Bound,
    /// They are bound, and here.
    Here(Held),
}

/// Rows that are asked for before their steps come.
#[derive(Clone, Debug)]
pub struct Ahead {
    pub branch: u64,
    pub rows: RowRange,
    pub range: CoordinateRange,
    /// One a row.
    pub commitments: Vec<Commitment>,
}

pub trait Engine: Send + Sync {
    fn job(&self) -> &Job;

    /// As the job was created with it: by default as its report has it.
    fn plan(&self, stop: Stop) -> Result<Plan> {
        Ok(report::Job::read(&self.report(stop)?)?.1)
    }

    fn place(&self, stop: Stop) -> Result<Place>;

    /// Binds the row to the commitment, durably, unless this engine said that it `is_bound`; then gives its values of
    /// the range. Nothing is written before all of the row is here.
    fn give(&self, asked: Asked, is_bound: bool, sink: Sink<'_>, stop: Stop) -> Result<()>;

    /// Does what takes time in [`give`](Self::give) before the values are wanted: binds the rows together, durably, and
    /// fetches them, in `spare` where it fits, unless `give` has them at once. On a thread of which Python knows nothing.
    fn announce(&self, ahead: &Ahead, spare: Option<Held>) -> Result<Announced>;

    /// How many rows to keep made ahead of the next one.
    fn prefetch(&self, rows: usize);

    /// The job's place before `next_row`, below 256 bytes. Changes nothing.
    fn cursor(&self, next_row: u64, stop: Stop) -> Result<Vec<u8>>;

    /// Goes on at a cursor: on its branch where nothing was bound behind it, or where all that was is `exact` and
    /// `replay` says that it will come again; else on a new branch.
    fn resume(&self, cursor: &[u8], replay: bool, stop: Stop) -> Result<Resumed>;

    /// Rows from `row` on get fresh noise, on a new branch.
    fn rewind(&self, row: u64, stop: Stop) -> Result<Place>;

    /// The job's report as one JSON object: its plan and what was released, branch by branch.
    fn report(&self, stop: Stop) -> Result<String>;
}
