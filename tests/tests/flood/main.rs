//! Tests the effect of malicious callers on an honest one. `make flood COUNT=1000` runs it at full size and prints one
//! line of figures per attack; a plain test run is a slice of it.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

mod attacks;
mod claims;
mod connections;
mod frames;
mod honest;
mod http2;
mod limits;
mod processes;
mod tenant;

use client::Connections;
use node::{auth::Role, tls::ExpectedServer};
use plan::Mechanism;
use rustle::cluster::ClusterOptions;
use tests::{TestCluster, WORKER, flags, job, small_plan, start_with};

const DIMENSION: u64 = 100_000;
/// More rows than the honest job gets to.
const ITERATIONS: u64 = 100_000_000;

/// A cluster over TLS with one worker and the job that is to go on.
fn secured(more: &[&str]) -> TestCluster {
    secured_by(|options| {
        options.coordinator_flags.extend(flags(more));
        options.worker_flags.extend(flags(more));
    })
}

fn secured_by(change: impl FnOnce(&mut ClusterOptions)) -> TestCluster {
    let cluster = start_with(1, |options| {
        options.tls = true;
        change(options);
    });
    let plan = small_plan(Mechanism::Identity, ITERATIONS);
    cluster.create(&job("honest"), &plan, DIMENSION, 1).unwrap();
    cluster.wait_ready(&job("honest"));
    cluster
}

/// Whom an attack is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Coordinator,
    Worker,
}

impl Process {
    fn expected(self) -> ExpectedServer {
        match self {
            Self::Coordinator => ExpectedServer::Coordinator,
            Self::Worker => WORKER,
        }
    }
}

fn url(cluster: &TestCluster, of: Process) -> String {
    match of {
        Process::Coordinator => cluster.cluster.url(),
        Process::Worker => cluster.cluster.worker(0).unwrap().grpc().to_owned(),
    }
}

fn address(cluster: &TestCluster, of: Process) -> String {
    url(cluster, of).trim_start_matches("https://").to_owned()
}

/// Returns a path of the process that the caller may call, although there is no such job.
fn path(of: Process) -> &'static str {
    match of {
        Process::Coordinator => "/rustle.v1.Jobs/GetJob",
        Process::Worker => "/rustle.v1.Shards/FetchSlice",
    }
}

fn flooder(cluster: &TestCluster) -> Connections {
    Connections::dialing(cluster.cluster.dialing(&Role::Job("flooder".into())).unwrap())
}
