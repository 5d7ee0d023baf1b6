//! Tests the ledger in a real etcd: coordinators that stand by, leaders and etcd members that are killed, stopped or
//! cut off, and starts on the wrong ledger or with wrong credentials. Run it with `make test-etcd`.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

mod cluster;
mod compact;
mod leaders;
mod starts;
mod training;

use std::time::Duration;

/// Coordinates of every job.
const DIMENSION: u64 = 2_000;
/// Rows of every training job.
const ROWS: u64 = 40;
/// The leader's lease.
const LEASE: Duration = Duration::from_secs(3);
const TIMEOUT: Duration = Duration::from_secs(60);
