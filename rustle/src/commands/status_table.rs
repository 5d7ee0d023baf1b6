//! A coordinator's status as text: its problems, jobs and workers.

use std::fmt::Write;

use node::config::units::show_seconds;
use serde_json::Value;

use crate::figures;
use crate::output::{self, Colour};

/// Returns the whole status.
pub fn whole(status: &Value) -> String {
    let mut text = String::new();
    let problems = listed(status, "problems");
    let is_healthy = status["healthy"] == Value::Bool(true);
    let (word, colour) = if is_healthy { ("healthy", Colour::Green) } else { ("not healthy", Colour::Red) };
    // Writing to a String can't fail.
    let _ = writeln!(text, "{}{}", output::coloured(word, colour), count_of(problems.len()));
    for problem in problems {
        let word = |name: &str| problem[name].as_str().unwrap_or("-");
        let colour = if problem["severity"] == "critical" { Colour::Red } else { Colour::Yellow };
        let severity = output::coloured(word("severity"), colour);
        let _ = writeln!(text, "\n{severity}: {}", word("what"));
        let _ = writeln!(text, "  since {}", word("since"));
        let _ = writeln!(text, "  next: {}", word("next_step"));
    }
    let jobs = listed(status, "jobs");
    if !jobs.is_empty() {
        let _ = write!(text, "\n{}", jobs_table(jobs));
    }
    let workers = listed(status, "workers");
    let absent = listed(status, "absent_workers");
    if workers.len() + absent.len() > 0 {
        let _ = write!(text, "\n{}", workers_table(workers, absent));
    }
    text.trim_end().to_owned()
}

fn count_of(problems: usize) -> String {
    match problems {
        0 => String::new(),
        1 => ", 1 problem".to_owned(),
        count => format!(", {count} problems"),
    }
}

fn listed<'a>(status: &'a Value, name: &str) -> &'a [Value] {
    status[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the table of jobs: where each stands, what it has cost, and whether it is served.
pub fn jobs_table(jobs: &[Value]) -> String {
    let mut table = output::table(&["job", "state", "rows", "ε of plan", "served", "left"]);
    for job in jobs {
        let text = |name: &str| job[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| job[name].as_u64().unwrap_or(0);
        let rows = format!("{} of {}", number("next_row"), number("iterations"));
        let served = format!("{} of {}", number("shards_served"), number("shards"));
        table.add_row([text("job"), text("state"), rows, epsilon(job), served, left(job)]);
    }
    format!("{table}\n")
}

/// Returns ε spent of ε planned, rounded up, with a word where rows are counted that another copy of an adopted ledger may have
/// released; dashes for what is not stated.
pub fn epsilon(job: &Value) -> String {
    let of = |name: &str| job[name].as_f64().map_or("-".to_owned(), figures::rounded_up);
    match (of("epsilon"), of("epsilon_planned")) {
        (spent, planned) if spent == "-" && planned == "-" => "-".to_owned(),
        (spent, planned) if job["adopted"].is_string() => format!("{spent} of {planned}, adopted"),
        (spent, planned) => format!("{spent} of {planned}"),
    }
}

/// Returns the time until the last row at the present rate; a dash where none is bound now.
pub fn left(job: &Value) -> String {
    let rows = job["iterations"].as_u64().unwrap_or(0).saturating_sub(job["next_row"].as_u64().unwrap_or(0));
    let is_running = job["state"] == "running" && rows > 0;
    match job["rows_per_second"].as_f64().filter(|rate| is_running && *rate > 0.0) {
        Some(rate) => show_seconds((rows as f64 / rate).ceil() as u64),
        None => "-".to_owned(),
    }
}

/// Returns the table of workers: those that are here, and those that are not, with the reason.
pub fn workers_table(workers: &[Value], absent: &[Value]) -> String {
    let mut table = output::table(&["worker", "state", "shards", "last heard", "at"]);
    for worker in workers {
        let is = |name: &str| worker[name] == Value::Bool(true);
        let state = match (is("draining"), is("avoided")) {
            (true, _) => "draining",
            (_, true) => "makes no rows",
            _ => "here",
        };
        let heard = worker["last_heard_ms"].as_u64().map_or("-".to_owned(), |ms| format!("{ms} ms ago"));
        let text = |name: &str| worker[name].as_str().unwrap_or("-").to_owned();
        let shards = worker["shards"].as_u64().unwrap_or(0).to_string();
        table.add_row([text("worker"), state.to_owned(), shards, heard, text("endpoint")]);
    }
    for worker in absent {
        let text = |name: &str| worker[name].as_str().unwrap_or("-").to_owned();
        let cause = text("cause").replace('_', " ");
        table.add_row([text("worker"), cause, "-".to_owned(), text("since"), "-".to_owned()]);
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "healthy": false,
            "problems": [{
                "severity": "critical", "what": "job default: 1 of 2 shards are not served: worker-0 is gone",
                "since": "2026-11-26T18:40:11Z", "next_step": "start worker-0 again",
            }],
            "jobs": [{
                "job": "default", "state": "running", "mechanism": "banded-inverse", "rows_bound": 600, "next_row": 600,
                "iterations": 2000, "epsilon": 3.4500001, "epsilon_planned": 7.5969999, "shards": 2, "shards_served": 1,
                "rows_per_second": 2.0,
            }],
            "workers": [{
                "worker": "worker-1", "endpoint": "http://127.0.0.1:40101", "shards": 1, "last_heard_ms": 431,
                "draining": false, "avoided": false,
            }],
            "absent_workers": [{ "worker": "worker-0", "cause": "lease_ended", "since": "2026-11-26T18:40:11Z" }],
        })
    }

    #[test]
    fn the_tables_fit_80_columns_and_say_what_is_wrong() {
        let text = whole(&status());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{} wide: {line}\n{text}", line.chars().count());
        }
        for part in [
            "not healthy, 1 problem",
            "next: start worker-0 again",
            "600 of 2000",
            "1 of 2",
            "11 min 40 s",
            "lease ended",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert_eq!(epsilon(&status()["jobs"][0]), "3.45001 of 7.597");
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!((epsilon(&json!({})), left(&json!({}))), ("-".to_owned(), "-".to_owned()));
        assert_eq!(epsilon(&json!({ "epsilon": null, "epsilon_planned": 2.0 })), "- of 2");
        let adopted = json!({ "epsilon": 1.0, "epsilon_planned": 2.0, "adopted": "at row 3" });
        assert_eq!(epsilon(&adopted), "1 of 2, adopted");
    }
}
