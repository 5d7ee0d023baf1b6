//! Whether the ledger of `rustle up` binds rows at all.

use std::time::{Duration, Instant};

use client::Client;
use serde_json::Value;

use crate::failure::Typed;

/// Problems with which a coordinator runs and binds nothing until a person decides.
const STOPPED: [&str; 3] = ["ledger_copied", "ledger_behind", "job_unknown_to_ledger"];

/// Longest wait for the workers to say what they know of the ledger.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Checks that the ledger is not known to be a copy or an old one, by its file or by what the workers have on their disks.
///
/// # Errors
/// It is: the problem says what was found, where the proof is and what to do.
pub async fn check_ledger(client: &Client, workers: u16) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = status(client).await?;
        stopped(&status)?;
        let here = status["workers"].as_array().map_or(0, Vec::len);
        if here >= usize::from(workers) || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Returns the coordinator's status.
pub async fn status(client: &Client) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&client.jobs().status().await?)?)
}

/// Returns the problem that stops the ledger as an error.
pub fn stopped(status: &Value) -> anyhow::Result<()> {
    let problems = status["problems"].as_array().into_iter().flatten();
    let mut stopping = problems.filter(|problem| STOPPED.iter().any(|kind| problem["kind"] == *kind));
    stopping.next().map_or(Ok(()), |problem| Err(Typed::of_problem(problem).into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ledger_that_binds_nothing_is_an_error_with_its_kind_and_its_remedy() {
        let problem = |kind: &str| {
            json!({ "problems": [
            { "kind": "no_worker", "what": "none", "next_step": "wait" },
            { "kind": kind, "what": "it is another file", "next_step": "rustle ledger adopt --data-dir DIR" },
        ] })
        };
        for kind in STOPPED {
            let error = stopped(&problem(kind)).unwrap_err();
            let text = crate::failure::printed(&error);
            assert!(
                text.starts_with(&format!("error: {kind}: it is another file; next: rustle ledger adopt")),
                "{text}"
            );
        }
        stopped(&problem("shards_not_served")).unwrap();
        stopped(&json!({})).unwrap();
    }
}
