//! Helpers of the commands that call a coordinator.

use std::future::Future;

use comfy_table::Table;
use node::process::runtime::Runtime;
use proto::{ServiceError, pb};
use serde_json::{Value, json};

use super::harden::harden;
use crate::access::CoordinatorArg;
use crate::failure::Typed;
use crate::output::{self, BadUse};
use crate::unreached;

/// Runs a command's future to its end on this thread, after [`harden`]: the command reads keys, tokens or rows. Errors of the
/// way to the coordinator say which step failed, and who the caller was.
pub fn block_on<T>(
    coordinator: &CoordinatorArg,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    harden()?;
    Runtime::with_threads(2)?.block_on(work).map_err(|error| explained(coordinator, error))
}

fn explained(coordinator: &CoordinatorArg, error: anyhow::Error) -> anyhow::Error {
    let Some(cause) = error.downcast_ref::<ServiceError>() else { return error };
    let url = &coordinator.coordinator;
    let text = match cause {
        ServiceError::Unavailable { what } if what.ends_with("transport error") => {
            let what = what.trim_end_matches(": transport error");
            let reasons = url.split(',').map(|url| unreached::reason(url.trim(), what));
            let reasons: Vec<String> = reasons.collect();
            format!("the coordinator at {url} was not reached: {}", reasons.join("; "))
        }
        ServiceError::Unauthenticated | ServiceError::PermissionDenied => {
            let shown = coordinator.access.shown();
            format!(
                "{cause}: it showed {shown} to {url}; --tls-dir and --token-file show others, and docs/security.md lists the \
                 rights of each role"
            )
        }
        ServiceError::RangeUnavailable { .. } => {
            format!("{cause}. rustle status lists what is wrong, and what to do")
        }
        ServiceError::InvalidArgument { field, value, allowed }
            if field == "endpoint" && names(url, value) =>
        {
            let python =
                if value.starts_with("\"grpc") { "; grpc:// and grpcs:// are for Python" } else { "" };
            format!("--coordinator (RUSTLE_COORDINATOR) is {value}; allowed: {allowed}{python}")
        }
        ServiceError::NotFound { what, .. } => format!("{cause}{}", list_of(what)),
        ServiceError::AlreadyExists { .. } => {
            format!("{cause}; allowed: the definition that it has, or another name")
        }
        cause if is_bad_use(cause) => cause.to_string(),
        _ => return error,
    };
    let typed = anyhow::Error::from(Typed::reworded(cause, text.clone()));
    if is_bad_use(cause) { typed.context(BadUse(text)) } else { typed }
}

/// Returns whether the error is that of a value in the arguments, which only the coordinator can judge.
fn is_bad_use(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::InvalidArgument { .. }
            | ServiceError::GridRowsAreIntegers { .. }
            | ServiceError::RowBeyondIterations { .. }
            | ServiceError::RangeBeyondDimension { .. }
    )
}

/// Returns whether the value, in quotes, is one of the URLs.
fn names(urls: &str, value: &str) -> bool {
    urls.split(',').any(|url| format!("{:?}", url.trim()) == value)
}

/// Returns which command lists what was not found.
fn list_of(what: &str) -> &'static str {
    match what {
        "job" => "; rustle job list names those that there are",
        "worker" => "; rustle worker list names those that there are",
        "data set" => "; rustle budget list names those that there are",
        _ => "",
    }
}

/// Returns an entry of a chain of events as JSON, with the event as the text that was hashed.
pub fn entry(entry: &pb::Entry) -> Value {
    json!({
        "index": entry.index,
        "previous": hex::encode(&entry.previous),
        "hash": hex::encode(&entry.hash),
        "event": entry.event,
    })
}

/// Returns the entries of a chain of events as a table.
pub fn entries(entries: &[pb::Entry]) -> Table {
    let mut table = output::table(&["index", "hash", "event"]);
    for entry in entries {
        table.add_row([&entry.index.to_string(), &hex::encode(&entry.hash), &entry.event]);
    }
    table
}
