//! The status page: `/status` as HTML for people. It has no script, loads nothing and shows no secret: apart from the
//! rate of each job it shows nothing that `/status` does not. Charts over time are in Grafana (`deploy/grafana`).

pub mod format;
mod job;
mod problems;
mod workers;

use proto::JobId;
use serde_json::Value;

use crate::coordinator::Coordinator;
use crate::privacy_meter::MAX_WATCHED_JOBS;
use format::{cell, count, escape_html};

/// Lines that a table shows; `/status` has all.
const MAX_LINES: usize = 200;
const STYLE: &str = include_str!("style.css");

impl Coordinator {
    /// Returns the whole page. It makes the browser load it again every five seconds.
    pub fn page(&self) -> String {
        let status = self.status();
        let histories = self.privacy_meter().histories();
        let listed = |name: &str| status[name].as_array().cloned().unwrap_or_default();
        let jobs = listed("jobs");
        let workers = listed("workers");
        let section = |status: &Value| {
            let name = status["job"].as_str().and_then(|name| JobId::new(name).ok());
            let history = name.and_then(|name| histories.get(&name));
            job::section(status, history)
        };
        let (present, destroyed): (Vec<_>, Vec<_>) =
            jobs.iter().partition(|job| job["state"].as_str() != Some("destroyed"));
        let mut body = head(&status, workers.len(), &jobs);
        body.push_str(&problems::section(&listed("problems")));
        body.extend(present.iter().take(MAX_WATCHED_JOBS).map(|job| section(job)));
        if present.len() > MAX_WATCHED_JOBS {
            body.push_str(&left_out(present.len() - MAX_WATCHED_JOBS, "jobs"));
        }
        if present.is_empty() {
            body.push_str(
                "<section><p>No jobs yet: <code>rustle job create</code> makes one.</p></section>\n",
            );
        }
        body.push_str(&workers::section(&workers, &listed("absent_workers")));
        if !destroyed.is_empty() {
            body.push_str(&format!(
                "<p class=\"quiet\">Destroyed jobs: {}</p>\n",
                count(destroyed.len() as u64)
            ));
        }
        document(&body)
    }
}

fn document(body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"refresh\" content=\"5\">\n<title>Rustle</title>\n<style>\n{STYLE}</style></head>\n\
         <body>\n{body}</body></html>\n"
    )
}

fn head(status: &Value, workers: usize, jobs: &[Value]) -> String {
    let total = |name: &str| jobs.iter().filter_map(|job| job[name].as_u64()).sum::<u64>();
    let served = total("shards_served");
    let shards = total("shards");
    let state = match shards - served.min(shards) {
        0 => badge("all shards served", true),
        count => badge(&format!("{count} shards not served"), false),
    };
    let is_healthy = status["healthy"] == Value::Bool(true);
    let health = badge(if is_healthy { "healthy" } else { "not healthy" }, is_healthy);
    let checkpoints = if status["checkpoints_on"] == Value::Bool(true) { "on" } else { "off" };
    format!(
        "<h1>Rustle {health} {state}</h1>\n<p class=\"quiet\">version {}, coordinator epoch {}, checkpoints {checkpoints} · {} \
         workers, {} of {} shards served · <a href=\"/status\">status as JSON</a>, <a href=\"/metrics\">metrics</a></p>\n",
        env!("CARGO_PKG_VERSION"),
        cell(&status["coordinator_epoch"]),
        count(workers as u64),
        count(served),
        count(shards),
    )
}

/// Returns a short text in a coloured frame.
fn badge(text: &str, is_good: bool) -> String {
    badge_of(&escape_html(text), if is_good { "good" } else { "bad" })
}

/// Returns a short text, which is HTML already, in a frame of the class's colour: `good`, `warn` or `bad`.
fn badge_of(text: &str, class: &str) -> String {
    format!("<span class=\"badge {class}\">{text}</span>")
}

/// Returns a table. `cells` returns the cells of one line, as HTML.
fn table(head: &[&str], lines: &[Value], cells: impl Fn(&Value) -> Vec<String>) -> String {
    let head: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    let line = |value: &Value| {
        let cells: String = cells(value).iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = lines.iter().take(MAX_LINES).map(line).collect();
    let mut text = format!("<div class=\"table\"><table><tr>{head}</tr>\n{body}</table></div>\n");
    if lines.len() > MAX_LINES {
        text.push_str(&left_out(lines.len() - MAX_LINES, "lines"));
    }
    text
}

/// Returns the note on what a list leaves out.
fn left_out(number: usize, what: &str) -> String {
    format!(
        "<p class=\"quiet\">and {} {what} more: <a href=\"/status\">all as JSON</a></p>\n",
        count(number as u64)
    )
}
