//! Taking an anchor up: it is watched first, where another process may hold it.

use std::time::Duration;

use ledger::Draws;
use tracing::warn;

use super::{AnchorKeeper, Found, Held, Trouble, nonce};

impl AnchorKeeper {
    /// Takes the anchor up, unless another process renews it.
    pub async fn take_up(&mut self) -> Result<(), Trouble> {
        let found = self.watch().await?;
        let draws = Draws { place: nonce()?, opening: nonce()?, written: nonce()? };
        let ledger = self.ledger.clone();
        let lease_time = self.lease_time;
        let over = found.as_ref().map(|found| found.version.clone());
        let announced = self.on_ledger(move || {
            ledger.announcement(found.as_ref().map(|found| &found.anchor), draws, lease_time)
        });
        let announced = announced.await?;
        let version = match self.write(&announced, over.as_ref()).await? {
            Some(version) => version,
            None => match self.read().await? {
                Some(found) if found.anchor.is_same_write(&announced) => found.version,
                _ => return Err(Trouble::ForNow("another process has written it meanwhile".to_owned())),
            },
        };
        let ledger = self.ledger.clone();
        let noted = announced.clone();
        self.on_ledger(move || ledger.note_opening(&noted)).await?;
        self.held = Some(Held { anchor: announced, version, pending: None });
        self.renew().await
    }

    /// Returns the anchor once no other process can hold it: where one may, after a lease in which it was not written.
    async fn watch(&self) -> Result<Option<Found>, Trouble> {
        let mut found = self.read().await?;
        while let Some(lease) = self.time_to_watch(found.as_ref()).await? {
            let is_there = found.is_some();
            warn!(
                store = self.url,
                is_there,
                ?lease,
                "another process may hold the ledger's anchor: nothing is bound until it was not renewed for this time"
            );
            tokio::time::sleep(lease).await;
            let later = self.read().await?;
            let is_same = match (&found, &later) {
                (None, None) => true,
                (Some(one), Some(other)) => one.anchor.is_same_write(&other.anchor),
                _ => false,
            };
            if is_same {
                return Ok(later);
            }
            if later.as_ref().is_some_and(|later| self.ledger.may_be_held(&later.anchor)) {
                return Err(Trouble::OtherHolder);
            }
            found = later;
        }
        Ok(found)
    }

    /// Returns how long to watch an anchor; `None` where no other process can hold it. One that is gone may have been deleted
    /// under the process that holds it, which writes it again with its next renewal.
    async fn time_to_watch(&self, found: Option<&Found>) -> Result<Option<Duration>, Trouble> {
        let Some(found) = found else {
            let ledger = self.ledger.clone();
            let had_one = self.on_ledger(move || ledger.had_store_anchor()).await?;
            return Ok(had_one.then_some(self.lease_time));
        };
        let lease = found.anchor.lease().max(self.lease_time);
        Ok(self.ledger.may_be_held(&found.anchor).then_some(lease))
    }
}
