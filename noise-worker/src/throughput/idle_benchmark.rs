//! Measures the throughput of a worker without shards from time to time. The measurement from its start, or from when it was
//! relieved, may be from a bad moment; and it has no rows to measure itself by.

use std::{sync::Arc, time::Duration};

use super::calibrate;
use crate::leases::Leases;

/// Between two measurements: long against one of them, so that an idle worker stays idle.
const INTERVAL: Duration = Duration::from_secs(5);
/// The length of a measurement: longer than the periods in which operating systems schedule shares of a processor.
const DURATION: Duration = Duration::from_millis(150);

/// Measures whenever the worker is idle, until it is dropped.
pub async fn run_while_idle(leases: Arc<Leases>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if leases.is_idle() {
            measure(&leases).await;
        }
    }
}

/// Measures once, unless a shard is granted meanwhile.
pub async fn measure(leases: &Leases) {
    let limits = &leases.limits;
    match calibrate(&limits.pool, limits.backend, DURATION).await {
        // A shard may have been granted meanwhile: its rows measure better.
        Ok(measured) if leases.is_idle() => limits.throughput.set(measured.mean),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not measure how fast this worker is"),
    }
}
