//! The summary of a job's plan that the coordinator keeps: reading a plan computes all of its coefficients.

use plan::Plan;
use proto::{ElementType, RELEASED_ROWS_KEPT, Result, ServiceError};

/// Rows that a worker keeps beside a shard's state: one made ahead, those released, and memory for the next.
const ROWS_KEPT: u64 = 1 + RELEASED_ROWS_KEPT + 1;

/// The parts of a plan that placement, routing and cursors need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanSummary {
    /// Values of state per coordinate, of four bytes each.
    pub slots: u64,
    /// What rows are served as: f32, or i32 where the plan is on a grid.
    pub element: ElementType,
    /// The digest of the plan's layout, or of the dimension alone if it has none.
    pub layout_digest: [u8; 32],
}

impl PlanSummary {
    /// Summarises a plan.
    pub fn new(plan: &Plan, dimension: u64) -> Result<Self> {
        let layout_digest = release::job::layout_digest(plan, dimension)?;
        let element = if plan.on_grid().is_some() { ElementType::I32 } else { ElementType::F32 };
        Ok(Self { slots: plan.state_slots() as u64, element, layout_digest })
    }

    /// Reads a plan on a blocking thread and summarises it.
    pub async fn read(plan_toml: String, dimension: u64) -> Result<Self> {
        let read = move || {
            let plan = Plan::from_toml_str(&plan_toml).map_err(ServiceError::internal)?;
            Self::new(&plan, dimension)
        };
        node::process::blocking::run(read).await.map_err(ServiceError::internal)?
    }

    /// Returns the bytes per coordinate that a row costs: its state and the row itself are gone through.
    pub fn bytes_per_coordinate(&self) -> u64 {
        self.slots.saturating_add(1).saturating_mul(4)
    }

    /// Returns the bytes of memory per coordinate that a shard takes on its worker.
    pub fn memory_per_coordinate(&self) -> u64 {
        self.slots.saturating_add(ROWS_KEPT).saturating_mul(4)
    }
}
