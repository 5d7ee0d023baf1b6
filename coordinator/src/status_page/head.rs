//! The first lines of the page: is all well?

use serde_json::Value;

use super::format::{cell, count, moment};
use super::{Tone, badge, listed, number};

/// Returns title, verdict, and what there is.
pub fn head(status: &Value, jobs: &[&Value]) -> String {
    let total = |name: &str| jobs.iter().map(|job| number(job, name)).sum::<u64>();
    let served = total("shards_served");
    let shards = total("shards");
    let all_served = match (shards, shards - served.min(shards)) {
        (0, _) => String::new(),
        (_, 0) => badge("all shards served", Tone::Good),
        (_, 1) => badge("1 shard not served", Tone::Bad),
        (_, count) => badge(&format!("{count} shards not served"), Tone::Bad),
    };
    let health = verdict(status);
    let workers = count(listed(status, "workers").len() as u64);
    let checkpoints = if status["checkpoints_on"] == Value::Bool(true) { "on" } else { "off" };
    let time = status["time"].as_str().map_or(String::new(), |time| format!("as of {} · ", moment(time)));
    format!(
        "<h1>Rustle {health} {all_served}</h1>\n<p class=\"quiet\">{time}{workers} workers, {} of {} shards served · version {}, \
         coordinator epoch {}, checkpoints {checkpoints} · <a href=\"/status\">status as JSON</a>, \
         <a href=\"/metrics\">metrics</a></p>\n",
        count(served),
        count(shards),
        cell(&status["version"]),
        cell(&status["coordinator_epoch"]),
    )
}

fn verdict(status: &Value) -> String {
    let problems = listed(status, "problems").len();
    match (status["healthy"] == Value::Bool(true), problems) {
        (true, 0) => badge("healthy", Tone::Good),
        (true, 1) => badge("healthy, 1 warning", Tone::Warn),
        (true, warnings) => badge(&format!("healthy, {warnings} warnings"), Tone::Warn),
        (false, 0 | 1) => badge("not healthy", Tone::Bad),
        (false, problems) => badge(&format!("not healthy, {problems} problems"), Tone::Bad),
    }
}
