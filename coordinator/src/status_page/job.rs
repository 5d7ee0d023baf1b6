//! One job on the page.

use std::fmt::Write;

use serde_json::Value;
use tokio::time::Instant;

use super::charts::charts;
use super::format::{bytes, cell, count, rounded_up};
use super::{badge, table};
use crate::privacy_meter::Watched;

/// `status`: the job's object in `/status`. Writing to a String has no way to fail.
pub fn section(status: &Value, watched: Option<&Watched>, delta: f64, now: Instant) -> String {
    let rows = number(status, "rows_bound");
    let all = number(status, "iterations");
    let state = status["state"].as_str().unwrap_or_default();
    let mut text = format!("<section><h2>Job {} {}</h2>\n", cell(&status["job"]), state_badge(state, status));
    let _ = writeln!(text, "<progress value=\"{rows}\" max=\"{all}\">{rows} of {all} rows</progress>");
    let _ = writeln!(text, "<dl>{}</dl>", facts(status, watched).join(""));
    if let Some(watched) = watched {
        text.push_str(&charts(watched, delta, now));
    }
    let shards = status["shards"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !shards.is_empty() {
        let head = ["shard", "coordinates", "worker", "ready", "made to row", "epoch", "state", "rows kept"];
        let _ = write!(text, "<h3>Shards</h3>\n{}", table(&head, shards, shard));
    }
    text.push_str("</section>\n");
    text
}

fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

fn state_badge(state: &str, status: &Value) -> String {
    let shards = status["shards"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unready = shards.iter().filter(|shard| shard["ready"] != Value::Bool(true)).count();
    match unready {
        0 => badge(state, true),
        _ if state == "destroyed" => badge(state, true),
        unready => badge(&format!("{state}, {unready} of {} shards not served", shards.len()), false),
    }
}

fn facts(status: &Value, watched: Option<&Watched>) -> Vec<String> {
    let rate = watched.and_then(Watched::rows_per_second);
    let rows = number(status, "rows_bound");
    let all = number(status, "iterations");
    let mut facts = vec![
        fact("rows bound", &format!("{} of {}", count(rows), count(all))),
        fact("rows a second", &rate.map_or("–".into(), |rate| format!("{rate:.1}"))),
        fact("mechanism", &cell(&status["mechanism"])),
        fact("coordinates", &cell(&status["dimension"])),
        fact("branch", &cell(&status["branch"])),
        fact("newest checkpoint", &checkpoint(&status["newest_checkpoint"])),
    ];
    facts.extend(privacy(&status["privacy"]));
    facts
}

fn privacy(privacy: &Value) -> Vec<String> {
    if let Some(reason) = privacy["unstated"].as_str() {
        return vec![fact("privacy", &format!("not stated: {reason}"))];
    }
    let figure = |name: &str| privacy[name].as_f64().map_or("–".into(), rounded_up);
    let delta = privacy["delta"].as_f64().map_or(String::new(), |delta| format!(" at δ = {delta:e}"));
    let of = |spent: &str, planned: &str| format!("{} of {}", figure(spent), figure(planned));
    vec![
        fact(&format!("ε spent{delta}"), &of("epsilon_spent", "epsilon_planned")),
        fact("ρ spent", &of("rho_spent", "rho_planned")),
    ]
}

fn checkpoint(newest: &Value) -> String {
    newest["next_row"].as_u64().map_or("none".into(), |row| format!("before row {}", count(row)))
}

fn shard(shard: &Value) -> Vec<String> {
    let range = format!("{}–{}", cell(&shard["start"]), cell(&shard["end"]));
    let is_ready = shard["ready"] == Value::Bool(true);
    vec![
        cell(&shard["shard"]),
        range,
        cell(&shard["owner"]),
        badge(if is_ready { "yes" } else { "no" }, is_ready),
        cell(&shard["next_row"]),
        cell(&shard["epoch"]),
        bytes(&shard["state_bytes"]),
        bytes(&shard["ahead_bytes"]),
    ]
}

/// The value is HTML already.
fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{value}</dd></div>")
}
