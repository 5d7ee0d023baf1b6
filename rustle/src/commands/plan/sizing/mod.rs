//! The figures of `rustle plan resources`; docs/operations.md explains them.

mod figures;
mod inputs;
mod kubernetes;
#[cfg(test)]
mod tests;

use plan::Plan;

use figures::FIGURES;
pub use figures::Line;
use inputs::Inputs;

/// The job and the workers to size, as the command's flags state them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub dimension: u64,
    pub workers: u32,
    pub rows_per_second: f64,
    pub ahead_rows: u64,
    pub ahead_bytes: u64,
    pub history_bytes: u64,
    /// Bytes per second that the checkpoint store takes from one worker.
    pub store_bandwidth: f64,
    /// Coordinates per second that one worker generates; `None` where it was not measured.
    pub coordinates_per_second: Option<f64>,
}

/// All figures, in the order in which each follows from those before.
#[derive(Clone, Debug)]
pub struct Sizing {
    pub lines: Vec<Line>,
}

impl Sizing {
    /// Computes every figure. Errors: a dimension or a number of workers that a job can't have.
    pub fn new(plan: &Plan, setting: Setting) -> anyhow::Result<Self> {
        let inputs = Inputs::new(plan, setting)?;
        Ok(Self { lines: FIGURES.iter().map(|figure| figure.line(&inputs)).collect() })
    }

    /// Returns the figure with this name; `None` where it could not be measured.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.lines.iter().find(|line| line.name == name)?.value
    }
}
