//! Being the leader: a key under a lease, and how long this process may count on it.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use etcd_client::Error;
use tokio::sync::watch;

use super::{
    keys::Keys,
    wire::{Failure, Wire},
};
use crate::LedgerError;

/// Renewals in the life of a lease.
const RENEWALS: u32 = 6;
/// The part of a lease's life that is left unused: clocks differ in pace, and etcd may end a lease a little early.
const MARGIN: u32 = 4;

/// Shared by whoever must know whether this process leads.
pub struct Seat {
    path: PathBuf,
    /// Revision at which the leader's key was made: etcd compares it in every write.
    pub(super) revision: i64,
    pub(super) lease: i64,
    life: Duration,
    /// Until then nobody else can lead.
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
}

impl Seat {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How long this process still leads for certain; `None` where it does not.
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

    /// For good.
    pub(super) fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Returns once this process leads no more.
    pub async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        // An error: nobody can lose it any more, which is lost as well.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    /// A renewal that was asked for at `asked` was granted.
    fn renewed(&self, asked: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(asked + self.life - self.life / MARGIN);
    }

    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seat that was won. The lease is given back when this is dropped.
pub struct Term {
    pub(super) wire: Arc<Wire>,
    pub(super) keys: Keys,
    seat: Arc<Seat>,
}

/// What etcd granted.
pub(super) struct Granted {
    pub lease: i64,
    pub life: Duration,
    /// Before it was asked for.
    pub asked: Instant,
}

impl Term {
    pub(super) fn begin(wire: Arc<Wire>, keys: Keys, granted: Granted, revision: i64) -> Self {
        let Granted { lease, life, asked } = granted;
        let path = wire.name().to_owned();
        let until = Mutex::new(asked + life - life / MARGIN);
        let seat = Arc::new(Seat { path, revision, lease, life, until, lost: watch::Sender::new(false) });
        wire.spawn(keep(wire.clone(), seat.clone()));
        Self { wire, keys, seat }
    }

    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.seat.lose();
        let wire = self.wire.clone();
        let lease = self.seat.lease;
        self.wire.spawn(async move { give_back(&wire, lease).await });
    }
}

/// So that the next leader need not wait for the lease to end.
pub(super) async fn give_back(wire: &Wire, lease: i64) {
    let revoked =
        wire.call(Duration::from_secs(1), async |mut client| client.lease_revoke(lease).await).await;
    if let Err(failure) = revoked {
        tracing::debug!(?failure, "a lease was left to end by itself");
    }
}

/// Renews until the seat is lost: given up, gone from etcd, or not renewed in time.
async fn keep(wire: Arc<Wire>, seat: Arc<Seat>) {
    let every = seat.life / RENEWALS;
    let mut lost = seat.lost.subscribe();
    loop {
        let asked = Instant::now();
        match renew(&wire, &seat, every).await {
            Ok(()) => seat.renewed(asked),
            Err(Failure::Refused(reason)) => {
                tracing::warn!(reason, "the lead is lost");
                return seat.lose();
            }
            Err(Failure::Open(reason)) => {
                tracing::warn!(reason, left = ?seat.left(), "the lease was not renewed")
            }
        }
        let next = (asked + every).min(seat.until());
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            _ = lost.wait_for(|lost| *lost) => return,
        }
        if seat.left().is_none() {
            tracing::warn!("the lead is lost: the lease was not renewed in time");
            return seat.lose();
        }
    }
}

async fn renew(wire: &Wire, seat: &Seat, limit: Duration) -> Result<(), Failure> {
    let limit = seat.left().unwrap_or_default().min(limit);
    let lease = seat.lease;
    // The first answer of the stream is a renewal; a stream of its own each time needs no watching over.
    let renewed = wire.call(limit, async |mut client| match client.lease_keep_alive(lease).await {
        Err(Error::LeaseKeepAliveError(reason)) if reason.contains("not found") => Ok(Err(reason)),
        renewed => renewed.map(|_| Ok(())),
    });
    renewed.await?.map_err(Failure::Refused)
}
