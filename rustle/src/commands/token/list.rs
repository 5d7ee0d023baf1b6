//! `rustle token list`: what a tokens file grants. It holds digests alone, and no token.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use node::auth::{TokenEntry, Tokens};
use node::process::timestamp::rfc3339;
use serde_json::{Value, json};

use crate::output::{self, Format};
use crate::streams;

/// Digits of a digest that a table shows.
const SHOWN_DIGITS: usize = 12;

#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// File of token digests: the coordinator's --tokens-file
    #[arg(long, value_name = "FILE")]
    tokens_file: PathBuf,
}

impl ListArgs {
    /// Prints the entries of the file. Error: a coordinator would refuse the file.
    pub fn run(&self, format: Format) -> anyhow::Result<()> {
        Tokens::load(&self.tokens_file)?;
        let named = || format!("tokens file {}", self.tokens_file.display());
        let text = std::fs::read_to_string(&self.tokens_file).with_context(named)?;
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let entries: Vec<TokenEntry> =
            lines.map(serde_json::from_str).collect::<Result<_, _>>().with_context(named)?;
        let now = SystemTime::now();
        let shown: Vec<_> = entries.iter().map(|entry| shown(entry, now)).collect();
        match format {
            Format::Json => streams::line(json!({ "tokens": shown })),
            Format::Table => {
                let mut table =
                    output::table(&["sha256", "role", "of", "ends", "ranges", "tenant", "person"]);
                for token in &shown {
                    let text =
                        |name: &str, otherwise: &str| token[name].as_str().unwrap_or(otherwise).to_owned();
                    let ends = if token["expired"] == true {
                        format!("ended {}", text("ends", "-"))
                    } else {
                        text("ends", "never")
                    };
                    let ranges = if token["ranges"].is_null() {
                        "all".to_owned()
                    } else {
                        token["ranges"].to_string()
                    };
                    let digest = text("sha256", "-");
                    let digest = format!("{}…", &digest[..digest.len().min(SHOWN_DIGITS)]);
                    table.add_row([
                        digest,
                        text("role", "-"),
                        text("name", "all"),
                        ends,
                        ranges,
                        text("tenant", "-"),
                        text("person", "-"),
                    ]);
                }
                streams::line(table)
            }
        }
    }
}

fn shown(entry: &TokenEntry, now: SystemTime) -> Value {
    let ends = entry.expires.and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    json!({
        "sha256": entry.sha256,
        "role": entry.role.name(),
        "name": entry.name,
        "ends": ends.map(rfc3339),
        "expired": ends.is_some_and(|ends| now >= ends),
        "ranges": entry.ranges,
        "tenant": entry.tenant,
        "person": entry.person,
    })
}

#[cfg(test)]
mod tests {
    use node::auth::CallerRole;

    use super::*;

    #[test]
    fn a_token_that_has_ended_is_said_to() {
        let entry = |expires| TokenEntry {
            sha256: "ab".repeat(32),
            role: CallerRole::Operator,
            name: None,
            expires,
            ranges: None,
            tenant: None,
            person: None,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_790_000_000);
        assert_eq!(shown(&entry(Some(1_790_000_000)), now)["expired"], true);
        let lives = shown(&entry(Some(1_790_000_001)), now);
        assert_eq!((&lives["expired"], &lives["ends"]), (&json!(false), &json!("2026-09-21T14:13:21Z")));
        assert_eq!(shown(&entry(None), now)["ends"], Value::Null);
    }
}
