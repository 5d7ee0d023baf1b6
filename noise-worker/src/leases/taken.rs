//! The log of leases that were taken, and of those that could not be.

use std::{collections::BTreeMap, sync::LazyLock};

use node::telemetry::rate_limited_log::RateLimitedLog;
use proto::{
    JobId,
    model::{LeaseGrant, UnreadableGrant},
};

/// The jobs whose grants could not be read: heartbeats come several times a second.
static UNREADABLE: LazyLock<RateLimitedLog> = LazyLock::new(RateLimitedLog::default);

/// Writes one line for each job: a rewind changes the lease of each of its shards.
pub fn log_taken(leases: &[LeaseGrant]) {
    let mut by_job: BTreeMap<&JobId, Vec<&LeaseGrant>> = BTreeMap::new();
    leases.iter().for_each(|grant| by_job.entry(&grant.job).or_default().push(grant));
    for (job, grants) in by_job {
        let [first, ..] = grants[..] else { continue };
        let shard = first.shard;
        let branch = first.branch();
        tracing::info!(%job, branch, shard, and_more = grants.len() - 1, "leases taken");
    }
}

/// Names a job whose grants can't be read, once a minute.
pub fn log_unreadable(unreadable: &[UnreadableGrant]) {
    for (job, shard, error) in unreadable {
        if UNREADABLE.is_due(job) {
            tracing::error!(job, shard, %error, "a grant can't be read: shards of this job are not served");
        }
    }
}
