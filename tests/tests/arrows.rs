//! Tests that the crates depend on each other as ARCHITECTURE.md draws it, by `cargo metadata`.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crate → what it may depend on, of ours. `rustle`, `bench`, `reproduce` and the five that test may depend on all.
const ARROWS: [(&str, &[&str]); 22] = [
    ("rustle-strategy", &[]),
    ("rustle-accounting", &["rustle-strategy", "rustle-batches"]),
    ("planner", &["rustle-strategy", "rustle-accounting", "rustle-plan"]),
    ("rustle-plan", &["rustle-strategy"]),
    ("noise-kernel", &["rustle-plan"]),
    ("rustle-proto", &[]),
    ("durable-io", &[]),
    ("checkpoint-store", &["rustle-proto", "durable-io"]),
    ("ledger", &["rustle-proto", "durable-io"]),
    ("release", &["rustle-proto", "rustle-plan", "ledger", "rustle-accounting", "report"]),
    ("source-rules", &[]),
    ("rustle-node", &["rustle-proto"]),
    ("rustle-shared-memory", &["rustle-proto"]),
    ("rustle-client", &["rustle-proto", "rustle-node", "rustle-shared-memory"]),
    (
        "noise-worker",
        &[
            "noise-kernel",
            "rustle-plan",
            "rustle-proto",
            "checkpoint-store",
            "durable-io",
            "rustle-node",
            "rustle-shared-memory",
        ],
    ),
    (
        "rustle-mpi",
        &[
            "noise-worker",
            "noise-kernel",
            "rustle-plan",
            "rustle-proto",
            "ledger",
            "release",
            "checkpoint-store",
            "durable-io",
            "rustle-node",
        ],
    ),
    (
        "coordinator",
        &[
            "rustle-proto",
            "rustle-plan",
            "ledger",
            "release",
            "checkpoint-store",
            "durable-io",
            "rustle-node",
            "rustle-client",
            "rustle-accounting",
        ],
    ),
    ("plot", &[]),
    ("rustle-batches", &[]),
    ("dice", &[]),
    ("report", &["rustle-strategy", "rustle-accounting", "rustle-plan", "plot"]),
    (
        "rustle-python",
        &[
            "rustle-accounting",
            "rustle-batches",
            "rustle-client",
            "ledger",
            "rustle-node",
            "noise-kernel",
            "rustle-plan",
            "planner",
            "rustle-proto",
            "release",
            "report",
            "rustle-strategy",
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
