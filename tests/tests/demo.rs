//! `rustle demo`, the first command of the README: a cluster, private training, a killed worker, every bit compared.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::process::Command;

use tests::program;

#[test]
fn the_demo_ends_with_every_bit_as_the_oracle_has_it() {
    let output = Command::new(program()).args(["demo", "--seeds", "1", "--format", "json"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["bits_agree"], &report["values_differing"]), (&true.into(), &0.into()), "{report}");
    assert!(report["values_compared"].as_u64().unwrap() > 1_000_000, "{report}");
    assert_eq!(report["rows"], "int32", "{report}");
    assert!(report["values_exact"].as_u64().unwrap() > 10_000, "{report}");
    assert!(report["worker_killed"].as_str().unwrap().contains("SIGKILL"), "{report}");
}
