//! One job on the page.

use std::fmt::Write;

use serde_json::Value;

use super::format::{bytes_cell, cell, count, escape_html, rounded_up};
use super::{badge, table};
use crate::privacy_meter::JobHistory;

/// Returns a job's part of the page, from its object in `/status`. Writing to a String can't fail.
pub fn section(status: &Value, history: Option<&JobHistory>) -> String {
    let rows = number(status, "rows_bound");
    let all = number(status, "iterations");
    let state = status["state"].as_str().unwrap_or_default();
    let mut text = format!("<section><h2>Job {} {}</h2>\n", cell(&status["job"]), state_badge(state, status));
    let _ = writeln!(
        text,
        "<label>Rows bound <progress value=\"{rows}\" max=\"{all}\">{rows} of {all} rows</progress></label>"
    );
    text.push_str(&privacy_meter(&status["privacy"]));
    let _ = writeln!(text, "<dl>{}</dl>", facts(status, history).join(""));
    let shards = status["shard_list"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !shards.is_empty() {
        let head = ["shard", "coordinates", "worker", "served", "made to row", "epoch", "state", "rows kept"];
        let _ = write!(text, "<h3>Shards</h3>\n{}", table(&head, shards, shard));
    }
    text.push_str("</section>\n");
    text
}

fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

fn state_badge(state: &str, status: &Value) -> String {
    let shards = status["shard_list"].as_array().map(Vec::as_slice).unwrap_or_default();
    let unready = shards.iter().filter(|shard| shard["ready"] != Value::Bool(true)).count();
    match unready {
        0 => badge(state, true),
        _ if state == "destroyed" => badge(state, true),
        unready => badge(&format!("{state}, {unready} of {} shards not served", shards.len()), false),
    }
}

fn facts(status: &Value, history: Option<&JobHistory>) -> Vec<String> {
    let rate = history.and_then(JobHistory::rows_per_second);
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
    let of =
        |spent: &str, planned: &str| format!("{} of {}", figure(privacy, spent), figure(privacy, planned));
    vec![
        fact(&format!("ε spent{}", at_delta(privacy)), &of("epsilon_spent", "epsilon_planned")),
        fact("ρ spent", &of("rho_spent", "rho_planned")),
    ]
}

/// Returns ε spent against ε of the whole plan as a meter; nothing until it is computed or if there is no guarantee.
fn privacy_meter(privacy: &Value) -> String {
    let value = |name: &str| privacy[name].as_f64().filter(|value| value.is_finite());
    let (Some(spent), Some(planned)) = (value("epsilon_spent"), value("epsilon_planned")) else {
        return String::new();
    };
    format!(
        "<label>Privacy spent{} <meter min=\"0\" max=\"{planned}\" value=\"{spent}\">ε {} of {}</meter></label>\n",
        at_delta(privacy),
        rounded_up(spent),
        rounded_up(planned)
    )
}

fn figure(privacy: &Value, name: &str) -> String {
    privacy[name].as_f64().map_or("–".into(), rounded_up)
}

fn at_delta(privacy: &Value) -> String {
    privacy["delta"].as_f64().map_or(String::new(), |delta| format!(" at δ = {delta:e}"))
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
        match shard["reason"].as_str() {
            Some(reason) => format!("{} {}", badge("no", false), escape_html(reason)),
            None => badge(if is_ready { "yes" } else { "no" }, is_ready),
        },
        cell(&shard["next_row"]),
        cell(&shard["epoch"]),
        bytes_cell(&shard["state_bytes"]),
        bytes_cell(&shard["ahead_bytes"]),
    ]
}

/// Returns a named value, which is HTML already.
fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{value}</dd></div>")
}
