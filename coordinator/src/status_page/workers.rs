//! The workers on the page: those that are gone, and those that are here.

use serde_json::Value;

use super::format::{bytes_cell, cell, count, escape_html, moment};
use super::table::table;
use super::{Tone, badge, number};

/// Workers up to which the table is open.
const FEW: usize = 20;

/// Returns one table of both.
pub fn section(workers: &[Value], absent: &[Value]) -> String {
    let lines = absent.len() + workers.len();
    let head = ["worker", "state", "shards", "rate", "memory", "last heard of", "endpoint"];
    // Those that left by themselves come last.
    let (left, lost): (Vec<&Value>, Vec<&Value>) =
        absent.iter().partition(|worker| worker["cause"] == "left");
    let rows: Vec<_> = lost
        .into_iter()
        .map(gone)
        .chain(workers.iter().map(here))
        .chain(left.into_iter().map(gone))
        .collect();
    let table = match lines {
        0 => "<p>No worker is here: <code>rustle worker</code> starts one.</p>\n".to_owned(),
        lines if lines <= FEW => table(&head, rows.into_iter()),
        lines => format!(
            "<details id=\"workers\"><summary>All {} workers</summary>\n{}</details>\n",
            count(lines as u64),
            table(&head, rows.into_iter())
        ),
    };
    format!("<section><h2>Workers</h2>\n{}{table}</section>\n", summary(workers, absent))
}

fn summary(workers: &[Value], absent: &[Value]) -> String {
    let gone = absent.iter().filter(|worker| worker["cause"] != "left").count();
    let shards: u64 = workers.iter().map(|worker| number(worker, "shards")).sum();
    let gone = match gone {
        0 => String::new(),
        gone => format!(", <span class=\"warn\">{} gone or refused</span>", count(gone as u64)),
    };
    format!(
        "<p class=\"quiet\">{} here{gone}, with {} shards</p>\n",
        count(workers.len() as u64),
        count(shards)
    )
}

fn here(worker: &Value) -> Vec<String> {
    let is = |name: &str| worker[name] == Value::Bool(true);
    let state = match (is("draining"), is("avoided")) {
        (true, _) => badge("draining", Tone::Warn),
        (_, true) => badge("makes no rows", Tone::Warn),
        _ => badge("here", Tone::Good),
    };
    let heard = worker["last_heard_ms"].as_u64();
    let heard = heard.map_or("–".to_owned(), |ms| format!("{:.1} s ago", ms as f64 / 1000.0));
    let rate = worker["bytes_per_second"].as_f64().filter(|rate| *rate > 0.0);
    let rate = rate.map_or("–".to_owned(), |rate| format!("{}/s", bytes_cell(&Value::from(rate as u64))));
    let memory = match worker["memory_bytes"].as_u64() {
        Some(0) | None => "–".to_owned(),
        Some(_) => bytes_cell(&worker["memory_bytes"]),
    };
    vec![
        cell(&worker["worker"]),
        state,
        cell(&worker["shards"]),
        rate,
        memory,
        heard,
        cell(&worker["endpoint"]),
    ]
}

fn gone(worker: &Value) -> Vec<String> {
    let since = moment(worker["since"].as_str().unwrap_or("–"));
    let (word, tone) = match worker["cause"].as_str() {
        Some("left") => ("left", Tone::Quiet),
        Some("refused") => ("refused", Tone::Bad),
        _ => ("gone", Tone::Bad),
    };
    let name = worker["worker"].as_str().unwrap_or("–");
    let reason = worker["reason"].as_str().unwrap_or_default();
    // The state says already that it is gone.
    let reason = reason.strip_prefix(name).unwrap_or(reason).trim_start();
    let reason = reason.split_once(": ").map_or(reason, |(_, why)| why);
    let why = if word == "left" {
        String::new()
    } else {
        format!(" <span class=\"quiet\">{}</span>", escape_html(reason))
    };
    let none = || "–".to_owned();
    vec![
        cell(&worker["worker"]),
        format!("{}{why}", badge(word, tone)),
        none(),
        none(),
        none(),
        since,
        none(),
    ]
}
