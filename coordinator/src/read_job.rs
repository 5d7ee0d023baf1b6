//! A job as the ledger has it, read when a coordinator opens.

use ledger::{JobRecord, JobState, Ledger};
use plan::Plan;
use proto::CheckpointRecord;

use crate::cluster::JobView;
use crate::plan_summary::PlanSummary;

/// Reads all that the coordinator keeps of a job in memory.
pub fn read_job(ledger: &Ledger, record: JobRecord) -> anyhow::Result<JobView> {
    let bound = ledger.binding_summary(&record.job, record.branch)?;
    let rows_ever_bound = ledger.rows_bound(&record.job)?;
    // Those of a copy that was not adopted are in doubt as long as it is open, and all alike.
    let adopted = if ledger.copied().is_some() { None } else { ledger.doubt(&record.job)? };
    if record.state == JobState::Destroyed {
        return Ok(JobView { bound, rows_ever_bound, adopted, ..JobView::new(record, Vec::new(), None) });
    }
    let plan = Plan::from_toml_str(&record.plan_toml)
        .map_err(|error| anyhow::anyhow!("the ledger's plan of job {} can't be read: {error}", record.job))?;
    let summary = PlanSummary::new(&plan, record.dimension)?;
    let shards = ledger.shards(&record.job)?;
    let checkpoints = newest_first(ledger.checkpoints(&record.job)?);
    let view = JobView::new(record, shards, summary);
    Ok(JobView { bound, rows_ever_bound, adopted, checkpoints, ..view })
}

fn newest_first(mut checkpoints: Vec<CheckpointRecord>) -> Vec<CheckpointRecord> {
    checkpoints.sort_unstable_by_key(|checkpoint| std::cmp::Reverse(checkpoint.id));
    checkpoints
}
