//! Rows of exact noise on a grid beside rows in binary32, measured in turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::Table;
use noise_kernel::grid::{
    GridBandRows, GridBanded, GridDeviations, GridFamily, GridGenerator, GridMechanism,
};
use noise_kernel::{Backend, BranchKey, Buffer, Rounds, Stream};
use plan::Mechanism;
use reproduce::measure::{Spread, ratios};
use serde::Serialize;

use crate::cases::Case;
use crate::comparison::spread;
use crate::job::Job;
use crate::output::{round, table};

/// The cases that are measured on the grid too, up to this many coordinates.
const CASES: [&str; 4] = ["identity", "blt-4", "band-toeplitz-8", "band-toeplitz-32"];
const LARGEST: u64 = 10_000_000;

/// Steps in a deviation: the most that a planner takes.
const DEVIATION: f64 = 134_217_728.0;

/// One case in both ways.
#[derive(Debug, Serialize)]
pub struct RatePair {
    case: String,
    shard: u64,
    rows_at_once: usize,
    float_coordinates_per_second: Spread,
    grid_coordinates_per_second: Spread,
    grid_of_float: Spread,
}

/// The same for every measurement of one run.
pub struct Method {
    pub repeats: usize,
    /// Shortest measurement, and when to stop repeating.
    pub shortest: Duration,
    pub longest: Duration,
    pub backend: Backend,
}

/// Whether a case is measured on the grid too.
pub fn is_measured(case: &Case, size: u64) -> bool {
    CASES.contains(&&case.name[..]) && size <= LARGEST
}

/// Measures a case both ways, in turn.
pub fn measure(case: &Case, size: u64, rows: usize, how: &Method) -> anyhow::Result<RatePair> {
    eprintln!("{} of {size} coordinates on the grid, rows at once: {rows}", case.name);
    let mut float = Job::new(case, 0..size, rows, how.backend)?;
    let mut grid = GridJob::new(case, size, rows, how.backend)?;
    let mut of_float = Vec::new();
    let mut of_grid = Vec::new();
    let started = Instant::now();
    while of_grid.len() < how.repeats && (of_grid.is_empty() || started.elapsed() < how.longest) {
        of_float.push(float.rate(how.shortest)?);
        of_grid.push(grid.rate(how.shortest)?);
    }
    Ok(RatePair {
        case: case.name.clone(),
        shard: size,
        rows_at_once: rows,
        float_coordinates_per_second: spread(&of_float)?,
        grid_coordinates_per_second: spread(&of_grid)?,
        grid_of_float: spread(&ratios(&of_grid, &of_float))?,
    })
}

/// The table of all of them; `None` where there are none.
pub fn table_of(all: &[RatePair]) -> Option<(String, Table)> {
    let row = |beside: &RatePair| {
        vec![
            beside.case.clone(),
            round(beside.shard),
            beside.rows_at_once.to_string(),
            beside.float_coordinates_per_second.shown(1e6),
            beside.grid_coordinates_per_second.shown(1e6),
            beside.grid_of_float.shown(1.0),
        ]
    };
    let header = ["mechanism", "shard", "rows", "binary32, M/s", "grid, M/s", "grid of binary32"];
    let rows = all.iter().map(row);
    (!all.is_empty()).then(|| ("Rows on a grid beside rows in binary32".into(), table(&header, rows)))
}

/// Makes rows of a case on the grid, some at once.
struct GridJob {
    generator: GridGenerator,
    buffers: Vec<Buffer<i32>>,
}

impl GridJob {
    fn new(case: &Case, size: u64, rows: usize, backend: Backend) -> anyhow::Result<Self> {
        let deviation = GridDeviations::Every(DEVIATION);
        let mechanism = GridMechanism::new(family(&case.mechanism)?, deviation, case.iterations)?;
        let stream = Stream::new(&BranchKey::from_array([7; 32]), Rounds::Twenty).with_backend(backend)?;
        let mut generator = GridGenerator::new(stream, Arc::new(mechanism), 0..size)?;
        // Rows that look back at all they can.
        generator.skip(case.bands() as u64)?;
        let buffers = (0..rows).map(|_| Buffer::zeroed("a row", size as usize)).collect::<Result<_, _>>()?;
        let mut job = Self { generator, buffers };
        job.batch()?;
        Ok(job)
    }

    fn batch(&mut self) -> anyhow::Result<u64> {
        let mut out: Vec<&mut [i32]> = self.buffers.iter_mut().map(|row| &mut row[..]).collect();
        self.generator.generate(&mut out)?;
        let range = self.generator.range();
        Ok(self.buffers.len() as u64 * (range.end - range.start))
    }

    fn rate(&mut self, time: Duration) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut coordinates = 0;
        while coordinates == 0 || started.elapsed() < time {
            coordinates += self.batch()?;
        }
        Ok(coordinates as f64 / started.elapsed().as_secs_f64())
    }
}

/// The mechanism with a unit diagonal, on the grid.
fn family(mechanism: &Mechanism) -> anyhow::Result<GridFamily> {
    match mechanism {
        Mechanism::Identity => Ok(GridFamily::Identity),
        Mechanism::Blt { theta, omega } => Ok(GridFamily::Blt { theta: theta.clone(), omega: omega.clone() }),
        Mechanism::BandToeplitz { coefficients, .. } => {
            let diagonal = *coefficients.first().context("a band has a diagonal")?;
            // Multiples of 2⁻¹⁶: sums are exact up to Σ|C| = 64.
            let lags = coefficients[1..].iter().map(|c| (c / diagonal * 65_536.0).round() / 65_536.0);
            let rows = GridBandRows::Toeplitz(lags.collect());
            Ok(GridFamily::Banded(GridBanded { bands: coefficients.len(), rows }))
        }
        _ => anyhow::bail!("this mechanism is not measured on the grid"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_measured_in_both_ways() {
        let how = Method {
            repeats: 1,
            shortest: Duration::from_millis(1),
            longest: Duration::from_millis(1),
            backend: Backend::Auto,
        };
        for name in CASES {
            let beside = measure(&name.parse().unwrap(), 1_000, 3, &how).unwrap();
            assert!(beside.grid_of_float.median > 0.0);
        }
        assert!(!is_measured(&"tree".parse().unwrap(), 1_000));
    }
}
