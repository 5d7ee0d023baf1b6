//! `rustle job list` and `rustle job show`: where jobs stand, and what they have cost.

use client::Jobs;
use comfy_table::Table;
use proto::pb;
use serde_json::{Value, json};

use super::{JobArgs, client, show, state};
use crate::access::CoordinatorArg;
use crate::commands::status_table::epsilon;
use crate::output::{self, Answer, Format};
use crate::streams;

/// Shards that a table has.
const SHARDS_SHOWN: usize = 32;

/// Prints one job with its ε and its shards.
pub async fn one(args: &JobArgs, format: Format) -> anyhow::Result<()> {
    let jobs = client(args).await?.jobs();
    let job = jobs.get(&args.job).await?;
    let costs = costs(&jobs).await;
    let answer = with_cost(&job, &costs);
    let found = costs.as_array().into_iter().flatten().find(|cost| cost["job"] == job.job.as_str());
    let shards = found.map_or(Value::Null, |found| found["shard_list"].clone());
    match format {
        Format::Json => answer.with("shard_list", shards).print(format),
        Format::Table => {
            answer.print(format)?;
            let shards = shards.as_array().map(Vec::as_slice).unwrap_or_default();
            if shards.is_empty() { Ok(()) } else { streams::line(shards_table(shards)) }
        }
    }
}

/// Returns the table of a job's shards: which coordinates, at which worker, and why one is not served. Of many, those that are not
/// served come first, and the last line counts what is left out.
fn shards_table(shards: &[Value]) -> Table {
    let mut table = output::table(&["shard", "coordinates", "worker", "served"]);
    let (served, missing): (Vec<_>, Vec<_>) =
        shards.iter().partition(|shard| shard["ready"] == Value::Bool(true));
    for shard in missing.iter().chain(&served).take(SHARDS_SHOWN) {
        let text = |name: &str| shard[name].as_str().unwrap_or("-").to_owned();
        let served = if shard["ready"] == Value::Bool(true) {
            "yes".to_owned()
        } else {
            format!("no: {}", text("reason"))
        };
        let coordinates = format!("{}..{}", shard["start"], shard["end"]);
        table.add_row([shard["shard"].to_string(), coordinates, text("owner"), served]);
    }
    if shards.len() > SHARDS_SHOWN {
        table.add_row([format!("{} more: --format json", shards.len() - SHARDS_SHOWN)]);
    }
    table
}

/// Prints all jobs.
pub async fn list(args: &CoordinatorArg, format: Format) -> anyhow::Result<()> {
    let jobs = args.client().await?.jobs();
    let all = jobs.list().await?;
    let costs = costs(&jobs).await;
    match format {
        Format::Json => {
            let all: Vec<_> = all.iter().map(|job| with_cost(job, &costs)).collect();
            streams::line(json!({ "jobs": all }))
        }
        Format::Table => {
            let head = ["job", "state", "mechanism", "dimension", "rows", "ε of plan", "served"];
            let mut table = output::table(&head);
            for job in &all {
                table.add_row([
                    job.job.clone(),
                    state(job),
                    job.mechanism.clone(),
                    job.dimension.to_string(),
                    format!("{} of {}", job.next_row, job.iterations),
                    epsilon(cost_of(job, &costs)),
                    format!("{} of {}", job.shards_ready, job.shards),
                ]);
            }
            streams::line(table)
        }
    }
}

/// Returns the jobs of the coordinator's status, which has their ε; none from an older coordinator.
async fn costs(jobs: &Jobs) -> Value {
    let status = jobs.status().await.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    status.map_or(Value::Null, |mut status| status["jobs"].take())
}

fn cost_of<'a>(job: &pb::Job, costs: &'a Value) -> &'a Value {
    let found = costs.as_array().into_iter().flatten().find(|cost| cost["job"] == job.job.as_str());
    // Rows that were bound since would make it too small.
    found
        .filter(|cost| cost["next_row"] == job.next_row && cost["branch"] == job.branch)
        .unwrap_or(&Value::Null)
}

fn with_cost(job: &pb::Job, costs: &Value) -> Answer {
    let cost = cost_of(job, costs);
    ["delta", "epsilon", "epsilon_planned"]
        .into_iter()
        .fold(show(job), |answer, name| answer.with(name, cost[name].clone()))
}
