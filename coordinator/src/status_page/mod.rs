//! The status page: `/status` as HTML for people. It loads nothing and shows no secret, nor anything that `/status` does not.
//! Its one script (`live.js`) puts newer content in; without scripts the page loads itself again. Charts over time are in
//! Grafana (`deploy/grafana`).

mod budgets;
pub mod format;
mod gauge;
mod head;
mod job;
mod overview;
mod problems;
mod shards;
mod table;
mod workers;

use node::telemetry::live_page::{LivePage, Text};
use serde_json::Value;

use crate::coordinator::Coordinator;
use crate::privacy_meter::MAX_WATCHED_JOBS;

use format::{count, escape_html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("live.js");

impl Coordinator {
    /// Returns what the page shows now.
    pub fn page(&self) -> String {
        content(&self.status())
    }
}

/// Returns the page whose content that is.
pub fn live(content: Text) -> LivePage {
    let shown = content.clone();
    LivePage::new(std::sync::Arc::new(move || document(&shown())), content, SCRIPT)
}

fn document(content: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n<title>Rustle</title>\n\
         <style>\n{STYLE}</style></head>\n<body>\n<p id=\"stale\" hidden>The coordinator does not answer. What is below may be \
         old.</p>\n<main>\n{content}</main>\n<script>{SCRIPT}</script>\n</body></html>\n"
    )
}

/// Returns the page's content for a status.
fn content(status: &Value) -> String {
    let jobs = listed(status, "jobs");
    let (present, destroyed): (Vec<&Value>, Vec<&Value>) =
        jobs.iter().partition(|job| job["state"].as_str() != Some("destroyed"));
    let problems = listed(status, "problems");
    let mut text = head::head(status, &present);
    text.push_str(&problems::section(problems));
    text.push_str(&overview::section(&present, problems));
    text.push_str(&budgets::section(listed(status, "data_sets")));
    text.push_str(&workers::section(listed(status, "workers"), listed(status, "absent_workers")));
    text.extend(present.iter().take(MAX_WATCHED_JOBS).map(|status| job::section(status, present.len() == 1)));
    if present.len() > MAX_WATCHED_JOBS {
        text.push_str(&left_out(present.len() - MAX_WATCHED_JOBS, "jobs"));
    }
    if !destroyed.is_empty() {
        text.push_str(&format!("<p class=\"quiet\">Destroyed jobs: {}</p>\n", count(destroyed.len() as u64)));
    }
    text
}

fn listed<'a>(status: &'a Value, name: &str) -> &'a [Value] {
    status[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn number(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

/// How good a thing is, as its colour says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Good,
    Quiet,
    Warn,
    Bad,
}

impl Tone {
    /// Returns the class of the style sheet.
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Quiet => "quiet",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// Returns the tone of a problem.
    fn of_problem(problem: &Value) -> Self {
        if problem["severity"] == "critical" { Self::Bad } else { Self::Warn }
    }
}

/// Returns a short text in a coloured frame.
fn badge(text: &str, tone: Tone) -> String {
    format!("<span class=\"badge {}\">{}</span>", tone.class(), escape_html(text))
}

/// Returns a named value, which is HTML already.
fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{value}</dd></div>")
}

/// Returns the note on what a list leaves out.
fn left_out(number: usize, what: &str) -> String {
    format!(
        "<p class=\"quiet\">and {} {what} more: <a href=\"/status\">all as JSON</a></p>\n",
        count(number as u64)
    )
}

#[cfg(test)]
mod tests;
