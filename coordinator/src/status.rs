//! The body of `/status` and of `rustle status`: health, jobs and workers, without secrets.

use std::collections::HashMap;
use std::time::SystemTime;

use ledger::JobRecord;
use node::process::timestamp::rfc3339;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{Absence, Cluster, JobView, ShardView, UnservedReason};
use crate::coordinator::Coordinator;
use crate::health;
use crate::placement::NORMAL_SPEED;

impl Coordinator {
    /// Returns health, jobs, workers and the budgets of data sets as JSON.
    pub fn status(&self) -> Value {
        let mut status = self.status_for(|_| true);
        status["data_sets"] = self.budget_meter().to_json();
        status
    }

    /// Returns health, jobs and workers as JSON, with those jobs alone that the caller may see.
    pub fn status_for(&self, can_see: impl Fn(&str) -> bool) -> Value {
        let mut problems = self.problems();
        problems.retain(|problem| problem.job.as_ref().is_none_or(|job| can_see(job.as_str())));
        let mut status = health::fields(&problems);
        let now = Instant::now();
        let cluster = self.cluster();
        let behind = cluster.jobs_behind();
        let jobs = cluster.jobs().filter(|view| can_see(view.record.job.as_str()));
        let jobs = jobs.map(|view| self.job_status(&cluster, view, behind.contains(&view.record.job), now));
        let rest = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "coordinator_epoch": self.epoch(),
            "protocol_version": proto::PROTOCOL_VERSION,
            "stream_version": plan::STREAM_VERSION,
            "checkpoints_on": self.checkpoint_store().is_some(),
            "time": rfc3339(SystemTime::now()),
            "workers": workers(&cluster, now),
            "absent_workers": absent_workers(&cluster, now),
            "jobs": jobs.collect::<Vec<_>>(),
        });
        if let (Value::Object(status), Value::Object(rest)) = (&mut status, rest) {
            status.extend(rest);
        }
        status
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

    fn job_status(&self, cluster: &Cluster, view: &JobView, is_behind: bool, now: Instant) -> Value {
        let mut status = job(cluster, view, now);
        let name = &view.record.job;
        let delta = self.settings().report_delta;
        status["delta"] = json!(delta);
        status["rows_per_second"] = json!(self.privacy_meter().rows_per_second(name));
        if is_behind {
            // What this ledger knows is less than what was released, and so would be its ε.
            status["privacy"] =
                json!({ "unstated": "the ledger is a copy or an older one: it may lack released rows" });
            status["epsilon"] = Value::Null;
            status["epsilon_planned"] = Value::Null;
            return status;
        }
        let (spent, planned) = self.privacy_meter().epsilon(name, view.record.branch, view.bound.next_row);
        status["epsilon"] = json!(spent);
        status["epsilon_planned"] = json!(planned);
        let mut privacy = self.privacy_meter().privacy(name, delta);
        if let Some(figures) =
            privacy.as_object_mut().filter(|figures| spent.is_none() && figures.contains_key("delta"))
        {
            for figure in ["epsilon_spent", "rho_spent"] {
                figures.insert(figure.to_owned(), Value::Null);
            }
        }
        status["privacy"] = privacy;
        status
    }
}

/// Returns the workers that are not here, with the reason and since when.
fn absent_workers(cluster: &Cluster, now: Instant) -> Vec<Value> {
    let row = |(worker, absence): (&proto::WorkerId, &Absence)| {
        json!({
            "worker": worker,
            "cause": absence.cause.kind(),
            "reason": format!("{worker} {}", absence.cause),
            "since": health::wall_time(now, absence.since),
        })
    };
    cluster.members.absences().all().map(row).collect()
}

fn workers(cluster: &Cluster, now: Instant) -> Vec<Value> {
    let mut owned: HashMap<&proto::WorkerId, u64> = HashMap::new();
    let owners = cluster.jobs().flat_map(|view| &view.shards).filter_map(|shard| shard.record.owner.as_ref());
    owners.for_each(|owner| *owned.entry(owner).or_default() += 1);
    let row = |(name, member): (&proto::WorkerId, &crate::cluster::Member)| {
        let pace = cluster.stragglers.pace(name, now);
        json!({
            "worker": name,
            "endpoint": member.endpoint,
            "last_heard_ms": now.duration_since(member.last_heartbeat).as_millis() as u64,
            "shards": owned.get(name).copied().unwrap_or(0),
            "draining": !member.takes_shards(),
            "avoided": pace.is_avoided,
            "bytes_per_second": member.rate,
            "speed": f64::from(pace.speed) / f64::from(NORMAL_SPEED),
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
        "rewinds": rewinds(record),
        "rows_bound": view.bound.rows_bound,
        "next_row": view.bound.next_row,
        "adopted": view.adopted,
        "bindings_refused": view.refused.count,
        "last_refused": view.refused.last.map(|(when, kind)| json!({ "kind": kind, "at": health::wall_time(now, when) })),
        "newest_checkpoint": view.checkpoints.first().map(|newest| json!({ "id": newest.id, "next_row": newest.next_row })),
        "shards": view.shards.len(),
        "shards_served": view.shards.iter().filter(|it| cluster.is_covered(now, view, it)).count(),
        "shard_list": view.shards.iter().map(|it| shard(cluster, view, it, now)).collect::<Vec<_>>(),
    })
}

/// Returns the branches whose rows the present one continues, and itself, each with its first row; branch 0 is left out.
fn rewinds(record: &JobRecord) -> Vec<Value> {
    let opened = record.lineage.segments().iter().filter(|segment| segment.branch > 0);
    opened.map(|segment| json!({ "branch": segment.branch, "from_row": segment.from_row })).collect()
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
        "reason": reason.as_ref().map(ToString::to_string),
        "reason_kind": reason.as_ref().map(UnservedReason::kind),
        "prepared_by": view.standby.as_ref().map(|standby| &standby.worker),
        "unplaced": view.is_unschedulable,
        "next_row": report.map(|report| report.next_row),
        "released": report.map(|report| report.released),
        "state_bytes": report.map(|report| report.state_bytes),
        "ahead_bytes": report.map(|report| report.ahead_bytes),
        "row_seconds": report.map(|report| report.row_time.as_secs_f64()),
        "stalled_seconds": report.map(|report| report.stalled.as_secs_f64()),
    })
}
