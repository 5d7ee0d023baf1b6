//! The ledger's anchor in a checkpoint store elsewhere: taken up before anything is bound, renewed while this coordinator runs,
//! and given up at its end. Of two coordinators on two copies of one ledger at most one has it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use checkpoint_store::{AnchorVersion, CheckpointStore};
use ledger::{Ledger, LedgerError, StoreAnchor, StoreLease};
use node::process::{blocking, rng};
use proto::Nonce;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use beginning::AnchorStore;

/// The lease of an anchor, in leases of workers: a store may be silent for some renewals. One is due after each of these parts.
const LEASE: u32 = 5;
/// The part of a lease, one in so many, after which a renewal that failed is tried again.
const RETRY: u32 = 20;
/// The part of a lease, one in so many, that is left unused: clocks differ in pace.
const MARGIN: u32 = 5;
/// The time that a coordinator which ends gives the store to hear of it.
const PARTING: Duration = Duration::from_secs(2);

/// Why an anchor is not held.
#[derive(Debug)]
pub enum Trouble {
    /// The ledger was found to be a copy, and is stopped.
    Copied,
    /// Another process renews it, of a ledger that does not differ from this one so far.
    OtherHolder,
    /// It is gone, and the lease is over: another process may have held it meanwhile.
    Gone,
    /// The store, or another process, did not let it happen this time.
    ForNow(String),
}

/// Keeps the anchor of one open ledger.
pub struct AnchorKeeper {
    ledger: Ledger,
    store: CheckpointStore,
    /// The store's URL.
    url: String,
    id: Nonce,
    lease: Arc<StoreLease>,
    lease_time: Duration,
    held: Option<Held>,
}

/// The anchor as this process wrote it.
#[derive(Clone)]
struct Held {
    anchor: StoreAnchor,
    version: AnchorVersion,
    /// The next write, whose outcome is open, and when it was first tried.
    pending: Option<(StoreAnchor, Instant)>,
}

/// An anchor in the store.
struct Found {
    anchor: StoreAnchor,
    version: AnchorVersion,
}

impl AnchorKeeper {
    /// Creates a keeper that holds nothing yet: the ledger binds nothing from now on.
    pub fn new(
        ledger: Ledger,
        store: CheckpointStore,
        url: String,
        lease_time: Duration,
    ) -> Result<Self, LedgerError> {
        let lease = ledger.require_lease(&url, now);
        let id = ledger.id()?;
        Ok(Self { ledger, store, url, id, lease, lease_time, held: None })
    }

    /// Renews the anchor until shutdown, which is for the time when no more call binds, or until the ledger is found to be a copy.
    /// Then gives it up.
    pub async fn keep(mut self, shutdown: CancellationToken) {
        let mut pause = self.lease_time / LEASE;
        while self.ledger.copied().is_none() {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            let is_renewed = self.attempt(&shutdown).await.is_ok();
            pause = self.lease_time / if is_renewed { LEASE } else { RETRY };
        }
        self.lease.end();
        if self.ledger.copied().is_none() {
            let _ = tokio::time::timeout(PARTING, self.part()).await;
        }
    }

    /// Takes up or renews the anchor, once, unless `shutdown` comes before.
    async fn attempt(&mut self, shutdown: &CancellationToken) -> Result<(), Trouble> {
        let step = async {
            match self.held {
                Some(_) => self.renew().await,
                None => self.take_up().await,
            }
        };
        let done = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            done = step => done,
        };
        let reason = match &done {
            Ok(()) | Err(Trouble::Copied) => return done,
            Err(Trouble::OtherHolder) => {
                "another process renews it, and so has this ledger or a copy of it open"
            }
            Err(Trouble::Gone) => "it is gone, and another process may have held it since the lease ended",
            Err(Trouble::ForNow(reason)) => reason.as_str(),
        };
        if self.lease.trouble().is_none_or(|noted| noted.reason != reason) {
            warn!(store = self.url, reason, "the ledger's anchor in the checkpoint store was not renewed");
        }
        self.lease.note(reason.to_owned());
        done
    }

    /// Renews the anchor that this process holds. A write whose outcome is open, also by the end of this call half-way, is repeated
    /// as it was.
    pub async fn renew(&mut self) -> Result<(), Trouble> {
        let Some(mut held) = self.held.clone() else { return Ok(()) };
        let now = now();
        let pending = match held.pending.clone() {
            Some(pending) => pending,
            None => (self.next(&held.anchor).await?, now),
        };
        self.held = Some(Held { pending: Some(pending.clone()), ..held.clone() });
        let renewed = self.renew_held(&mut held, pending, now).await;
        // One that is gone is taken up anew, which watches it first.
        self.held = Some(held).filter(|_| !matches!(renewed, Err(Trouble::Gone)));
        renewed
    }

    async fn renew_held(
        &self,
        held: &mut Held,
        pending: (StoreAnchor, Instant),
        now: Instant,
    ) -> Result<(), Trouble> {
        held.pending = Some(pending.clone());
        let anchor = pending.0;
        let first_tried = pending.1;
        let written = match self.write(&anchor, Some(&held.version)).await? {
            Some(version) => Some((version, now)),
            None => match self.read().await? {
                // An earlier attempt got through: the lease counts from then, since others watch from then on.
                Some(found) if found.anchor.is_same_write(&anchor) => Some((found.version, first_tried)),
                Some(found) if found.anchor.is_same_write(&held.anchor) => {
                    held.version = found.version;
                    None
                }
                Some(_) => {
                    let found = "another process has taken up its anchor in the checkpoint store";
                    return Err(self.copied(found));
                }
                None if !self.lease.is_held() => return Err(Trouble::Gone),
                // A store that is emptied has lost a cache, and proves nothing.
                None => self.create_again(&anchor).await?.map(|version| (version, now)),
            },
        };
        let Some((version, since)) = written else {
            return Err(Trouble::ForNow("another process has written it meanwhile".to_owned()));
        };
        *held = Held { anchor, version, pending: None };
        self.lease.prolong(since + self.lease_time - self.lease_time / MARGIN);
        Ok(())
    }

    /// Writes the anchor where it is gone. Where another process was first, that one may have taken a copy up.
    async fn create_again(&self, anchor: &StoreAnchor) -> Result<Option<AnchorVersion>, Trouble> {
        let created = self.write(anchor, None).await?;
        if created.is_none() {
            self.lease.end();
        }
        Ok(created)
    }

    async fn next(&self, anchor: &StoreAnchor) -> Result<StoreAnchor, Trouble> {
        let ledger = self.ledger.clone();
        let anchor = anchor.clone();
        let drawn = nonce()?;
        self.on_ledger(move || ledger.renewal(&anchor, drawn)).await
    }

    /// Gives the anchor up. Where that fails, the next process waits for the time of a lease.
    async fn part(&mut self) -> Result<(), Trouble> {
        // Over what was there before a write whose outcome is open: only one of the two gets through.
        let Some(held) = self.held.take() else { return Ok(()) };
        let ledger = self.ledger.clone();
        let drawn = nonce()?;
        let last = self.on_ledger(move || Ok((ledger.parting(&held.anchor, drawn)?, held.version)));
        let last = last.await?;
        self.write(&last.0, Some(&last.1)).await.map(drop)
    }

    /// Reads the anchor, and compares the ledger with it.
    async fn read(&self) -> Result<Option<Found>, Trouble> {
        let read = tokio::time::timeout(self.patience(), self.store.read_anchor(&self.id)).await;
        let Some(stored) = read.map_err(|_| self.silent())?.map_err(for_now)? else { return Ok(None) };
        // Bytes that were damaged in the store prove nothing.
        let anchor = StoreAnchor::from_bytes(&stored.bytes)
            .map_err(|error| Trouble::ForNow(format!("what is there is no anchor: {error}")))?;
        let ledger = self.ledger.clone();
        let compared = anchor.clone();
        let witness = self.url.clone();
        if !self.on_ledger(move || ledger.agrees_with(&compared, &witness)).await? {
            return Err(Trouble::Copied);
        }
        Ok(Some(Found { anchor, version: stored.version }))
    }

    async fn write(
        &self,
        anchor: &StoreAnchor,
        over: Option<&AnchorVersion>,
    ) -> Result<Option<AnchorVersion>, Trouble> {
        let bytes = anchor.to_bytes().map_err(for_now)?;
        let write = self.store.write_anchor(&self.id, bytes, over);
        tokio::time::timeout(self.patience(), write).await.map_err(|_| self.silent())?.map_err(for_now)
    }

    /// Returns how long one answer of the store is waited for: one that never comes leaves time to try again within the lease.
    fn patience(&self) -> Duration {
        self.lease_time / LEASE
    }

    fn silent(&self) -> Trouble {
        Trouble::ForNow(format!("it did not answer within {:?}", self.patience()))
    }

    fn copied(&self, found: &str) -> Trouble {
        self.ledger.stop_as_copy(found.to_owned(), self.url.clone());
        Trouble::Copied
    }

    async fn on_ledger<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, Trouble> {
        blocking::run(call).await.map_err(for_now)?.map_err(for_now)
    }
}

/// Reads the clock of tokio, which is the system's but in tests and simulations, whose time is virtual.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn for_now(error: impl ToString) -> Trouble {
    Trouble::ForNow(error.to_string())
}

fn nonce() -> Result<Nonce, Trouble> {
    rng::nonce().map_err(for_now)
}

mod beginning;
mod taking_up;

#[cfg(test)]
mod tests;
