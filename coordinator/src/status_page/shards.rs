//! A job's shards: a summary, and each in a table.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format::{bytes_cell, cell, count, escape_html, in_seconds};
use super::table::table;
use super::{Tone, badge, fact, gauge, listed, overview};

/// Shards up to which the table is open.
const FEW: usize = 12;
/// Parts of the strip: of more shards each shows several.
const PARTS: usize = 64;

/// Returns the part; nothing for a job without shards.
pub fn part(job: &Value) -> String {
    let shards = listed(job, "shard_list");
    if shards.is_empty() {
        return String::new();
    }
    let head = ["shard", "coordinates", "worker", "served", "made to row", "epoch", "state", "rows kept"];
    // Those that are not served come first: a table shows so many lines and no more.
    let mut lines: Vec<&Value> = shards.iter().collect();
    lines.sort_by_key(|shard| is_served(shard));
    let table = table(&head, lines.into_iter().map(line));
    let open = if shards.len() <= FEW { " open" } else { "" };
    format!(
        "<h3>Shards</h3>\n{}<dl>{}</dl>\n<details id=\"shards-{}\"{open}><summary>Each shard</summary>\n{table}</details>\n",
        strip(shards),
        facts(job, shards).join(""),
        cell(&job["job"]),
    )
}

fn is_served(shard: &Value) -> bool {
    shard["ready"] == Value::Bool(true)
}

/// Returns a strip of the shards in the order of their coordinates. A part of several is well if all of them are.
fn strip(shards: &[Value]) -> String {
    if shards.len() == 1 {
        return String::new();
    }
    let parts = shards.len().min(PARTS);
    let of = |part: usize| part * shards.len() / parts..(part + 1) * shards.len() / parts;
    let are_well: Vec<bool> = (0..parts).map(|part| shards[of(part)].iter().all(is_served)).collect();
    let served = shards.iter().filter(|shard| is_served(shard)).count();
    gauge::strip(&format!("{served} of {} shards served", shards.len()), &are_well)
}

fn facts(job: &Value, shards: &[Value]) -> Vec<String> {
    let served = shards.iter().filter(|shard| is_served(shard)).count();
    let owners: BTreeSet<_> = shards.iter().filter_map(|shard| shard["owner"].as_str()).collect();
    let rows = || shards.iter().filter_map(|shard| shard["next_row"].as_u64());
    let made = match (rows().min(), rows().max()) {
        (Some(least), Some(most)) if least < most => format!("{} to {}", count(least), count(most)),
        (Some(row), _) => count(row),
        _ => "–".to_owned(),
    };
    let bytes = |name: &str| {
        let values = shards.iter().filter_map(|shard| shard[name].as_u64());
        bytes_cell(&Value::from(values.sum::<u64>()))
    };
    let slowest = shards.iter().filter_map(|shard| shard["row_seconds"].as_f64()).reduce(f64::max);
    vec![
        fact("served", &format!("{} of {}", count(served as u64), count(shards.len() as u64))),
        fact("workers", &count(owners.len() as u64)),
        fact("made to row", &made),
        fact("slowest row", &in_seconds(slowest)),
        fact("longest wait for rows", &in_seconds(overview::longest_wait(job))),
        fact("state", &bytes("state_bytes")),
        fact("rows kept", &bytes("ahead_bytes")),
    ]
}

fn line(shard: &Value) -> Vec<String> {
    let served = match shard["reason"].as_str() {
        Some(reason) => format!("{} {}", badge("no", Tone::Bad), escape_html(reason)),
        None if is_served(shard) => badge("yes", Tone::Good),
        None => badge("no", Tone::Bad),
    };
    vec![
        cell(&shard["shard"]),
        format!("{}–{}", cell(&shard["start"]), cell(&shard["end"])),
        cell(&shard["owner"]),
        served,
        cell(&shard["next_row"]),
        cell(&shard["epoch"]),
        bytes_cell(&shard["state_bytes"]),
        bytes_cell(&shard["ahead_bytes"]),
    ]
}
