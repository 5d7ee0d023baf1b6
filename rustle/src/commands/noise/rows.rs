//! Where rows come from, and how they are written.

use std::time::{Duration, Instant};

use anyhow::Context;
use noise_kernel::grid::GridGenerator;
use noise_kernel::{Generator, Stream};
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::npy::{NpyWriter, Number};
use crate::progress::Progress;

/// Bytes of rows in memory, unless one row alone is longer.
const BUFFER: usize = 256 << 20;

/// Coordinates that one task draws of an i.i.d. row: whole noise blocks of 512.
const TASK: usize = 1 << 16;

/// Rows made at once on a grid.
const GRID_ROWS: usize = 8;

/// A source of rows, in order.
pub trait RowSource<T: Number>: Send {
    /// Returns the number of rows that are cheapest to make at once.
    fn rows_at_once(&self) -> usize;

    /// Makes the next rows, each `width` coordinates long.
    fn fill(&mut self, rows: &mut [T], width: usize) -> anyhow::Result<()>;
}

impl RowSource<f32> for Generator {
    fn rows_at_once(&self) -> usize {
        self.suggested_rows_at_once()
    }

    fn fill(&mut self, rows: &mut [f32], width: usize) -> anyhow::Result<()> {
        let mut rows: Vec<&mut [f32]> = rows.chunks_mut(width).collect();
        Ok(self.generate(&mut rows)?)
    }
}

impl RowSource<i32> for GridGenerator {
    fn rows_at_once(&self) -> usize {
        GRID_ROWS
    }

    fn fill(&mut self, rows: &mut [i32], width: usize) -> anyhow::Result<()> {
        let mut rows: Vec<&mut [i32]> = rows.chunks_mut(width).collect();
        Ok(self.generate(&mut rows)?)
    }
}

/// Rows of Z themselves.
pub struct IidRows {
    pub stream: Stream,
    /// The number of the next stream.
    pub next: u64,
    /// The first coordinate.
    pub offset: u64,
}

impl RowSource<f32> for IidRows {
    fn rows_at_once(&self) -> usize {
        1
    }

    fn fill(&mut self, rows: &mut [f32], width: usize) -> anyhow::Result<()> {
        for row in rows.chunks_mut(width) {
            row.par_chunks_mut(TASK).enumerate().try_for_each(|(task, part)| {
                let start = self.offset + (task * TASK) as u64;
                self.stream.iid(self.next, start..start + part.len() as u64, part)
            })?;
            self.next += 1;
        }
        Ok(())
    }
}

/// Makes `rows` rows of `width` coordinates and writes them. Returns the time that making them alone took.
pub fn write<T: Number>(
    source: &mut dyn RowSource<T>,
    rows: u64,
    width: usize,
    pool: &ThreadPool,
    writer: &mut NpyWriter<T>,
) -> anyhow::Result<Duration> {
    let at_once = (BUFFER / 4 / width).clamp(1, source.rows_at_once());
    let at_once = usize::try_from(rows).unwrap_or(usize::MAX).min(at_once);
    let mut buffer = Vec::new();
    let length = at_once.checked_mul(width).context("a row is longer than this machine can address")?;
    buffer.try_reserve_exact(length).with_context(|| format!("memory for {length} numbers"))?;
    buffer.resize(length, T::default());
    let bar = Progress::bar(rows, "rows");
    let mut making = Duration::ZERO;
    let mut left = rows;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(at_once);
        let part = &mut buffer[..count * width];
        let start = Instant::now();
        pool.install(|| source.fill(part, width))?;
        making += start.elapsed();
        writer.write(part)?;
        left -= count as u64;
        bar.inc(count as u64);
    }
    Ok(making)
}
