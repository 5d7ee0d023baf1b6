//! The definition of a job: what its record says, and how its vector is first cut into shards.

use ledger::{JobRecord, JobState, ShardRecord};
use plan::{Layout, Plan};
use proto::{CoordinateRange, JobId, Lineage, Nonce, Result, ServiceError, tiling};

/// A job as the ledger records it before any row is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDefinition {
    /// The job on branch 0, running.
    pub record: JobRecord,
    /// The first shards, without owners.
    pub shards: Vec<ShardRecord>,
}

/// Defines a job whose vector is cut into `shards` shards of nearly equal size.
///
/// `plan_toml` is the text that was submitted, kept as it is; `plan` is what it says. `key_commitment` identifies the
/// job's key without revealing it; `nonce` is drawn anew, and the job has it if the ledger knows no job of this name.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] for a number of shards that the dimension does not allow.
pub fn define(
    job: JobId,
    plan: &Plan,
    plan_toml: String,
    dimension: u64,
    key_commitment: [u8; 32],
    shards: u32,
    nonce: Nonce,
) -> Result<JobDefinition> {
    let ranges = tiling::split(dimension, u64::from(shards), tiling::MAX_SHARDS)?;
    define_with_ranges(job, plan, plan_toml, &ranges, key_commitment, nonce)
}

/// Defines a job whose shards are exactly `ranges`, in order.
///
/// The dimension is the end of the last range. The ledger refuses ranges that do not cover the vector without gaps.
///
/// # Errors
/// [`ServiceError::Internal`] for a dimension outside 1 to [`Layout::MAX_DIMENSION`].
pub fn define_with_ranges(
    job: JobId,
    plan: &Plan,
    plan_toml: String,
    ranges: &[CoordinateRange],
    key_commitment: [u8; 32],
    nonce: Nonce,
) -> Result<JobDefinition> {
    let dimension = ranges.last().map_or(0, |range| range.end);
    let record = JobRecord {
        job,
        nonce,
        plan_toml,
        plan_digest: plan.digest(),
        dimension,
        layout_digest: layout_digest(plan, dimension)?,
        iterations: plan.iterations(),
        mechanism: plan.mechanism().name().to_owned(),
        key_commitment,
        branch: 0,
        lineage: Lineage::of_job(nonce),
        shards: ranges.len() as u32,
        layout_epoch: 0,
        state: JobState::Running,
    };
    let unowned =
        |(range, shard): (&CoordinateRange, u32)| ShardRecord { shard, range: *range, epoch: 0, owner: None };
    Ok(JobDefinition { record, shards: ranges.iter().zip(0..).map(unowned).collect() })
}

/// Returns the dimension of a job: the one given, or the one of the plan's layout, which must agree.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] where the two differ, where there is neither, and where the one given is outside
/// 1 to [`Layout::MAX_DIMENSION`].
pub fn dimension(given: Option<u64>, plan: &Plan) -> Result<u64> {
    let in_layout = plan.layout().map(Layout::dimension);
    let allowed = format!("1 to {}", Layout::MAX_DIMENSION);
    let refused = |value: String, allowed: String| Err(ServiceError::invalid("dimension", value, allowed));
    match (given, in_layout) {
        (Some(given), Some(in_layout)) if given != in_layout => {
            refused(given.to_string(), format!("{in_layout}, as in the plan's layout, or none"))
        }
        (Some(given), None) if !(1..=Layout::MAX_DIMENSION).contains(&given) => {
            refused(given.to_string(), allowed)
        }
        (Some(dimension), _) | (None, Some(dimension)) => Ok(dimension),
        (None, None) => refused("missing".to_owned(), format!("{allowed}; the plan has no layout")),
    }
}

/// Returns the digest that cursors carry for the order of parameters: the plan's layout, or the dimension alone where
/// the plan has none.
///
/// # Errors
/// [`ServiceError::Internal`] for a dimension outside 1 to [`Layout::MAX_DIMENSION`].
pub fn layout_digest(plan: &Plan, dimension: u64) -> Result<[u8; 32]> {
    match plan.layout() {
        Some(layout) => Ok(layout.digest()),
        None => Ok(Layout::dimension_only(dimension).map_err(ServiceError::internal)?.digest()),
    }
}
