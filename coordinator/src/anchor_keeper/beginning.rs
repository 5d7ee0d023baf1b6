//! Where an anchor is kept, and the wait for it at the start of a coordinator.

use std::time::Duration;

use checkpoint_store::CheckpointStore;
use ledger::{Ledger, LedgerError};
use node::process::blocking;
use node::process::readiness::Readiness;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{AnchorKeeper, LEASE, Trouble};
use crate::anchor_place::store_elsewhere;
use crate::config::Settings;

/// A checkpoint store that keeps ledgers' anchors.
pub struct AnchorStore {
    /// The open store.
    pub store: CheckpointStore,
    /// The name of the store in logs and errors.
    pub url: String,
}

impl AnchorKeeper {
    /// Takes the ledger's anchor up, where its checkpoint store is outside of the data folder. Afterwards the ledger is stopped if
    /// it is a copy, and binds nothing as long as the store does not answer. Waits for the time of a lease where another process
    /// may hold the anchor, and for as long as one renews it; `readiness` says so.
    ///
    /// # Errors
    /// The store's URL is wrong, or the ledger fails.
    pub async fn begin(
        ledger: &Ledger,
        settings: &Settings,
        readiness: &Readiness,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        if ledger.copied().is_some() {
            return Ok(None);
        }
        let url = match store_elsewhere(settings) {
            Ok(url) => url,
            Err(reason) => {
                info!(reason, "no anchor of the ledger is kept in a checkpoint store");
                return Ok(None);
            }
        };
        info!(store = url, "the ledger's anchor is kept in the checkpoint store too");
        let plain_http = settings.s3_plain_http;
        let opening = url.clone();
        let store = blocking::run(move || CheckpointStore::open_over(&opening, plain_http)).await??;
        let store = AnchorStore { store, url };
        Ok(Some(Self::begin_in(store, ledger, settings.lease_ttl, readiness, shutdown).await?))
    }

    /// The same in a store that is open; `lease_ttl` is that of workers.
    pub async fn begin_in(
        AnchorStore { store, url }: AnchorStore,
        ledger: &Ledger,
        lease_ttl: Duration,
        readiness: &Readiness,
        shutdown: &CancellationToken,
    ) -> Result<Self, LedgerError> {
        let mut keeper = Self::new(ledger.clone(), store, url, lease_ttl * LEASE)?;
        readiness
            .set_not_ready(format!("waiting whether another process renews the anchor in {}", keeper.url));
        while let Err(Trouble::OtherHolder) = keeper.attempt(shutdown).await {
            readiness
                .set_not_ready(format!("waiting while another process renews the anchor in {}", keeper.url));
        }
        Ok(keeper)
    }
}
