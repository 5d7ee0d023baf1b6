//! Ledger calls block: they run on tokio's blocking threads, and one that leaves the ledger unusable ends the process.

use std::sync::{Arc, Mutex, PoisonError};

use ledger::{Ledger, LedgerError};
use proto::{Result, ServiceError};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Ends the process with a reason: when in doubt, stop.
#[derive(Clone, Debug)]
pub struct Stop {
    token: CancellationToken,
    reason: Arc<Mutex<Option<String>>>,
}

impl Stop {
    pub fn new(token: CancellationToken) -> Self {
        Self { token, reason: Arc::default() }
    }

    pub fn because(&self, reason: String) {
        error!(%reason, "the coordinator stops");
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.token.cancel();
    }

    pub fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Runs one call. It goes on to its end, also where the caller has left by then; a store that failed ends the process
/// in that case too, for nobody may ask again.
pub async fn with_ledger<T: Send + 'static>(
    ledger: &Ledger,
    stop: &Stop,
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
