//! `bench coordinator` on a handful of workers and jobs.

use std::process::Command;

use serde_json::Value;

const WORKERS: u64 = 40;
const JOBS: u64 = 5;
const SHARDS: u64 = 8;

/// What it found with its ledger in each of these stores: everybody was served, and everything was counted.
pub fn with_ledgers(stores: &[&str], seconds: &str) -> Vec<Value> {
    let sizes = [("--workers", WORKERS), ("--jobs", JOBS), ("--shards", SHARDS), ("--connections", 4)];
    let rates = ["--heartbeat", "0.2", "--step", "0.2", "--seconds", seconds, "--format", "json"];
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg("coordinator")
        .args(sizes.iter().flat_map(|(flag, number)| [flag.to_string(), number.to_string()]))
        .args(rates)
        .args(stores.iter().flat_map(|store| ["--ledger", store]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["workers"], WORKERS);
    assert_eq!(found["jobs"], JOBS);
    assert_eq!(found["shards"], JOBS * SHARDS);
    let ledgers = found["ledgers"].as_array().unwrap().clone();
    let names: Vec<_> = ledgers.iter().map(|it| it["ledger"].as_str().unwrap()).collect();
    assert_eq!(names, stores);
    ledgers.iter().for_each(check);
    ledgers
}

fn check(found: &Value) {
    for calls in ["heartbeats", "bindings"] {
        let calls = &found[calls];
        assert_eq!(calls["failed"], 0, "{calls}");
        assert!(calls["answered"].as_u64().unwrap() > 0, "{calls}");
        let due = &calls["since_due"];
        let called = &calls["since_called"];
        for quantile in ["p50", "p99", "max"] {
            let due = due[quantile].as_f64().unwrap();
            let called = called[quantile].as_f64().unwrap();
            assert!(0.0 < called && called <= due, "{quantile}: {calls}");
        }
    }
    assert!(found["memory"]["peak"].as_u64().unwrap() > found["memory"]["started"].as_u64().unwrap() / 2);
    assert!(found["ledger_bytes"].as_u64().unwrap() > 0 && found["cpu_share"].as_f64().unwrap() >= 0.0);
}
