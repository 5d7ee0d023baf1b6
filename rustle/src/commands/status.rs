//! `rustle status`: whether the cluster is healthy, what is wrong since when, and where its jobs stand.

use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::{online, status_table};
use crate::access::CoordinatorArg;
use crate::output::{self, BadUse, Format};
use crate::streams;

/// Show whether the cluster is healthy, what is wrong, and where its jobs stand; exit status 1 unless it is healthy
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    rustle status\n  \
    rustle status --format json | jq '.problems[].what'")]
pub struct StatusArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
}

pub fn run(args: &StatusArgs, format: Format) -> anyhow::Result<ExitCode> {
    let asked = online::block_on(&args.coordinator, fetch(&args.coordinator));
    let status = match (asked, format) {
        (Ok(status), _) => status,
        (Err(error), _) if error.is::<BadUse>() => return Err(error),
        (Err(error), Format::Table) => return Err(error),
        (Err(error), Format::Json) => without_answer(&output::without_repeats(&error)),
    };
    let printed = match format {
        Format::Json => streams::line(&status),
        Format::Table => streams::line(status_table::whole(&status)),
    };
    output::status_of_check(status["healthy"] == Value::Bool(true), printed)
}

/// Returns the coordinator's status.
pub async fn fetch(coordinator: &CoordinatorArg) -> anyhow::Result<Value> {
    let text = coordinator.client().await?.jobs().status().await?;
    serde_json::from_str(&text).context("the coordinator's status")
}

/// Returns the status of a cluster that does not answer: scripts read the same fields.
fn without_answer(error: &str) -> Value {
    let problem = json!({
        "severity": "critical",
        "kind": "no_answer",
        "job": null,
        "what": error,
        "since": null,
        "next_step": "see that the coordinator runs, and that --coordinator and --tls-dir are its own",
    });
    json!({ "healthy": false, "problems": [problem], "jobs": [], "workers": [], "absent_workers": [] })
}
