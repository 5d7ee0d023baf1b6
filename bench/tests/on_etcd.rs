//! `bench coordinator` with its ledger in a file and in a real etcd, in one run.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod answered;

#[test]
fn both_ledgers_are_measured() {
    let found = answered::with_ledgers(&["redb", "etcd"], "1");
    assert_eq!(found[0]["target_p99_seconds"], 0.02);
    assert_eq!(found[1]["target_p99_seconds"], 0.1);
    let etcd = &found[1]["etcd"];
    assert!(etcd["syncs_per_second"].as_f64().unwrap() > 1.0, "bindings reach etcd's disk: {etcd}");
    assert!(etcd["resident_bytes"].as_u64().unwrap() > 1 << 20, "{etcd}");
}
