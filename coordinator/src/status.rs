//! The body of `/status`: jobs and workers, without secrets.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{Cluster, JobView, ShardView};
use crate::coordinator::Coordinator;
use crate::placement::NORMAL_SPEED;

impl Coordinator {
    /// Returns jobs and workers as JSON.
    pub fn status(&self) -> Value {
        let now = Instant::now();
        let cluster = self.cluster();
        json!({
            "coordinator_epoch": self.epoch(),
            "protocol_version": proto::PROTOCOL_VERSION,
            "stream_version": plan::STREAM_VERSION,
            "checkpoints_on": self.checkpoint_store().is_some(),
            "workers": workers(&cluster, now),
            "jobs": cluster.jobs().map(|view| self.job_status(&cluster, view, now)).collect::<Vec<_>>(),
        })
    }

    /// Returns what `/readyz` adds while shards are not served. The coordinator is ready all the same: workers must find it
    /// to take them.
    pub fn readiness_remarks(&self) -> String {
        let now = Instant::now();
        let cluster = self.cluster();
        let jobs = cluster.jobs().filter(|view| view.is_served());
        let reasons: Vec<_> = jobs
            .flat_map(|view| view.shards.iter().map(move |shard| (view, shard)))
            .map(|(view, shard)| cluster.reason_unserved(now, view, shard))
            .collect();
        let unserved: Vec<_> = reasons.iter().flatten().collect();
        let Some(first) = unserved.first() else { return String::new() };
        format!("{} of {} shards are not served: {first}\n", unserved.len(), reasons.len())
    }

    fn job_status(&self, cluster: &Cluster, view: &JobView, now: Instant) -> Value {
        let mut status = job(cluster, view, now);
        status["privacy"] = self.privacy_meter().privacy(&view.record.job, self.settings().report_delta);
        status
    }
}

fn workers(cluster: &Cluster, now: Instant) -> Vec<Value> {
    let mut owned: HashMap<&proto::WorkerId, u64> = HashMap::new();
    let owners = cluster.jobs().flat_map(|view| &view.shards).filter_map(|shard| shard.record.owner.as_ref());
    owners.for_each(|owner| *owned.entry(owner).or_default() += 1);
    let speed = |name: &proto::WorkerId| f64::from(cluster.stragglers.speed(name)) / f64::from(NORMAL_SPEED);
    let row = |(name, member): (&proto::WorkerId, &crate::cluster::Member)| {
        json!({
            "worker": name,
            "endpoint": member.endpoint,
            "last_heard_ms": now.duration_since(member.last_heartbeat).as_millis() as u64,
            "shards": owned.get(name).copied().unwrap_or(0),
            "draining": !member.takes_shards(),
            "avoided": cluster.stragglers.is_avoided(name, now),
            "bytes_per_second": member.rate,
            "speed": speed(name),
            "memory_bytes": member.place.memory_bytes,
            "labels": member.place.labels,
        })
    };
    cluster.members.all_live(now).map(row).collect()
}

fn job(cluster: &Cluster, view: &JobView, now: Instant) -> Value {
    let record = &view.record;
    json!({
        "job": record.job,
        "state": record.state,
        "mechanism": record.mechanism,
        "plan_digest": hex::encode(record.plan_digest),
        "dimension": record.dimension,
        "iterations": record.iterations,
        "branch": record.branch,
        "rows_bound": view.bound.rows_bound,
        "next_row": view.bound.next_row,
        "newest_checkpoint": view.checkpoints.first().map(|newest| json!({ "id": newest.id, "next_row": newest.next_row })),
        "shards": view.shards.iter().map(|it| shard(cluster, view, it, now)).collect::<Vec<_>>(),
    })
}

fn shard(cluster: &Cluster, job: &JobView, view: &ShardView, now: Instant) -> Value {
    let report = view.last_report.as_ref();
    let reason = cluster.reason_unserved(now, job, view);
    json!({
        "shard": view.record.shard,
        "start": view.record.range.start,
        "end": view.record.range.end,
        "epoch": view.record.epoch,
        "owner": view.record.owner,
        "ready": reason.is_none(),
        "reason": reason,
        "prepared_by": view.standby.as_ref().map(|standby| &standby.worker),
        "unplaced": view.is_unschedulable,
        "next_row": report.map(|report| report.next_row),
        "released": report.map(|report| report.released),
        "state_bytes": report.map(|report| report.state_bytes),
        "ahead_bytes": report.map(|report| report.ahead_bytes),
    })
}
