//! `bench coordinator` on a handful of workers and jobs: everybody is served, and everything is counted.

use std::process::Command;

use serde_json::Value;

#[test]
fn everybody_is_answered_and_counted() {
    let arguments = ["coordinator", "--workers", "40", "--jobs", "5", "--shards", "8", "--format", "json"];
    let rates = ["--heartbeat", "0.2", "--step", "0.2", "--seconds", "2", "--connections", "4"];
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(arguments).args(rates).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["workers"], &found["jobs"], &found["shards"]), (&40.into(), &5.into(), &40.into()));
    for calls in ["heartbeats", "bindings"] {
        let calls = &found[calls];
        assert_eq!(calls["failed"], 0, "{calls}");
        assert!(calls["answered"].as_u64().unwrap() > 0, "{calls}");
        let (due, called) = (&calls["since_due"], &calls["since_called"]);
        for quantile in ["p50", "p99", "max"] {
            let (due, called) = (due[quantile].as_f64().unwrap(), called[quantile].as_f64().unwrap());
            assert!(0.0 < called && called <= due, "{quantile}: {calls}");
        }
    }
    assert!(found["memory"]["peak"].as_u64().unwrap() > found["memory"]["started"].as_u64().unwrap() / 2);
    assert!(found["ledger_bytes"].as_u64().unwrap() > 0 && found["cpu_share"].as_f64().unwrap() >= 0.0);
}
