//! The anchor of a ledger in a checkpoint store: like the one beside its file, but elsewhere, so that it does not go back with
//! the ledger's volume; and renewed by the process that has the ledger open, so that two processes on two copies find out.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use proto::Nonce;
use redb::ReadTransaction;
use serde::{Deserialize, Serialize};

use crate::{
    Ledger, LedgerError, Result,
    error::Fail,
    store::Outcome,
    tables::{self, IDENTITY},
};

use super::{
    guard::Proof,
    store_lease::{AnchorTrouble, StoreLease},
    take_up::height,
};

/// The beginning of the names of openings by anchors in checkpoint stores, in the table of identity. An adoption drops them with
/// all that begin with [`super::take_up::OPENING`].
const OF_STORES: &str = "opening/store-";

/// The file of the random number that Linux draws when it starts.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The contents of an anchor in a checkpoint store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAnchor {
    ledger: Nonce,
    /// Drawn when the anchor was created: the ledger keeps its openings by it, so that another store, or none, in between
    /// raises no alarm.
    place: Nonce,
    opening: Nonce,
    /// The opening before; present until the ledger has this one too.
    before: Option<Nonce>,
    is_settled: bool,
    /// Entries of all chains, at least.
    height: u64,
    /// How long after a renewal another process must see none.
    lease_ms: u64,
    /// The file that the anchor is renewed for; `None` once its process has ended in order.
    holder: Option<Holder>,
    /// Drawn for each write.
    written: Nonce,
}

/// An open file among all of them. On one running kernel, one file has one holder, by its lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    boot: Option<String>,
    device: u64,
    inode: u64,
}

impl Holder {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let boot = fs::read_to_string(BOOT_ID).ok().map(|boot| boot.trim().to_owned());
        Some(Self { boot, device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns whether both are the same file on the same running kernel.
    fn is_same(&self, other: &Self) -> bool {
        self.boot.is_some() && self == other
    }
}

/// Random values for a taking up.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// Of the anchor, where there is none yet.
    pub place: Nonce,
    /// Of the opening.
    pub opening: Nonce,
    /// Of the write.
    pub written: Nonce,
}

impl StoreAnchor {
    /// Reads an anchor. Error: the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// Returns the bytes to store.
    ///
    /// # Errors
    /// [`LedgerError::Io`], which nothing in an anchor causes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|error| LedgerError::Io { path: "the anchor".into(), reason: error.to_string() })
    }

    /// Returns whether the two are one write of one process.
    pub fn is_same_write(&self, other: &Self) -> bool {
        self.written == other.written
    }

    /// Returns whether the two are of one opening.
    pub fn is_same_opening(&self, other: &Self) -> bool {
        self.opening == other.opening
    }

    /// Returns how long to watch whether an anchor that is held is renewed.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}

impl Ledger {
    /// Lets nothing be bound from now on without a lease of the anchor in the store with this URL. `now` is the clock of the
    /// lease, which never jumps.
    pub fn require_lease(&self, store: &str, now: fn() -> Instant) -> Arc<StoreLease> {
        self.copies.require_lease(store, now)
    }

    /// Returns whether a lease is required and was never held: until then another process may have the ledger.
    pub fn awaits_lease(&self) -> bool {
        self.copies.lease().is_some_and(|lease| !lease.was_held())
    }

    /// Returns whether a lease is required and is not held now: a copy of the ledger may be in use meanwhile.
    pub fn is_fenced(&self) -> bool {
        self.copies.lease().is_some_and(|lease| !lease.is_held())
    }

    /// Returns whether the ledger was ever taken up with an anchor in a checkpoint store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn had_store_anchor(&self) -> Result<bool> {
        self.store.read(|transaction| {
            let identity = transaction.open_table(IDENTITY)?;
            let first = identity.range(OF_STORES..)?.next().transpose()?;
            Ok(first.is_some_and(|(name, _)| name.value().starts_with(OF_STORES)))
        })
    }

    /// Returns why the anchor in the checkpoint store is not renewed; `None` where it is, or needs not be.
    pub fn anchor_trouble(&self) -> Option<AnchorTrouble> {
        self.copies.lease().and_then(StoreLease::trouble)
    }

    /// Stops the ledger as a copy: `found` says why, and `witness` where that is written.
    pub fn stop_as_copy(&self, found: String, witness: String) {
        self.copies.stop(self.store.path(), Proof { found, witness });
    }

    /// Compares the ledger with its anchor in a checkpoint store, which `witness` names. Where they don't agree the ledger is
    /// stopped as a copy, and this returns false.
    ///
    /// # Errors
    /// Those of the store.
    pub fn agrees_with(&self, anchor: &StoreAnchor, witness: &str) -> Result<bool> {
        let known = self.store.read(|transaction| Known::read(transaction, &anchor.place))?;
        let Err(found) = known.compare(anchor) else { return Ok(true) };
        self.stop_as_copy(found, witness.to_owned());
        Ok(false)
    }

    /// Returns whether the process that renewed the anchor may still do so: it has not ended in order, and had not this very
    /// file, whose lock this process has now.
    pub fn may_be_held(&self, anchor: &StoreAnchor) -> bool {
        let here = Holder::of(self.store.path());
        anchor.holder.as_ref().is_some_and(|holder| !here.is_some_and(|here| holder.is_same(&here)))
    }

    /// Returns the anchor that announces a new opening, to be written over the one that was found: until the ledger has the
    /// opening, the one before is right too.
    ///
    /// # Errors
    /// Those of the store.
    pub fn announcement(
        &self,
        found: Option<&StoreAnchor>,
        draws: Draws,
        lease: Duration,
    ) -> Result<StoreAnchor> {
        let place = found.map_or(draws.place, |found| found.place);
        let known = self.store.read(|transaction| Known::read(transaction, &place))?;
        Ok(StoreAnchor {
            ledger: known.ledger,
            place,
            opening: draws.opening,
            before: known.opening,
            is_settled: false,
            height: known.height,
            lease_ms: lease.as_millis().try_into().unwrap_or(u64::MAX),
            holder: Holder::of(self.store.path()),
            written: draws.written,
        })
    }

    /// Notes in the ledger the opening that `anchor`, which is in the store by now, announces.
    ///
    /// # Errors
    /// Those of the store.
    pub fn note_opening(&self, anchor: &StoreAnchor) -> Result<()> {
        self.store.write("take_up", |transaction| {
            let mut identity = transaction.redb().open_table(IDENTITY)?;
            identity.insert(&*known_as(&anchor.place), *anchor.opening.as_bytes())?;
            Ok(Outcome::Commit(()))
        })
    }

    /// Returns the anchor for a ledger that has its opening, as it is now.
    ///
    /// # Errors
    /// Those of the store.
    pub fn renewal(&self, anchor: &StoreAnchor, written: Nonce) -> Result<StoreAnchor> {
        let height = self.store.read(height)?;
        Ok(StoreAnchor { before: None, is_settled: true, height, written, ..anchor.clone() })
    }

    /// Returns the last anchor of a process that ends in order: another one need not wait.
    ///
    /// # Errors
    /// Those of the store.
    pub fn parting(&self, anchor: &StoreAnchor, written: Nonce) -> Result<StoreAnchor> {
        Ok(StoreAnchor { holder: None, ..self.renewal(anchor, written)? })
    }
}

/// What the ledger says of itself.
struct Known {
    ledger: Nonce,
    opening: Option<Nonce>,
    height: u64,
}

impl Known {
    fn read(transaction: &ReadTransaction, place: &Nonce) -> Result<Self, Fail> {
        let identity = transaction.open_table(IDENTITY)?;
        Ok(Self {
            ledger: tables::current_id(&identity)?,
            opening: identity.get(&*known_as(place))?.map(|bytes| Nonce::from_bytes(bytes.value())),
            height: height(transaction)?,
        })
    }

    /// Returns what does not agree, as an error.
    fn compare(&self, anchor: &StoreAnchor) -> Result<(), String> {
        let is_announced = !anchor.is_settled && self.opening == anchor.before;
        if anchor.ledger != self.ledger || !(self.opening == Some(anchor.opening) || is_announced) {
            return Err(
                "its anchor in the checkpoint store names another opening than its latest one".to_owned()
            );
        }
        if anchor.height > self.height {
            let seen = anchor.height;
            let has = self.height;
            return Err(format!(
                "its anchor in the checkpoint store has seen {seen} entries of its chains, and it has {has}"
            ));
        }
        Ok(())
    }
}

/// Returns the name of the latest opening by this anchor in the table of identity.
fn known_as(place: &Nonce) -> String {
    format!("{OF_STORES}{}", hex::encode(&place.as_bytes()[..16]))
}
