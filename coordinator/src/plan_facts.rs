//! What a coordinator needs to know of a job's plan, read once: reading a plan computes all of its coefficients.

use plan::{Layout, Plan};
use proto::{RELEASED_ROWS_KEPT, Result, ServiceError};

/// Beside the state of a shard a worker keeps the row made ahead, those that were released, and memory for the next.
const ROWS_KEPT: u64 = 1 + RELEASED_ROWS_KEPT + 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanFacts {
    /// Values of state for each coordinate.
    pub slots: u64,
    /// Of the plan's layout; of the dimension alone where it has none.
    pub layout_digest: [u8; 32],
}

impl PlanFacts {
    pub fn of(plan: &Plan, dimension: u64) -> Result<Self> {
        let layout_digest = match plan.layout() {
            Some(layout) => layout.digest(),
            None => Layout::dimension_only(dimension).map_err(ServiceError::internal)?.digest(),
        };
        Ok(Self { slots: plan.state_slots() as u64, layout_digest })
    }

    /// Beside the asynchronous threads.
    pub async fn read(plan_toml: String, dimension: u64) -> Result<Self> {
        let read = move || {
            let plan = Plan::from_toml_str(&plan_toml).map_err(ServiceError::internal)?;
            Self::of(&plan, dimension)
        };
        node::blocking::run(read).await.map_err(ServiceError::internal)?
    }

    /// Bytes that a row costs: the state and the row itself are gone through.
    pub fn bytes_per_coordinate(&self) -> u64 {
        self.slots.saturating_add(1).saturating_mul(4)
    }

    /// Bytes that a worker must have for each coordinate of a shard.
    pub fn memory_per_coordinate(&self) -> u64 {
        self.slots.saturating_add(ROWS_KEPT).saturating_mul(4)
    }
}
