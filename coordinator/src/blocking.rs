//! Calls of the ledger, which block: they run on blocking threads, and one that leaves the ledger unusable ends the
//! process.

use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Ledger, LedgerError};
use proto::{Result, ServiceError};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A latch that ends the process with a reason: when in doubt, stop.
#[derive(Clone, Debug)]
pub struct FatalStop {
    token: CancellationToken,
    reason: Arc<Mutex<Option<String>>>,
}

impl FatalStop {
    /// Creates a latch that cancels `token`.
    pub fn new(token: CancellationToken) -> Self {
        Self { token, reason: Arc::default() }
    }

    /// Stops the process. Only the first reason is kept.
    pub fn because(&self, reason: String) {
        error!(%reason, "the coordinator stops");
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.token.cancel();
    }

    /// Returns the reason, if the process stops because of one.
    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs one call, to completion even if the caller disconnects. A store that failed ends the process in that case too,
/// since no later call may come to find it.
pub async fn with_ledger<T: Send + 'static>(
    ledger: &Ledger,
    stop: &FatalStop,
    call: impl FnOnce(&Ledger) -> Result<T, LedgerError> + Send + 'static,
) -> Result<T> {
    let ledger = ledger.clone();
    let stop = stop.clone();
    let outcome = node::process::blocking::run(move || {
        call(&ledger).map_err(ServiceError::from).inspect_err(|error| {
            if let ServiceError::Store { reason } = error {
                stop.because(reason.clone());
            }
        })
    });
    outcome.await.map_err(ServiceError::internal)?
}
