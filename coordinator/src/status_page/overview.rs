//! All jobs in one table: how each is, where it stands, what it has cost.

use serde_json::Value;

use super::format::{cell, count, escape_html, in_seconds, rate};
use super::gauge::Gauge;
use super::table::table;
use super::{Tone, badge, number};

/// Returns the table; where there is no job, how to make one.
pub fn section(jobs: &[&Value], problems: &[Value]) -> String {
    if jobs.is_empty() {
        return "<section><p>No jobs yet: <code>rustle job create</code> makes one.</p></section>\n"
            .to_owned();
    }
    let head = ["job", "state", "rows", "ε", "left", "rows/s", "longest wait", "refused"];
    let lines = jobs.iter().map(|job| {
        let name = cell(&job["job"]);
        vec![
            format!("<a href=\"#job-{name}\">{name}</a>"),
            state(job, problems),
            format!("{}{}", rows_words(job), rows_gauge(job)),
            epsilon(job),
            left(job),
            rate(&job["rows_per_second"]),
            in_seconds(longest_wait(job)),
            refused(job),
        ]
    });
    format!("<section class=\"jobs\"><h2>Jobs</h2>\n{}</section>\n", table(&head, lines))
}

/// Returns the job's state; if something is wrong with it, what that is, as the problems have it.
fn state(job: &Value, problems: &[Value]) -> String {
    let state = job["state"].as_str().unwrap_or("–");
    let its = problems.iter().filter(|problem| !job["job"].is_null() && problem["job"] == job["job"]);
    match its.min_by_key(|problem| problem["severity"] != "critical") {
        Some(problem) if problem["kind"] == "shards_not_served" => {
            let shards = number(job, "shards");
            let missing = shards - number(job, "shards_served").min(shards);
            badge(&format!("{} of {} not served", count(missing), count(shards)), Tone::of_problem(problem))
        }
        Some(problem) => {
            badge(&problem["kind"].as_str().unwrap_or("–").replace('_', " "), Tone::of_problem(problem))
        }
        None => badge(state, if state == "running" { Tone::Good } else { Tone::Quiet }),
    }
}

fn rows_words(job: &Value) -> String {
    let rewinds = rewinds(job);
    let rewound = match rewinds.last() {
        Some(last) => format!(" <span class=\"quiet\">rewound to {}</span>", count(number(last, "from_row"))),
        None => String::new(),
    };
    format!("{} of {}{rewound}", count(number(job, "next_row")), count(number(job, "iterations")))
}

/// Returns the rewinds whose rows the present branch continues, oldest first.
pub fn rewinds(job: &Value) -> &[Value] {
    super::listed(job, "rewinds")
}

/// Returns a bar of the rows bound, with a mark at each row that the job was rewound to.
pub fn rows_gauge(job: &Value) -> String {
    let all = number(job, "iterations").max(1) as f64;
    let mark = |rewind: &Value| {
        let row = number(rewind, "from_row");
        (row as f64 / all, format!("branch {} begins at row {}", cell(&rewind["branch"]), count(row)))
    };
    let marks: Vec<_> = rewinds(job).iter().map(mark).collect();
    let row = number(job, "next_row");
    let words = format!("row {row} of {all}");
    Gauge { words: &words, filled: row as f64 / all, reserved: 0.0, tone: Tone::Quiet, marks: &marks }.svg()
}

/// Returns ε of the rows released, of ε of the whole plan, as figure and bar; the reason where none is stated.
pub fn epsilon(job: &Value) -> String {
    if let Some(reason) = job["privacy"]["unstated"].as_str() {
        return format!("not stated: {}", escape_html(reason));
    }
    let value = |name: &str| job[name].as_f64().filter(|value| value.is_finite());
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), super::format::rounded_up);
    let spent = value("epsilon");
    let planned = value("epsilon_planned");
    let adopted =
        if job["adopted"].is_string() { ", with rows that another copy may have released" } else { "" };
    let words = format!("{} of {}{adopted}", shown(spent), shown(planned));
    let delta = job["delta"].as_f64().filter(|_| planned.is_some());
    let delta = delta.map_or(String::new(), |delta| format!(" <span class=\"quiet\">δ {delta:e}</span>"));
    let bar = match (spent, planned) {
        (Some(spent), Some(planned)) if planned > 0.0 => {
            let filled = spent / planned;
            Gauge { words: &format!("ε {words}"), filled, reserved: 0.0, tone: Tone::Quiet, marks: &[] }.svg()
        }
        _ => String::new(),
    };
    format!("{words}{delta}{bar}")
}

/// Returns the time until the last row at the present rate; a dash where none is bound now.
pub fn left(job: &Value) -> String {
    let rows = number(job, "iterations").saturating_sub(number(job, "next_row"));
    let is_running = job["state"] == "running" && rows > 0;
    match job["rows_per_second"].as_f64().filter(|rate| is_running && *rate > 0.0) {
        Some(rate) => node::config::units::show_seconds((rows as f64 / rate).ceil() as u64),
        None => "–".to_owned(),
    }
}

/// Returns the longest time for which requests have waited for rows of one of the job's shards.
pub fn longest_wait(job: &Value) -> Option<f64> {
    let shards = super::listed(job, "shard_list").iter();
    shards.filter_map(|shard| shard["stalled_seconds"].as_f64()).reduce(f64::max)
}

/// Returns the number of bindings refused, with the last one's kind and date.
pub fn refused(job: &Value) -> String {
    let all = count(number(job, "bindings_refused"));
    match &job["last_refused"] {
        Value::Object(last) => {
            let kind = last["kind"].as_str().unwrap_or("–").replace('_', " ");
            let at = super::format::moment(last["at"].as_str().unwrap_or("–"));
            format!("{all} <span class=\"quiet\">last: {}, {at}</span>", escape_html(&kind))
        }
        _ => all,
    }
}
