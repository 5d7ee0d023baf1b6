//! Tests that the crates depend on each other as ARCHITECTURE.md draws it, by `cargo metadata`.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crate → what it may depend on, of ours. `rustle`, `bench`, `reproduce` and the five that test may depend on all.
const ARROWS: [(&str, &[&str]); 22] = [
    ("strategy", &[]),
    ("accounting", &["strategy", "batches"]),
    ("planner", &["strategy", "accounting", "plan"]),
    ("plan", &["strategy"]),
    ("noise-kernel", &["plan"]),
    ("proto", &[]),
    ("durable-io", &[]),
    ("checkpoint-store", &["proto", "durable-io"]),
    ("ledger", &["proto", "durable-io"]),
    ("release", &["proto", "plan", "ledger", "accounting", "report"]),
    ("source-rules", &[]),
    ("node", &["proto"]),
    ("shared-memory", &["proto"]),
    ("client", &["proto", "node", "shared-memory"]),
    (
        "noise-worker",
        &["noise-kernel", "plan", "proto", "checkpoint-store", "durable-io", "node", "shared-memory"],
    ),
    (
        "rustle-mpi",
        &[
            "noise-worker",
            "noise-kernel",
            "plan",
            "proto",
            "ledger",
            "release",
            "checkpoint-store",
            "durable-io",
            "node",
        ],
    ),
    (
        "coordinator",
        &[
            "proto",
            "plan",
            "ledger",
            "release",
            "checkpoint-store",
            "durable-io",
            "node",
            "client",
            "accounting",
        ],
    ),
    ("plot", &[]),
    ("batches", &[]),
    ("dice", &[]),
    ("report", &["strategy", "accounting", "plan", "plot"]),
    (
        "rustle-python",
        &[
            "accounting",
            "batches",
            "client",
            "ledger",
            "node",
            "noise-kernel",
            "plan",
            "planner",
            "proto",
            "release",
            "report",
            "strategy",
        ],
    ),
];

const FREE: [&str; 8] = ["rustle", "bench", "reproduce", "tests", "simulation", "chaos", "schedules", "fuzz"];

#[test]
fn every_arrow_is_allowed() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(ours.len(), ARROWS.len() + FREE.len(), "a crate is missing from the table: {ours:?}");
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((_, allowed)) = ARROWS.iter().find(|(crate_name, _)| *crate_name == name) else {
            assert!(FREE.contains(&name), "{name} is in no table");
            continue;
        };
        let normal =
            package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        for dependency in normal.map(|dependency| dependency.name.as_str()).filter(|name| ours.contains(name))
        {
            assert!(
                allowed.contains(&dependency),
                "{name} must not depend on {dependency}; allowed: {allowed:?}"
            );
        }
    }
}
