//! What makes or fetches rows, bound to commitments: in this process or a cluster.

use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId};

use crate::error::Result;
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

/// Where a row goes: f32 values of the range that was asked for.
pub enum Sink<'a> {
    /// Overwritten with the row.
    Copy(&'a mut [f32]),
    /// The row divided by a number is added.
    Add(&'a mut [f32], f32),
    /// Nobody wants the values yet.
    Nowhere,
}

impl Sink<'_> {
    /// `row` is as long as the buffer.
    pub fn put(self, row: &[f32]) {
        match self {
            Self::Nowhere => {}
            Self::Copy(out) => out.copy_from_slice(row),
            Self::Add(out, 1.0) => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise),
            Self::Add(out, by) => out.iter_mut().zip(row).for_each(|(out, noise)| *out += noise / by),
        }
    }
}

pub trait Engine: Send + Sync {
    fn job(&self) -> &Job;

    /// As the job was created with it: by default as its report has it.
    fn plan(&self, stop: Stop) -> Result<Plan> {
        Ok(report::Job::read(&self.report(stop)?)?.1)
    }

    fn place(&self, stop: Stop) -> Result<Place>;

    /// Binds the row to the commitment, durably, then gives its values of the range. Nothing is written before all of
    /// the row is here.
    fn give(
        &self,
        branch: u64,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        sink: Sink<'_>,
        stop: Stop,
    ) -> Result<()>;

    /// Does what takes time in [`give`](Self::give) before the values are wanted: binds the row, and puts it in `values`
    /// unless `give` has it at once. On a thread of which Python knows nothing.
    fn announce(
        &self,
        branch: u64,
        row: u64,
        range: CoordinateRange,
        commitment: Commitment,
        values: &mut Vec<f32>,
    ) -> Result<()> {
        values.resize(range.len() as usize, 0.0);
        self.give(branch, row, range, commitment, Sink::Copy(values), || Ok(()))
    }

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
