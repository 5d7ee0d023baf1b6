//! `rustle job watch`: a job while it runs, redrawn on a terminal and line by line elsewhere.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::JobArgs;
use crate::commands::status;
use crate::commands::status_table::{epsilon, left};
use crate::output::Format;
use crate::{streams, values};

/// Cells of a bar.
const BAR: u64 = 40;

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    rustle job watch --job default\n  \
    rustle job watch --format json --every 10s >> progress.jsonl")]
pub struct WatchArgs {
    #[command(flatten)]
    pub job: JobArgs,
    /// Time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::duration)]
    every: Duration,
}

impl WatchArgs {
    /// Shows the job until all of its rows are bound, or it is finished or destroyed.
    pub async fn run(&self, format: Format) -> anyhow::Result<()> {
        let is_drawn = format == Format::Table && io::stdout().is_terminal();
        let mut last = String::new();
        loop {
            let status = status::fetch(&self.job.coordinator).await?;
            let name = self.job.job.as_str();
            let job = status["jobs"].as_array().into_iter().flatten().find(|job| job["job"] == name);
            let job = job.ok_or_else(|| {
                anyhow::anyhow!("no job named {name}; rustle job list names those that there are")
            })?;
            let text = match format {
                Format::Json => job.to_string(),
                Format::Table if is_drawn => picture(&status, job),
                Format::Table => one_line(&status, job),
            };
            if is_drawn {
                streams::write(redrawn(&last, &text).as_bytes())?;
            } else if text != last {
                streams::line(&text)?;
            }
            last = text;
            if is_over(job) {
                return Ok(());
            }
            tokio::time::sleep(self.every).await;
        }
    }
}

fn is_over(job: &Value) -> bool {
    job["state"] != "running" || job["next_row"] == job["iterations"]
}

/// Returns what replaces the text drawn last.
fn redrawn(last: &str, text: &str) -> String {
    match last.lines().count() {
        0 => text.to_owned(),
        lines => format!("\u{1b}[{lines}A\u{1b}[J{text}"),
    }
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

/// Returns the longest time that a request has waited for a row of the job.
fn wait(job: &Value) -> f64 {
    let shards = job["shard_list"].as_array().into_iter().flatten();
    shards.filter_map(|shard| shard["stalled_seconds"].as_f64()).fold(0.0, f64::max)
}

fn rate(job: &Value) -> String {
    job["rows_per_second"].as_f64().map_or("-".to_owned(), |rate| format!("{rate:.1}"))
}

fn one_line(status: &Value, job: &Value) -> String {
    format!(
        "{} {}: row {} of {}, {} rows/s, {} left; ε {}; {} of {} shards served by {} workers, waits {:.1} s",
        job["job"].as_str().unwrap_or("-"),
        job["state"].as_str().unwrap_or("-"),
        number(job, "next_row"),
        number(job, "iterations"),
        rate(job),
        left(job),
        epsilon(job),
        number(job, "shards_served"),
        number(job, "shards"),
        status["workers"].as_array().map_or(0, Vec::len),
        wait(job),
    )
}

/// Returns the view of a terminal: lines of at most 80 columns.
fn picture(status: &Value, job: &Value) -> String {
    let [row, rows] = ["next_row", "iterations"].map(|name| number(job, name));
    let part = |whole: f64, of: f64| if of > 0.0 { (whole / of).clamp(0.0, 1.0) } else { 0.0 };
    let bar = |part: f64| {
        let full = (part * BAR as f64).floor() as usize;
        format!("{}{}", "█".repeat(full), "░".repeat(BAR as usize - full))
    };
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ =
        writeln!(text, "{:.60} {}", job["job"].as_str().unwrap_or("-"), job["state"].as_str().unwrap_or("-"));
    let _ = writeln!(text, "rows    {} {row} of {rows}", bar(part(row as f64, rows as f64)));
    let spent = job["epsilon"].as_f64().unwrap_or(0.0);
    let planned = job["epsilon_planned"].as_f64().unwrap_or(0.0);
    let _ = writeln!(text, "ε       {} {}", bar(part(spent, planned)), epsilon(job));
    let _ = writeln!(text, "speed   {} rows/s, {} left", rate(job), left(job));
    let _ = writeln!(
        text,
        "served  {} of {} shards, by {} workers; longest wait for a row {:.1} s",
        number(job, "shards_served"),
        number(job, "shards"),
        status["workers"].as_array().map_or(0, Vec::len),
        wait(job)
    );
    for problem in status["problems"].as_array().into_iter().flatten().take(3) {
        let line = format!(
            "{}: {}",
            problem["severity"].as_str().unwrap_or("-"),
            problem["what"].as_str().unwrap_or("-")
        );
        let _ = writeln!(text, "{}", line.chars().take(79).collect::<String>());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_views_say_where_the_job_stands() {
        let job = json!({
            "job": "default", "state": "running", "next_row": 500, "iterations": 2000, "epsilon": 3.45, "epsilon_planned": 7.6,
            "shards": 2, "shards_served": 1, "rows_per_second": 2.5,
            "shard_list": [{ "stalled_seconds": 0.0 }, { "stalled_seconds": 4.25 }],
        });
        let what = "x".repeat(200);
        let status = json!({ "workers": [{}], "problems": [{ "severity": "critical", "what": what }] });
        let line = one_line(&status, &job);
        assert_eq!(
            line,
            "default running: row 500 of 2000, 2.5 rows/s, 10 min 0 s left; ε 3.45 of 7.6; 1 of 2 shards served by 1 \
             workers, waits 4.2 s"
        );
        let drawn = picture(&status, &job);
        assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
        assert!(drawn.contains("500 of 2000") && drawn.contains("critical: x"), "{drawn}");
        assert_eq!(drawn.lines().nth(1).unwrap().matches('█').count(), 10, "a quarter of 40: {drawn}");
        assert_eq!(redrawn("a\nb\n", "c"), "\u{1b}[2A\u{1b}[Jc");
        assert!(!is_over(&job));
    }
}
