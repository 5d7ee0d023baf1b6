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
pub use inputs::Setting;

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
