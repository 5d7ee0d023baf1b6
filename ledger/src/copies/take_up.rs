//! Taking a ledger up: comparing it with its anchor, and naming a new opening in both.

use std::{
    io,
    path::{Path, PathBuf},
};

use durable_io::crash_point;
use proto::Nonce;
use redb::{ReadTransaction, ReadableTable};

use crate::{
    Ledger, LedgerError, Result, chain,
    chain::event::Event,
    error::Fail,
    record::{JobRecord, JobState},
    store::{Outcome, height::Height},
    tables::{self, ENTRIES, HEADS, IDENTITY, JOBS},
};

use super::{
    anchor::{Anchor, anchor_path, is_read_only},
    file_identity::FileIdentity,
    guard::{Guard, Proof},
};

/// The beginning of the names of openings in the table of identity; the rest names the anchor.
pub const OPENING: &str = "opening/";

/// The place of a ledger's anchor: beside a file, for one holder of it.
#[derive(Clone, Debug)]
pub struct AnchorPlace {
    beside: PathBuf,
    /// The name of the latest opening in the table of identity.
    known_as: String,
}

impl AnchorPlace {
    /// Returns the place beside a key's file. `commitment` identifies the key: each has an anchor of its own.
    pub fn of_key(file: &Path, commitment: &[u8; 32]) -> Self {
        Self { beside: file.to_owned(), known_as: format!("{OPENING}{}", hex::encode(&commitment[..16])) }
    }

    /// Returns the place beside the ledger's own file, for a process that has no key.
    pub fn of_ledger(file: &Path) -> Self {
        Self { beside: file.to_owned(), known_as: format!("{OPENING}ledger") }
    }
}

/// What the ledger says of itself.
struct Known {
    ledger: Nonce,
    opening: Option<Nonce>,
    file: Option<FileIdentity>,
    height: u64,
}

impl Known {
    fn read(transaction: &ReadTransaction, place: &AnchorPlace) -> Result<Self, Fail> {
        let identity = transaction.open_table(IDENTITY)?;
        Ok(Self {
            ledger: tables::current_id(&identity)?,
            opening: identity.get(&*place.known_as)?.map(|bytes| Nonce::from_bytes(bytes.value())),
            file: identity.get(tables::LEDGER_FILE)?.map(|bytes| FileIdentity::from_bytes(bytes.value())),
            height: height(transaction)?,
        })
    }

    /// Compares the ledger with the file that it is in now, and with its anchor.
    fn compare(&self, here: Option<FileIdentity>, found: Option<&Anchor>, path: &Path) -> Result<(), Proof> {
        let other = |noted: Option<FileIdentity>| match (noted, here) {
            (Some(noted), Some(here)) if noted.differs_from(here) => Some((noted, here)),
            _ => None,
        };
        let anchor = path.display().to_string();
        let proof = |found: String| Err(Proof { found, witness: anchor.clone() });
        if let Some((noted, here)) = other(self.file) {
            let found = format!("it was last used as another file ({noted}) than it is now ({here})");
            return Err(Proof { found, witness: "the ledger itself".to_owned() });
        }
        let Some(anchor) = found else {
            return match self.opening {
                Some(_) => proof(
                    "the anchor of its latest opening is missing; it goes wherever the key goes".to_owned(),
                ),
                None => Ok(()),
            };
        };
        if let Some(id) = anchor.adopted_as {
            return proof(format!("a copy of it was adopted, as ledger {id}"));
        }
        if anchor.ledger != self.ledger || !anchor.agrees(self.opening) {
            return proof("its anchor names another opening than its latest one".to_owned());
        }
        if let Some((noted, here)) = other(anchor.file) {
            return proof(format!("its anchor names another file ({noted}) than it is now ({here})"));
        }
        if anchor.height() > self.height {
            let seen = anchor.height();
            let has = self.height;
            return proof(format!("its anchor has seen {seen} entries of its chains, and it has {has}"));
        }
        Ok(())
    }
}

impl Ledger {
    /// Takes the ledger up, before anything is bound: compares it with the file that it is in and with the anchor at
    /// `place`, and names a new `opening` in both. A ledger that is a copy is left as it is; from then on it can be read,
    /// and neither binds a row, opens a branch nor creates a job ([`Ledger::copied`]).
    ///
    /// Where the anchor's folder can't be written to, and never could be, there is no anchor, and the file alone is
    /// compared. A process that ends in between raises no alarm at the next opening.
    ///
    /// # Errors
    /// [`LedgerError::Io`] and those of the store.
    pub fn take_up(&self, place: &AnchorPlace, opening: Nonce) -> Result<()> {
        let known = self.store.read(|transaction| Known::read(transaction, place))?;
        let path = anchor_path(&place.beside, &known.ledger);
        let here = FileIdentity::of(self.store.path());
        let compared = match Anchor::read(&path) {
            Ok(found) => known.compare(here, found.as_ref(), &path),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let found = format!("its anchor is none: {error}");
                Err(Proof { found, witness: path.display().to_string() })
            }
            Err(error) => return Err(io_error(&path, error)),
        };
        if let Err(proof) = compared {
            self.copies.stop(self.store.path(), proof);
            return Ok(());
        }
        let anchor = Anchor::announcing(known.ledger, opening, known.opening, known.height).of_file(here);
        let has_anchor = announced(&anchor, &path, known.opening.is_none())?;
        crash_point("ledger::anchor::noted");
        self.store.write("take_up", |transaction| {
            let mut identity = transaction.redb().open_table(IDENTITY)?;
            if has_anchor {
                identity.insert(&*place.known_as, *opening.as_bytes())?;
            }
            if let Some(here) = here {
                identity.insert(tables::LEDGER_FILE, here.to_bytes())?;
            }
            Ok(Outcome::Commit(()))
        })?;
        crash_point("ledger::anchor::known");
        if has_anchor { self.settle(anchor, &path) } else { Ok(()) }
    }

    /// Looks whether the anchor was replaced since the ledger was taken up, which every change finds out too: by a copy that was
    /// taken up elsewhere. Then the ledger is stopped ([`Ledger::copied`]).
    pub fn look_at_anchor(&self) {
        self.store.look_at_anchor();
    }

    /// Returns the error that a ledger which was taken up answers with where it is a copy; `None` where it is not known to
    /// be one.
    pub fn copied(&self) -> Option<LedgerError> {
        self.copies.proof()
    }

    /// Returns the same open ledger, which binds again although it is a copy: to be adopted, and for nothing else.
    pub fn for_adoption(&self) -> Self {
        Self { copies: Guard::default(), ..self.clone() }
    }

    /// Takes a copy over as a ledger of its own, in the file where it is now, under a new id: what workers know of the
    /// ledger that it is a copy of says nothing about it from then on. The chain of every job says so. Every running
    /// job needs a branch first, which `release::adoption` opens.
    ///
    /// # Errors
    /// [`LedgerError::Io`] and those of the store.
    pub fn take_over(&self, place: &AnchorPlace, id: Nonce, opening: Nonce) -> Result<()> {
        let known = self.store.read(|transaction| Known::read(transaction, place))?;
        let path = anchor_path(&place.beside, &id);
        let here = FileIdentity::of(self.store.path());
        let anchor = Anchor::announcing(id, opening, None, known.height).of_file(here);
        let has_anchor = announced(&anchor, &path, true)?;
        crash_point("ledger::adopt::noted");
        self.store.write("adopt", |transaction| {
            let mut identity = transaction.redb().open_table(IDENTITY)?;
            identity.retain(|name, _| !name.starts_with(OPENING) && name != tables::LEDGER_FILE)?;
            identity.insert(tables::ADOPTED_ID, *id.as_bytes())?;
            if has_anchor {
                identity.insert(&*place.known_as, *opening.as_bytes())?;
            }
            if let Some(here) = here {
                identity.insert(tables::LEDGER_FILE, here.to_bytes())?;
            }
            let mut jobs = Vec::new();
            for entry in transaction.open_table(JOBS)?.iter()? {
                jobs.push(tables::decode::<JobRecord>(entry?.1.value())?);
            }
            for record in jobs.iter().filter(|record| record.state != JobState::Destroyed) {
                chain::append(transaction, &record.job, &Event::Adopted { ledger: id })?;
            }
            Ok(Outcome::Commit(()))
        })?;
        crash_point("ledger::adopt::known");
        if has_anchor {
            self.settle(anchor, &path)?;
            self.mark_original(place, &known, id)?;
        }
        Ok(())
    }

    /// Says in the anchor of the ledger that this was a copy of, where there is one here, that a copy continues: where both
    /// share a key's folder, the other one is found by that.
    fn mark_original(&self, place: &AnchorPlace, original: &Known, id: Nonce) -> Result<()> {
        let path = anchor_path(&place.beside, &original.ledger);
        let Ok(Some(anchor)) = Anchor::read(&path) else { return Ok(()) };
        anchor.superseded(id).write(&path).map_err(|error| io_error(&path, error))
    }

    /// Writes the anchor for a ledger that has its opening, and lets it follow the ledger from then on.
    fn settle(&self, anchor: Anchor, path: &Path) -> Result<()> {
        // With the entries that the taking up itself has added.
        let anchor = anchor.settled(self.store.read(height)?);
        let copies = self.copies.clone();
        let ledger = self.store.path().to_owned();
        let witness = path.display().to_string();
        let on_replaced = move || {
            let found = "its anchor was replaced or removed while it was open, as a copy that is taken up elsewhere does";
            copies.stop(&ledger, Proof { found: found.to_owned(), witness: witness.clone() });
        };
        let written = anchor.write(path).and_then(|()| Height::open(path, anchor.height(), on_replaced));
        self.store.follow(written.map_err(|error| io_error(path, error))?);
        Ok(())
    }
}

/// Counts the entries of all chains, without archives: to archive the jobs of an older copy makes it no newer.
pub fn height(transaction: &ReadTransaction) -> Result<u64, Fail> {
    let entries = transaction.open_table(ENTRIES)?;
    let mut height = 0;
    for head in transaction.open_table(HEADS)?.iter()? {
        let (chain, head) = head?;
        let is_archived = head.value().0 > 0 && entries.get((chain.value(), 0))?.is_none();
        height += head.value().0 - u64::from(is_archived);
    }
    Ok(height)
}

/// Writes the anchor; returns false where there is none, and never was, because its folder can't be written to.
fn announced(anchor: &Anchor, path: &Path, is_first: bool) -> Result<bool> {
    match anchor.write(path) {
        Ok(()) => Ok(true),
        Err(error) if is_first && is_read_only(&error) => Ok(false),
        Err(error) => Err(io_error(path, error)),
    }
}

fn io_error(path: &Path, error: io::Error) -> LedgerError {
    LedgerError::Io { path: path.to_owned(), reason: error.to_string() }
}
