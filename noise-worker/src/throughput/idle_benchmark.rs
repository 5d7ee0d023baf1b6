//! A worker that holds nothing measures itself now and then. What it measured when it started, or when it was relieved,
//! may be of a bad hour; and rows, which it would measure itself by, it gets none to make.

use std::{sync::Arc, time::Duration};

use crate::{leases::Leases, meter::calibrate};

const EVERY: Duration = Duration::from_secs(5);
/// Longer than the periods in which operating systems hand out shares of a processor.
const FOR: Duration = Duration::from_millis(150);

/// Runs until it is dropped.
pub async fn keep_measured(leases: Arc<Leases>) {
    loop {
        tokio::time::sleep(EVERY).await;
        if leases.is_idle() {
            measure(&leases).await;
        }
    }
}

pub async fn measure(leases: &Leases) {
    let limits = &leases.limits;
    match calibrate(&limits.pool, limits.backend, FOR).await {
        // Rows may have come meanwhile: they tell more.
        Ok(measured) if leases.is_idle() => limits.meter.set(measured.mean),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not measure how fast this worker is"),
    }
}
