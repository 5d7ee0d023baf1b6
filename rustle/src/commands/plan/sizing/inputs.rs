//! The quantities from which the figures follow, each derived from those above it.

use std::sync::Arc;

use noise_kernel::grid::{GridGenerator, GridMechanism};
use noise_kernel::{BLOCK, BranchKey, Generator, Rounds, RowGenerator, Stream};
use plan::{Coefficients, Inverse, Plan};
use proto::{RELEASED_ROWS_KEPT, tiling};

use crate::output::bad_use;

/// Factor for allocators and the buffers of connections. End-to-end tests hold workers to it.
const OVERHEAD: f64 = 1.1;
/// Bytes of the program itself.
const PROGRAM: f64 = (64 << 20) as f64;
/// Bytes per row of a worker's log of releases in memory. A test of noise-worker holds it to that.
const RECORDED: f64 = 100.0;
/// Bytes of header and manifest entry of one stored shard.
const HEADER: f64 = 1024.0;

/// The job and the workers to size, as the command's flags state them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub dimension: u64,
    pub workers: u32,
    pub rows_per_second: f64,
    pub ahead_rows: u64,
    pub ahead_bytes: u64,
    pub history_bytes: u64,
    pub snapshot_bytes: u64,
    /// Bytes per second that the checkpoint store takes from one worker.
    pub store_bandwidth: f64,
    /// Coordinates per second that one worker generates; `None` where it was not measured.
    pub coordinates_per_second: Option<f64>,
}

/// A setting with what the plan and the kernel add to it. The shard is the largest one.
#[derive(Debug)]
pub struct Inputs {
    pub setting: Setting,
    /// Whether rows are integers, whose state is always copied.
    is_on_grid: bool,
    /// Rows of the plan.
    pub iterations: u64,
    /// Coordinates of the shard.
    pub shard: u64,
    /// Numbers of state per coordinate, of four bytes each.
    pub slots: f64,
    /// Rows back from which past normals enter a row.
    reach: u64,
    /// Rows that the kernel suggests to generate at once.
    suggested_rows: u64,
    /// Cores of this machine.
    cores: f64,
}

impl Inputs {
    /// Errors: a dimension or a number of workers that a job can't have.
    pub fn new(plan: &Plan, setting: Setting) -> anyhow::Result<Self> {
        let shards = tiling::split(setting.dimension, setting.workers.into(), tiling::MAX_SHARDS);
        let shards = shards.map_err(bad_use)?;
        Ok(Self {
            setting,
            is_on_grid: plan.on_grid().is_some(),
            iterations: plan.iterations(),
            shard: shards.iter().map(|shard| shard.len()).max().unwrap_or(setting.dimension),
            slots: plan.state_slots() as f64,
            reach: reach(plan)?,
            suggested_rows: suggested_rows(plan)?,
            cores: std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
        })
    }

    /// Bytes of one row of the shard.
    pub fn row(&self) -> f64 {
        4.0 * self.shard as f64
    }

    /// Bytes of the shard's state, which is kept in whole blocks.
    pub fn state(&self) -> f64 {
        4.0 * self.slots * in_blocks(self.shard)
    }

    /// Bytes of past normals, at most: the worker measures whether keeping them pays.
    pub fn history(&self) -> f64 {
        let bytes = 4.0 * self.reach as f64 * in_blocks(self.shard);
        if bytes <= self.setting.history_bytes as f64 { bytes } else { 0.0 }
    }

    /// Rows generated ahead of demand.
    pub fn ahead(&self) -> u64 {
        (self.setting.ahead_bytes / (4 * self.shard)).clamp(1, self.setting.ahead_rows.max(1))
    }

    /// Rows generated at once.
    pub fn at_once(&self) -> u64 {
        self.suggested_rows.min(self.ahead() / 2).max(1)
    }

    /// Bytes of all rows in memory: ahead, kept for retries, and spare.
    pub fn rows(&self) -> f64 {
        (self.ahead() + RELEASED_ROWS_KEPT + self.at_once()) as f64 * self.row()
    }

    /// Bytes that a checkpoint holds while it is written: a copy of the state, unless it is too large to be copied, and the
    /// rows of its moment, beside those that are generated meanwhile.
    pub fn snapshot(&self) -> f64 {
        let is_copied = self.is_on_grid || self.state() <= self.setting.snapshot_bytes as f64;
        let copy = if is_copied { self.state() } else { 0.0 };
        copy + self.stored_rows() * self.row()
    }

    /// Bytes of memory of one worker.
    pub fn memory(&self) -> f64 {
        let shard = self.state() + self.history() + self.rows() + self.snapshot();
        OVERHEAD * shard + PROGRAM + RECORDED * self.iterations as f64
    }

    /// Bytes moved per row. The state moves once for all rows generated at once.
    pub fn traffic(&self) -> f64 {
        2.0 * self.state() / self.at_once() as f64 + 2.0 * self.row()
    }

    /// Bytes of one checkpoint of all shards.
    pub fn checkpoint(&self) -> f64 {
        let Setting { dimension, workers, .. } = self.setting;
        let state = 4.0 * self.slots * in_blocks(dimension);
        state + self.stored_rows() * 4.0 * dimension as f64 + HEADER * f64::from(workers)
    }

    /// Seconds in which the store takes, or returns, the shard's part of a checkpoint.
    pub fn store_seconds(&self) -> f64 {
        let piece = self.state() + self.stored_rows() * self.row() + HEADER;
        piece / self.setting.store_bandwidth
    }

    /// Rows per second that one worker can generate, where measured.
    pub fn possible_rows(&self) -> Option<f64> {
        self.setting.coordinates_per_second.map(|coordinates| coordinates / self.shard as f64)
    }

    /// Cores that one worker needs.
    pub fn worker_cores(&self) -> Option<f64> {
        self.possible_rows().map(|rows| self.setting.rows_per_second / rows * self.cores)
    }

    /// Seconds to generate every row of the plan again.
    pub fn replay_seconds(&self) -> Option<f64> {
        self.possible_rows().map(|rows| self.iterations as f64 / rows)
    }

    /// Rows of a checkpoint.
    fn stored_rows(&self) -> f64 {
        (self.ahead() + RELEASED_ROWS_KEPT) as f64
    }
}

fn in_blocks(coordinates: u64) -> f64 {
    coordinates.next_multiple_of(BLOCK as u64) as f64
}

/// Of a plan on a grid, past normals are never kept.
fn reach(plan: &Plan) -> anyhow::Result<u64> {
    if plan.on_grid().is_some() {
        return Ok(0);
    }
    let last = plan.iterations() - 1;
    Ok(match plan.coefficients()? {
        Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => last.min(coefficients.len() as u64 - 1),
        Coefficients::Inverse(Inverse::Dense { .. }) => last,
        _ => 0,
    })
}

/// The rule is the generator's own, so a generator of one block is made to apply it.
fn suggested_rows(plan: &Plan) -> anyhow::Result<u64> {
    let stream = Stream::new(&BranchKey::from_array([0; 32]), Rounds::Twenty);
    if let Some(on_grid) = plan.on_grid() {
        let mechanism = GridMechanism::of_plan(on_grid.coefficients(), plan.iterations())?;
        let generator = GridGenerator::new(stream, Arc::new(mechanism), 0..BLOCK as u64)?;
        return Ok(RowGenerator::Integers(generator).suggested_rows_at_once() as u64);
    }
    let coefficients = Arc::new(plan.coefficients()?);
    let generator = Generator::new(stream, coefficients, plan.iterations(), 1.0, 0..BLOCK as u64)?;
    Ok(generator.suggested_rows_at_once() as u64)
}
