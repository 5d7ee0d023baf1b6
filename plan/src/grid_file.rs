//! `[grid]` as it stands in plan.toml.

use serde::{Deserialize, Serialize};

use crate::grid::missing_summing_error;
use crate::{Grid, PlanError, Rounding};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GridFile {
    step: i32,
    rounding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    summing_error: Option<f64>,
}

impl GridFile {
    pub(crate) fn into_grid(self) -> Result<Grid, PlanError> {
        let allowed = Rounding::NAMES.join(", ");
        let rounding = Rounding::from_name(&self.rounding)
            .ok_or_else(|| PlanError::field("grid.rounding", format!("{:?}", self.rounding), allowed))?;
        let exact = rounding == Rounding::Contributions;
        let summing_error = self.summing_error.or(exact.then_some(0.0)).ok_or_else(missing_summing_error)?;
        Ok(Grid { step: self.step, rounding, summing_error })
    }

    pub(crate) fn from_grid(grid: Grid) -> Self {
        Self {
            step: grid.step,
            rounding: grid.rounding.name().to_owned(),
            summing_error: Some(grid.summing_error),
        }
    }
}
