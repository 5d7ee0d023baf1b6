//! A job's history: its event chain, its cursors, and resuming.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use proto::pb;
use serde_json::{Value, json};

use super::{JobArgs, client};
use crate::output::{self, Answer, Format, bad_use};
use crate::streams;

/// Prints the event chain. JSON has each event as the text that was hashed.
pub async fn ledger(args: &JobArgs, format: Format) -> anyhow::Result<()> {
    let entries = client(args).await?.jobs().entries(&args.job).await?;
    match format {
        Format::Json => {
            let entry = |entry: &pb::Entry| -> Value {
                json!({
                    "index": entry.index,
                    "previous": hex::encode(&entry.previous),
                    "hash": hex::encode(&entry.hash),
                    "event": entry.event,
                })
            };
            let entries: Vec<_> = entries.iter().map(entry).collect();
            streams::line(json!({ "job": args.job, "entries": entries }))?;
        }
        Format::Table => {
            let mut table = output::table(&["index", "hash", "event"]);
            for entry in &entries {
                table.add_row([&entry.index.to_string(), &hex::encode(&entry.hash), &entry.event]);
            }
            streams::line(table)?;
        }
    }
    Ok(())
}

pub async fn head(args: &JobArgs) -> anyhow::Result<Answer> {
    let head = client(args).await?.jobs().head(&args.job).await?;
    Ok(Answer::new().with("job", head.job).with("entries", head.entries).with("hash", hex::encode(head.hash)))
}

pub async fn cursor(args: &JobArgs, next_row: Option<u64>) -> anyhow::Result<Answer> {
    let cursor = client(args).await?.jobs().cursor(&args.job, next_row).await?;
    Ok(Answer::new().with("job", args.job.to_string()).with("cursor", URL_SAFE_NO_PAD.encode(cursor)))
}

fn decoded(cursor: &str) -> anyhow::Result<Vec<u8>> {
    let refused = |_| bad_use("--cursor is not base64url; allowed: the output of `rustle job cursor`");
    URL_SAFE_NO_PAD.decode(cursor.trim()).map_err(refused)
}

pub async fn check(args: &JobArgs, cursor: &str) -> anyhow::Result<Answer> {
    let check = client(args).await?.jobs().check_cursor(&args.job, decoded(cursor)?).await?;
    Ok(Answer::new()
        .with("branch", check.branch)
        .with("next_row", check.next_row)
        .with("current_branch", check.current_branch)
        .with("rows_beyond", check.rows_beyond)
        .with("replayable", check.replayable)
        .with("continues", check.continues))
}

pub async fn resume(args: &JobArgs, cursor: &str, replay: bool) -> anyhow::Result<pb::Resumed> {
    Ok(client(args).await?.jobs().resume(&args.job, decoded(cursor)?, replay).await?)
}
