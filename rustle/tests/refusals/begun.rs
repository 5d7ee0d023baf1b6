//! Commands that begin something on disk, and refuse what they are given: a key, a plan, an address. They leave nothing behind.

use std::fs;

use super::bench::Bench;
use super::{Case, case, check};

const UP: &str = "up --plan plan.toml --data-dir new --key-file";
const WORKER: &str = "worker --state-dir new --key-file";
const COORDINATOR: &str = "coordinator --data-dir new";

/// A key's file, and what its refusal says.
const KEYS: [(&str, &[&str]); 7] = [
    ("missing", &["missing", "No such file"]),
    ("short", &["short", "16 bytes", "32"]),
    ("long", &["long", "allowed: exactly 32"]),
    ("empty", &["empty", "allowed: exactly 32"]),
    ("weak", &["weak", "12 different bytes", "rustle key new"]),
    ("open", &["open", "0644", "0400"]),
    ("folder", &["folder", "not a regular file"]),
];

/// A bench with the files of [`KEYS`].
fn keys() -> Bench {
    let bench = Bench::new();
    for (name, bytes) in [("short", 16), ("long", 33), ("empty", 0)] {
        let bytes: Vec<u8> = (0..bytes).collect();
        fs::write(bench.path(name), bytes).unwrap();
        bench.mode(name, 0o400);
    }
    fs::write(bench.path("weak"), [b'a'; 32]).unwrap();
    bench.mode("weak", 0o400);
    fs::copy(bench.path("key"), bench.path("open")).unwrap();
    bench.mode("open", 0o644);
    fs::create_dir(bench.path("folder")).unwrap();
    bench
}

#[test]
fn keys_that_cannot_be_used() {
    let bench = keys();
    for start in [
        &format!("{UP} NAME --dimension 1000"),
        &format!("{WORKER} NAME"),
        "noise --plan plan.toml --steps 0..1 --dimension 1000 --out new --key-file NAME",
        "batches --scheme poisson --sampling-probability 0.1 --population 10 --iterations 2 --out new --seed-file NAME",
        "job create --plan plan.toml --dimension 1000 --key-file NAME",
    ] {
        let cases: Vec<Case> =
            KEYS.iter().map(|(name, parts)| case(&start.replace("NAME", name), "", 1, parts)).collect();
        check(&bench, &cases);
    }
}

#[test]
fn other_inputs_of_commands_that_begin_something() {
    let bench = Bench::new();
    bench.json("certs new --out there");
    fs::write(bench.path("broken.toml"), "plan").unwrap();
    check(
        &bench,
        &[
            case(UP, "key", 2, &["--dimension is missing"]),
            case(UP, "key --dimension 0", 2, &["--dimension is 0"]),
            case("up --data-dir new --plan broken.toml --dimension 8", "", 1, &["broken.toml"]),
            case(UP, "key --dimension 8 --listen 0.0.0.0:0", 2, &["--listen is 0.0.0.0:0"]),
            case(UP, "key --dimension 8 --metrics-listen here", 2, &["--metrics-listen is here"]),
            case(WORKER, "key --coordinator here", 2, &["--coordinator", "here", "http://"]),
            case(WORKER, "key --token-file none", 1, &["none"]),
            case(WORKER, "key --tls-dir none", 1, &["none"]),
            case(COORDINATOR, "", 1, &["new/ledger.redb", "rustle ledger init"]),
            case(COORDINATOR, "--tls-dir none", 1, &["none"]),
            case(COORDINATOR, "--tokens-file none", 1, &["none"]),
            case(COORDINATOR, "--config none", 1, &["settings file none"]),
            case("ledger init --file new/..", "", 1, &["new/.."]),
            case("certs issue --authority there --out new --role", "worker/a~b", 2, &["worker/a~b"]),
        ],
    );
}

#[test]
fn settings_of_processes_are_arguments() {
    let bench = Bench::new();
    fs::write(bench.path("wrong.toml"), "lease_ttl = \"soon\"").unwrap();
    for start in ["config show coordinator --data-dir new", COORDINATOR] {
        check(
            &bench,
            &[
                case(start, "--lease-ttl -1s", 2, &["lease_ttl", "-1s", "flag --lease-ttl"]),
                case(start, "--lease-ttl 1ms", 2, &["lease_ttl", "three heartbeats"]),
                case(start, "--keep-checkpoints 0", 2, &["keep_checkpoints", "1 or more"]),
                case(start, "--report-delta 2", 2, &["report_delta", "between 0 and 1"]),
                case(start, "--max-job-rows many", 2, &["max_job_rows", "many"]),
                case(start, "--store ftp://x", 2, &["ftp://x"]),
                case(start, "--listen here", 2, &["listen", "here"]),
                case(start, "--tls-ca a", 2, &["--tls-ca"]),
                case(start, "--config none", 1, &["settings file none"]),
                case(start, "--config wrong.toml", 1, &["lease_ttl", "soon", "wrong.toml"]),
            ],
        );
    }
    for start in ["config show worker", "worker --key-file key --state-dir new"] {
        check(&bench, &[case(start, "--tls-ca a", 2, &["--tls-ca"])]);
    }
}
