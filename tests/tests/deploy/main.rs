//! Tests the files of `deploy/` with a real Prometheus, a real Chromium and a cluster under load. `make test-deploy`
//! runs it; tests/setup/deploy.sh installs the two programs.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod alerts;
mod containers;
mod dashboards;
mod exposition;
mod load;
mod metrics_page;
mod page;
mod prometheus;
mod resources;
#[cfg(feature = "etcd")]
mod standby;
mod systemd;
mod watched;

use std::path::PathBuf;
use std::process::Command;

/// A path from the repository's root.
fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Standard output of a program that must succeed.
#[track_caller]
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program} ({error}): run tests/setup/deploy.sh first"));
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}
