//! The leader's lease: a key in etcd, and how long this process may count on it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use etcd_client::Error;
use proto::Nonce;
use tokio::sync::watch;

use super::{
    client::{CallError, EtcdClient},
    keys::Keys,
};
use crate::LedgerError;

/// Renewals in the life of a lease: five may be lost before the sixth is too late.
const RENEWALS: u32 = 6;
/// The part of a lease's life that is left unused: clocks differ in pace, and etcd may end a lease a little early.
const MARGIN: u32 = 4;

/// A lease on the lead, shared by all that must know whether this process leads.
pub struct LeaderLease {
    path: PathBuf,
    /// Revision at which the leader's key was made: etcd compares it in every write.
    pub(super) revision: i64,
    /// Under which etcd knows the lease.
    pub(super) id: i64,
    life: Duration,
    /// No other process can lead before then.
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
}

impl LeaderLease {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how long this process still leads for certain; `None` where it does not.
    pub fn left(&self) -> Option<Duration> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        left.filter(|_| !*self.lost.borrow())
    }

    pub(super) fn check(&self) -> Result<(), LedgerError> {
        match self.left() {
            Some(_) => Ok(()),
            None => Err(LedgerError::NotLeader { path: self.path.clone() }),
        }
    }

    /// Ends the lead of this process, for good.
    pub(super) fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Returns once this process does not lead any more.
    pub async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        // An error: the sender is gone, and the lease with it.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// Notes that a renewal requested at `requested` was granted.
    fn renewed(&self, requested: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(requested + self.life - self.life / MARGIN);
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A won election. Its lease is given back when this is dropped.
pub struct Term {
    pub(super) client: Arc<EtcdClient>,
    pub(super) keys: Keys,
    ledger: Nonce,
    lease: Arc<LeaderLease>,
}

/// A lease as etcd granted it.
pub(super) struct GrantedLease {
    pub id: i64,
    pub life: Duration,
    /// An instant before the request.
    pub requested: Instant,
}

impl Term {
    pub(super) fn begin(
        client: Arc<EtcdClient>,
        keys: Keys,
        ledger: Nonce,
        granted: GrantedLease,
        revision: i64,
    ) -> Self {
        let GrantedLease { id, life, requested } = granted;
        let path = client.name().to_owned();
        let until = Mutex::new(requested + life - life / MARGIN);
        let lease =
            Arc::new(LeaderLease { path, revision, id, life, until, lost: watch::Sender::new(false) });
        client.spawn(keep_alive(client.clone(), lease.clone()));
        Self { client, keys, ledger, lease }
    }

    /// Returns the id of the ledger.
    pub fn ledger(&self) -> Nonce {
        self.ledger
    }

    /// Returns the lease that the term lasts for.
    pub fn lease(&self) -> &Arc<LeaderLease> {
        &self.lease
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.lease.lose();
        let client = self.client.clone();
        let id = self.lease.id;
        self.client.spawn(async move { give_back(&client, id).await });
    }
}

/// Revokes the lease, so that the next leader need not wait for its end.
pub(super) async fn give_back(client: &EtcdClient, id: i64) {
    let revoked = client.call(Duration::from_secs(1), async |mut client| client.lease_revoke(id).await).await;
    if let Err(failure) = revoked {
        tracing::debug!(?failure, "a lease was left to end by itself");
    }
}

/// Renews the lease until it is lost: resigned, gone from etcd, or not renewed in time.
async fn keep_alive(client: Arc<EtcdClient>, lease: Arc<LeaderLease>) {
    let every = lease.life / RENEWALS;
    let mut lost = lease.lost.subscribe();
    loop {
        let requested = Instant::now();
        match renew(&client, &lease, every).await {
            Ok(()) => lease.renewed(requested),
            Err(CallError::Refused(reason)) => {
                tracing::warn!(reason, "the lead is lost");
                return lease.lose();
            }
            Err(CallError::Unknown(reason)) => {
                tracing::warn!(reason, left = ?lease.left(), "the lease was not renewed")
            }
        }
        let next = (requested + every).min(lease.until());
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            _ = lost.wait_for(|lost| *lost) => return,
        }
        if lease.left().is_none() {
            tracing::warn!("the lead is lost: the lease was not renewed in time");
            return lease.lose();
        }
    }
}

async fn renew(client: &EtcdClient, lease: &LeaderLease, limit: Duration) -> Result<(), CallError> {
    let limit = lease.left().unwrap_or_default().min(limit);
    let id = lease.id;
    // The first answer of the stream is a renewal; a stream of its own each time needs no watching over.
    let renewed = client.call(limit, async |mut client| match client.lease_keep_alive(id).await {
        Err(Error::LeaseKeepAliveError(reason)) if reason.contains("not found") => Ok(Err(reason)),
        renewed => renewed.map(|_| Ok(())),
    });
    renewed.await?.map_err(CallError::Refused)
}
